package soma

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/stratamem/strata/storage"
)

// The NFC and NFD forms of an id are the same id: ids are stored in NFC and
// found by either form. Ids that look alike but differ are kept apart and
// reported. An id may be in any script; one that can be mistaken for another
// may not go unnoticed.

// canonMark begins the ids of canon entries.
const canonMark = "canon-"

// spellings returns the forms in which the store may have an id, the one
// written today first.
func spellings(id string) []string {
	if isASCII(id) {
		return []string{id}
	}
	list := []string{norm.NFC.String(id)}
	for _, form := range []string{norm.NFD.String(id), id} {
		if !slices.Contains(list, form) {
			list = append(list, form)
		}
	}
	return list
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// LookAlike is an entity whose id can be mistaken for another's.
type LookAlike struct {
	Key    string `json:"key"`
	Reason string `json:"reason"` // with code points, for what is invisible
}

// LookAlikes lists, by key, the entities whose ids [Doubtful] reports or that
// look like another id. It reads only the keys of documents.
func (s *Store) LookAlikes(ctx context.Context) ([]LookAlike, error) {
	var list []LookAlike
	first := make(map[string]string) // by skeleton
	for key, err := range s.db.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("look for look-alikes: %w", err)
		}
		if !storage.IsDocument(key) {
			continue
		}
		id, _, err := idOf(key)
		if err != nil {
			continue // Check lists it
		}
		if reason := Doubtful(id); reason != "" {
			list = append(list, LookAlike{key, reason})
		}
		look := skeleton(strings.TrimPrefix(id, canonMark)) // as a promoted proposal will be called
		other, ok := first[look]
		if !ok {
			first[look] = key
			continue
		}
		was, _, _ := idOf(other)
		a, b := strings.TrimPrefix(was, canonMark), strings.TrimPrefix(id, canonMark)
		switch {
		case a == b: // a proposal and its canon entry, or one id in two types
		case norm.NFC.String(a) == norm.NFC.String(b):
			list = append(list, LookAlike{key, "its id is that of " + other + " in other code points: " + foreign(a, b)})
		default:
			list = append(list, LookAlike{key, "its id looks like that of " + other + ": " + foreign(a, b)})
		}
	}
	slices.SortFunc(list, func(a, b LookAlike) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// foreign names the letters in which two look-alikes differ.
func foreign(a, b string) string {
	var differ []string
	x, y := []rune(a), []rune(b)
	for i := 0; i < len(x) && i < len(y) && len(differ) < 3; i++ {
		if x[i] != y[i] {
			differ = append(differ, fmt.Sprintf("U+%04X for U+%04X", y[i], x[i]))
		}
	}
	return strings.Join(differ, ", ")
}

// scripts are the scripts whose letters resemble each other.
var scripts = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"Latin", unicode.Latin}, {"Cyrillic", unicode.Cyrillic}, {"Greek", unicode.Greek}, {"Armenian", unicode.Armenian}, {"Cherokee", unicode.Cherokee},
}

// Doubtful returns why a name can be mistaken for another, or "" if it sees no
// reason: a word mixes letters of Latin, Cyrillic, Greek, Armenian and
// Cherokee, or the name has an invisible character. Words in different scripts
// are fine, and so is a name entirely in one script that looks like one in
// another; [Store.LookAlikes] reports it if both exist. Neither notices l for
// 1, O for 0, or rn for m.
func Doubtful(name string) string {
	word, at := "", rune(0)
	for _, r := range name {
		switch {
		case r == 0xAD, r == 0x200B, r >= 0x200E && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x2069, r == 0xFEFF:
			return fmt.Sprintf("has the character U+%04X, which does not show", r)
		case !unicode.IsLetter(r) && !unicode.IsMark(r):
			word = ""
			continue
		}
		for _, s := range scripts {
			if !unicode.Is(s.table, r) {
				continue
			}
			if word != "" && word != s.name {
				if s.name == "Latin" { // name the other script, the stranger
					return fmt.Sprintf("has the %s letter U+%04X in a word with Latin ones", word, at)
				}
				return fmt.Sprintf("has the %s letter U+%04X in a word with %s ones", s.name, r, word)
			}
			word, at = s.name, r
		}
	}
	return ""
}

// skeleton returns what a name looks like: compatibility forms are normalized,
// and Cyrillic, Greek and Armenian letters become the Latin ones that most
// fonts draw the same. It covers the part of Unicode's confusables (UTS 39)
// that is used to deceive; the whole table, 6,000 pairs, mostly symbols, is not
// worth its size.
func skeleton(name string) string {
	if isASCII(name) {
		return name
	}
	return strings.Map(func(r rune) rune {
		if i := strings.IndexRune(strangers, r); i >= 0 {
			return rune(plainLetters[len([]rune(strangers[:i]))])
		}
		return r
	}, norm.NFKC.String(name))
}

const (
	strangers    = "аеорсухіјѕԁԛԝһӏАВЕКМНОРСТХІЈЅУοανιρυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսհոıɡɑ"
	plainLetters = "aeopcyxijsdqwhlABEKMHOPCTXIJSYoavipuxABEZHIKMNOPTYXouhniga"
)
