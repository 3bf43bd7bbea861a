package killtest_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tokens are words that nothing else has: q3a17q for a turn, z3d5z for the
// secret in an entity; the number of the round, a letter for who made it, and a
// number. tokens yields those in a text that begin with a letter.
func tokens(kind byte, text []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			at := bytes.IndexByte(text, kind)
			if at < 0 {
				return
			}
			text = text[at:]
			n := tokenLen(text)
			if n == 0 {
				text = text[1:]
				continue
			}
			if !yield(string(text[:n])) {
				return
			}
			text = text[n:]
		}
	}
}

// tokenLen is the length of the token that a text begins with, 0 if it begins
// with none.
func tokenLen(text []byte) int {
	i := 1
	digits := func() bool {
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		return i > from
	}
	if !digits() || i == len(text) || text[i] < 'a' || text[i] > 'p' {
		return 0
	}
	i++
	if !digits() || i == len(text) || text[i] != text[0] {
		return 0
	}
	return i + 1
}

func firstToken(kind byte, text string) string {
	for t := range tokens(kind, []byte(text)) {
		return t
	}
	return ""
}

// callID names the tool call of a turn without its token: what a run harvests
// into the archive is no part of the turn's batch, and may be there before it.
func callID(token string, n int) string {
	return strings.ReplaceAll(token, "q", "w") + string(rune('0'+n))
}

// packedEpoch is in the head of a lineage, in base64, which spells a token by chance
// once in a few hundred heads.
var packedEpoch = regexp.MustCompile(`"epoch":"[A-Za-z0-9+/=]*"`)

// TestPackedEpoch shows that a head is searched but for its epoch.
func TestPackedEpoch(t *testing.T) {
	head := []byte(`{"v":4,"execution":"q1a2q","epoch":"KLUv/q0a7q6v==","more":"q3a4q"}`)
	var got []string
	for token := range tokens('q', packedEpoch.ReplaceAll(head, nil)) {
		got = append(got, token)
	}
	if !slices.Equal(got, []string{"q1a2q", "q3a4q"}) {
		t.Errorf("found %q", got)
	}
}
