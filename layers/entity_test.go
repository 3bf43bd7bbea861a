package layers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/storage"
)

func TestEntity(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		c := talk(t, remember(t, store, layers.Entity(nil)), "monday", "r")
		c.say("I met Anna Berg in Oslo on Monday. She builds boats.", "Anna Berg sounds nice.")
		c.say("Anna's brother Tom is a cook. He hates fish.", "Noted.")
		c.say("Project Lighthouse starts in May, Tom said.", "ok")
		c.end()
		c = talk(t, remember(t, store, layers.Entity(nil)), "tuesday", "r")
		for _, q := range []struct {
			query string
			want  []string
			not   []string
		}{
			{"what do you know of anna?", []string{"Anna Berg\n- 2026-", "user: I met Anna Berg in Oslo on Monday."}, []string{"Tom said"}},
			{"Does TOM cook?", []string{"Tom\n", "Anna's brother Tom is a cook.", "Tom said."}, []string{"boats"}},
			{"And the lighthouse project?", []string{"Project Lighthouse starts in May"}, []string{"boats"}},
			{"What about May and Monday, she said?", nil, []string{"-"}},
			{"How are you?", nil, []string{"-"}},
		} {
			got := c.ask(q.query)
			for _, w := range q.want {
				if !strings.Contains(got, w) {
					t.Errorf("%s: shown\n%s\nwithout %q", q.query, got, w)
				}
			}
			for _, n := range q.not {
				if strings.Contains(got, n) {
					t.Errorf("%s: shown\n%s\nwith %q", q.query, got, n)
				}
			}
			if q.want == nil && !strings.Contains(c.note("entity"), "no known name") {
				t.Errorf("%s: note %q", q.query, c.note("entity"))
			}
			c.commit("Well.")
		}
		c.end()
		// Another person's layer knows nothing of it.
		c = talk(t, remember(t, store, layers.Entity(nil)), "other", "s")
		if got := c.ask("Who is Anna Berg?"); got != "" {
			t.Errorf("another resource is shown %q", got)
		}
	})
}

// What the prompt shows anyhow is left out, and a function in the place of the
// default loses nothing when it fails.
func TestEntityExtract(t *testing.T) {
	var fails error
	layer := layers.Entity(&layers.EntityOptions{
		TopK: 1, Mentions: 1,
		Extract: func(_ context.Context, list []layers.Event) ([]layers.Mention, error) {
			return []layers.Mention{{Name: "the harbour", Text: "was mentioned: " + list[0].Text, Time: list[0].Time, Item: list[0].ID}}, fails
		},
	})
	store := openMem(t)
	m := remember(t, store, layer)
	c := talk(t, m, "t", "r")
	elsewhere := func(question string) string {
		t.Helper()
		o := talk(t, m, "elsewhere", "r")
		got := o.ask(question)
		if err := o.run.Discard(t.Context()); err != nil {
			t.Error(err)
		}
		return got
	}
	c.say("We went down to the water.", "Nice.")
	if got := elsewhere("harbour"); !strings.Contains(got, "the harbour\n") || !strings.Contains(got, "was mentioned: We went down") {
		t.Errorf("shown %q", got)
	}
	fails = errors.New("model is down")
	c.say("Then we saw Gustav there.", "Who?")
	fails = nil
	c.say("Hm.", "Hm.")
	if got := elsewhere("gustav"); !strings.Contains(got, "we saw Gustav there") {
		t.Errorf("shown %q after a failure", got)
	}
	c.end()

	c = talk(t, remember(t, store, layers.Entity(nil)), "t2", "r")
	c.say("Is Gustav well?", "I hope that Gustav is.")
	if got := c.ask("gustav?"); strings.Contains(got, "Is Gustav well") || !strings.Contains(got, "we saw Gustav") {
		t.Errorf("shown %q, with what is in the prompt", got)
	}
}
