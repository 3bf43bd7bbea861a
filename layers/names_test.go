package layers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
)

const entityPrefix = "_layers/entity/resource/r/"

// What names have is found after their segments were merged, by two memories that
// write in turns, and a store that a third opens.
func TestEntityLongLife(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		const turns = 70 // beyond what level 0 holds
		writers := []*conversation{
			talk(t, remember(t, store, layers.Entity(nil)), "a", "r"), talk(t, remember(t, store, layers.Entity(nil)), "b", "r"),
		}
		for i := range turns {
			for w, c := range writers {
				c.say(fmt.Sprintf("We met Gudrun %d and then Olaf Number%d.", 10*i+w, i), "I see.")
			}
		}
		segments := 0
		for _, err := range store.List(t.Context(), entityPrefix+"r0/n/s/") {
			if err != nil {
				t.Fatal(err)
			}
			segments++
		}
		if segments > turns {
			t.Errorf("%d segments after %d turns", segments, 2*turns)
		}
		// What looks after indexes of words takes a head there for one of them.
		if _, _, err := store.Get(t.Context(), entityPrefix+"r0/head"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the records have the head of an index of words: %v", err)
		}
		c := talk(t, remember(t, store, layers.Entity(nil)), "c", "r")
		for i := range turns {
			got := c.ask(fmt.Sprintf("Who is Number%d?", i))
			for w := range writers {
				if want := fmt.Sprintf("We met Gudrun %d and then Olaf Number%d.", 10*i+w, i); !strings.Contains(got, want) {
					t.Fatalf("%d: shown\n%s\nwithout %q", i, got, want)
				}
			}
			c.commit("Somebody.")
		}
		got := c.ask("gudrun")
		if !strings.Contains(got, fmt.Sprintf("Gudrun %d ", 10*turns-9)) || strings.Contains(got, "Gudrun 0 ") || strings.Count(got, "\n- ") != 5 {
			t.Errorf("not the newest five mentions are shown:\n%s", got)
		}
	})
}

// Mentions as they were kept before there was an index are found beside new ones.
func TestEntityOlderStore(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		for _, m := range []struct{ word, key, value string }{
			{"anna", "00064c00aa27c200-48f0e7ad2bbd2c8f2bd9-000", `{"name":"Anna Berg","text":"Anna Berg builds boats.","speaker":"user","time":"2026-01-05T09:00:00Z","item":"i-1"}`},
			{"berg", "00064c00aa27c200-48f0e7ad2bbd2c8f2bd9-000", `{"name":"Anna Berg","text":"Anna Berg builds boats.","speaker":"user","time":"2026-01-05T09:00:00Z","item":"i-1"}`},
			{"anna", "00064c00aa27c201-48f0e7ad2bbd2c8f2bd9-001", `{"name":"Anna`},
		} {
			if err := storage.Set(t.Context(), store, entityPrefix+"r0/m/"+m.word+"/"+m.key, []byte(m.value)); err != nil {
				t.Fatal(err)
			}
		}
		c := talk(t, remember(t, store, layers.Entity(nil)), "t", "r")
		if got := c.say("what does anna do?", "We know that Anna Berg sails."); !strings.Contains(got, "- 2026-01-05 user: Anna Berg builds boats.") {
			t.Errorf("shown\n%s", got)
		}
		c.end()
		c = talk(t, remember(t, store, layers.Entity(nil)), "t2", "r")
		got := c.ask("Tell me of Berg")
		if !strings.Contains(got, "Anna Berg\n- 2026-") || !strings.Contains(got, "sails.\n- 2026-01-05 user: Anna Berg builds boats.") {
			t.Errorf("shown\n%s", got)
		}
	})
}

// A damaged segment makes the layer say so; it is no panic and no wrong answer.
func TestEntityDamagedSegment(t *testing.T) {
	for _, damage := range []string{"", "{", `{"names":[{"name":"Olaf","at":[1]}]}`, `{"turns":["x"],"names":[{"name":"Olaf","at":[7,0,0]}]}`} {
		store := openMem(t)
		c := talk(t, remember(t, store, layers.Entity(nil)), "a", "r")
		c.say("We met Olaf Berg.", "I see.")
		c.end()
		for key, err := range store.List(t.Context(), entityPrefix+"r0/n/s/") {
			if err != nil {
				t.Fatal(err)
			}
			if err := storage.Set(t.Context(), store, key, []byte(damage)); err != nil {
				t.Fatal(err)
			}
		}
		c = talk(t, remember(t, store, layers.Entity(nil)), "b", "r")
		c.ask("And Olaf?")
		report := c.run.Report()
		said := ""
		for _, h := range report.Hooks {
			if h.Layer == "entity" && h.Status == memory.StatusError {
				said = h.Error
			}
		}
		if !strings.Contains(said, "damaged") {
			t.Errorf("%q: reported %q", damage, said)
		}
	}
}

// TestEntityHostileNames takes names that are many, long or odd, and goes on.
func TestEntityHostileNames(t *testing.T) {
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "Xen%c%c%c met, ", 'a'+i%26, 'a'+i/26%26, 'a'+i/676)
	}
	odd := "Zo\u200bra and E\u0301lo\u0308dia and \u202eKarim and A" + strings.Repeat("\u0301", 2000) + "nna \U000e0041Bo and \ufeffFrida met."
	for name, c := range map[string]struct{ text, ask, want string }{
		"10,000 in an item":     {many.String(), "Who is Xenbaa?", "Xenbaa"},
		"one of a megabyte":     {"We met Olaf. He is B" + strings.Repeat("a", 1<<20) + " there. ", "Who is Olaf?", "We met Olaf."},
		"a megabyte of words":   {"We met Olaf. He is " + strings.Repeat("Anna ", 200_000), "Who is Olaf?", "We met Olaf."},
		"odd characters":        {"We met Olaf. " + odd, "Who is Olaf and E\u0301lo\u0308dia?", "E\u0301lo\u0308dia"},
		"zero-width characters": {"We met " + odd, "Who is Zo\u200bra?", ""},
		"nothing but marks":     {"We met Olaf and A" + strings.Repeat("\u200d\u0301", 100_000), "Who is Olaf?", "We met Olaf"},
	} {
		t.Run(name, func(t *testing.T) {
			for how, extract := range map[string]func(context.Context, []layers.Event) ([]layers.Mention, error){
				"found": nil,
				"given": func(_ context.Context, list []layers.Event) (out []layers.Mention, _ error) {
					for _, e := range list {
						for word := range strings.FieldsSeq(c.text) { // what the event has is cut
							out = append(out, layers.Mention{Name: word, Text: e.Text, Item: e.ID})
						}
					}
					return out, nil
				},
			} {
				store := openMem(t)
				layer := layers.Entity(&layers.EntityOptions{Extract: extract})
				m := remember(t, store, layer)
				talking := talk(t, m, "a", "r")
				for range 3 {
					talking.say("Tell me.", c.text)
				}
				talking.end()
				got := talk(t, m, "b", "r").ask(c.ask)
				if extract == nil && !strings.Contains(got, c.want) {
					t.Errorf("%s: shown\n%.400s\nwithout %q", how, got, c.want)
				}
				if len(got) > 8000 {
					t.Errorf("%s: %d bytes are shown", how, len(got))
				}
				size := 0
				for e, err := range storage.Scan(t.Context(), store, entityPrefix, nil) {
					if err != nil {
						t.Fatal(err)
					}
					size += len(e.Value)
				}
				if size > 3*100<<10 {
					t.Errorf("%s: the layer stores %d KB of %d KB", how, size>>10, 3*len(c.text)>>10)
				}
			}
		})
	}
}
