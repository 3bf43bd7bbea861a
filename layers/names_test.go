package layers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	for _, damage := range []string{
		"", "{", `{"names":[{"name":"Olaf","at":[1]}]}`, `{"turns":["x"],"names":[{"name":"Olaf","at":[7,0,0]}]}`,
		"\x02", "\x02\x00\x01\x04Olaf\x01\x00\x00", "\x02\x01\x01\x04Olaf\x01\x00\x00", "\x02\x00\x01\x04Olaf\x00", "\x03\x00\x00",
		"\x02\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00",
	} {
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

// TestEntityMerged holds what is recalled against all that was said, while segments
// are merged on every level by two memories that write in turns.
func TestEntityMerged(t *testing.T) {
	before := *layers.NameFanIn
	defer func() { *layers.NameFanIn = before }()
	*layers.NameFanIn = [3]int{3, 3, 3}
	random := rand.New(rand.NewPCG(1, 2))
	people := strings.Fields("Anna Bogdan Carmen Dmitri Elif Farid Greta Hiroshi Ines Jonas")
	store := openMem(t)
	now := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	open := func(n int) *conversation {
		m, err := memory.New(store, []memory.Layer{layers.Entity(nil)}, &memory.Options{Clock: func() time.Time {
			now = now.Add(time.Second)
			return now
		}})
		if err != nil {
			t.Fatal(err)
		}
		return talk(t, m, fmt.Sprint("thread ", n), "r")
	}
	writers := []*conversation{open(0), open(1)}
	var said []string
	for turn := range 150 {
		sentence := fmt.Sprintf("Number %d: we met %s.", turn%40, people[random.IntN(len(people))])
		if turn%2 == 0 {
			sentence = fmt.Sprintf("Number %d: we met %s and then %s.", turn%40, people[random.IntN(4)], people[random.IntN(len(people))])
		}
		writers[turn%2].say(sentence, "I see.")
		said = append(said, sentence)
		if turn%10 > 0 {
			continue
		}
		who := people[random.IntN(len(people))]
		var want []string
		for _, s := range slices.Backward(said) {
			if line := "\n- 2026-03-03 user: " + s; strings.Contains(s, who) && !slices.Contains(want, line) && len(want) < 5 {
				want = append(want, line)
			}
		}
		reader := open(2 + turn)
		got := reader.ask("What of " + strings.ToLower(who) + "?")
		if len(want) > 0 && got != who+strings.Join(want, "") || len(want) == 0 && got != "" {
			t.Fatalf("turn %d: of %s is shown\n%s\nwant%s", turn, who, got, strings.Join(want, ""))
		}
		reader.commit("Nothing.")
		reader.end()
	}
	segments := 0
	for _, err := range store.List(t.Context(), entityPrefix+"r0/n/s/") {
		if err != nil {
			t.Fatal(err)
		}
		segments++
	}
	if segments > 6 {
		t.Errorf("%d segments, where a level has 2 at most", segments)
	}
}

// TestEntityReadsOnce shows a mention no longer that is gone from the store, or says
// something else there.
func TestEntityReadsOnce(t *testing.T) {
	store := openMem(t)
	m := remember(t, store, layers.Entity(nil))
	c := talk(t, m, "a", "r")
	c.say("We met Olaf Berg.", "I see.")
	c.say("We met Olaf Berg again.", "I see.")
	c.end()
	c = talk(t, m, "b", "r")
	for range 2 {
		if got := c.ask("And Olaf?"); strings.Count(got, "\n- ") != 2 {
			t.Errorf("shown\n%s", got)
		}
		c.commit("Who?")
	}
	var records []string
	for key, err := range store.List(t.Context(), entityPrefix+"r0/n/d/") {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, key)
	}
	if err := store.Apply(t.Context(), storage.Remove(records[0]), storage.Put(records[1], []byte(`{"text":"Nobody met Olaf.","speaker":"user"}`))); err != nil {
		t.Fatal(err)
	}
	if got := c.ask("And Olaf?"); strings.Contains(got, "We met") || strings.Count(got, "\n- user: Nobody met Olaf.") != 1 {
		t.Errorf("after the records have changed is shown\n%s", got)
	}
}

func FuzzRoll(f *testing.F) {
	store, err := os.ReadFile("testdata/entity-10ac4c1.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(store) {
		var r struct {
			Key    string `json:"key"`
			Record []byte `json:"record"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			f.Fatal(err)
		}
		if strings.Contains(r.Key, "/n/s/") {
			f.Add(r.Record)
		}
	}
	f.Add([]byte("\x02\x01\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x00\x00\x00\x00\x01\x04Olaf\x01\x00\x07"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		names, again, err := layers.RollNames(stored)
		if names != nil && err != nil {
			t.Fatalf("a segment of one that is sound: %v", err)
		}
		if err == nil && !ordered(names) {
			return // what we do not write: newest first, once
		}
		if diff := cmp.Diff(names, again); err == nil && diff != "" {
			t.Errorf("what is made of a segment differs: %s", diff)
		}
	})
}

// ordered reports whether each name has a mention once, and no more than are kept.
func ordered(names map[string][]string) bool {
	for _, list := range names {
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) < len(list) || len(list) > 256 {
			return false
		}
	}
	return true
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
