package layers_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
)

// TestLivesIn holds the expression against how it was: not anchored as a whole, which
// had it tried at each character.
func TestLivesIn(t *testing.T) {
	was := regexp.MustCompile(`(?i)^(?:i|we) (?:now |currently )?(?:live in|have moved to|moved to|just moved to)|^i(?:'ve| have) (?:just )?moved to|^i(?:'m| am)(?: now| currently)? based in`)
	parts := strings.Fields("I i we We I've I'm am have now currently just live in moved to based x")
	random := rand.New(rand.NewPCG(1, 1))
	matches := 0
	for range 200_000 {
		var list []string
		for range 1 + random.IntN(6) {
			list = append(list, parts[random.IntN(len(parts))])
		}
		s := strings.Join(list, " ")
		got, want := layers.LivesIn.FindStringIndex(s), was.FindStringIndex(s)
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", s, got, want)
		}
		if want != nil {
			matches++
		}
	}
	if matches < 100 {
		t.Errorf("only %d matches were compared", matches)
	}
}
