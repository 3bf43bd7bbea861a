package layers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/storage"
)

// senses is a model that knows a few words: those of a line mean the same.
func senses(texts []string) [][]float32 {
	lines := []string{"ship vessel boat", "ill sick unwell", "pay salary wage"}
	list := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, len(lines)+1)
		v[len(lines)] = 0.01
		for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
			for d, line := range lines {
				if strings.Contains(" "+line+" ", " "+word+" ") {
					v[d]++
				}
			}
		}
		list[i] = v
	}
	return list
}

func TestRecallVectors(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		var fails error
		given := 0
		with := func(model string) *layers.SemanticRecallOptions {
			return &layers.SemanticRecallOptions{Embed: &layers.Embedding{Model: model, Dimensions: 4, Embed: func(_ context.Context, texts []string) ([][]float32, error) {
				given = len(texts)
				return senses(texts), fails
			}}}
		}
		c := talk(t, remember(t, store, layers.SemanticRecall(with("senses"))), "monday", "r")
		c.say("The vessel is painted green.", "Fine.")
		fails = errors.New("model is down")
		c.say("My aunt was unwell.", "Oh no.")
		c.end()

		c = talk(t, remember(t, store, layers.SemanticRecall(with("senses"))), "tuesday", "r")
		if got := c.ask("Which ship?"); got != "" || !strings.Contains(c.note("semantic-recall"), "by words alone: model is down; ") {
			t.Errorf("shown %q, note %q", got, c.note("semantic-recall"))
		}
		fails = nil
		if got := c.ask("Tell me of a ship"); !strings.Contains(got, "The vessel is painted green.") || strings.Contains(got, "aunt") {
			t.Errorf("shown %q", got)
		}
		if got := c.ask("Is anybody sick?"); strings.Contains(got, "aunt") {
			t.Errorf("shown %q, which has no vector yet", got)
		}
		c.commit("No idea.")
		if given < 5 {
			t.Errorf("%d passages are given to the model, want those that waited as well", given)
		}
		c.end()
		c = talk(t, remember(t, store, layers.SemanticRecall(with("senses"))), "wednesday", "r")
		if got := c.ask("Is anybody sick?"); !strings.Contains(got, "My aunt was unwell.") {
			t.Errorf("shown %q", got)
		}
		for key, err := range store.List(t.Context(), "_layers/semantic-recall/resource/r/r0/w/") {
			t.Errorf("%s still waits, %v", key, err)
		}
		c.end()

		// Another model does not mix with it.
		c = talk(t, remember(t, store, layers.SemanticRecall(with("other"))), "thursday", "r")
		if got := c.say("Which vessel was painted?", "x"); !strings.Contains(got, "painted green") || !strings.Contains(c.note("semantic-recall"), "by words alone: ") {
			t.Errorf("shown %q, note %q", got, c.note("semantic-recall"))
		}
		c.end()
	})
}
