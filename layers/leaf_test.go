package layers_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// countedNames finds for each turn, whose text is a number, as many names as one
// may have, some of them twice, and Olaf each time.
func countedNames(_ context.Context, list []layers.Event) ([]layers.Mention, error) {
	e := &list[0]
	var turn int
	if _, err := fmt.Sscan(e.Text, &turn); err != nil {
		return nil, nil
	}
	var out []layers.Mention
	for i := range 48 {
		m := layers.Mention{
			Name: fmt.Sprintf("Xenia %s Family%dx%d", strings.Repeat("y", 50), turn, i),
			Text: fmt.Sprintf("number %d of turn %d", i, turn), Speaker: "user", Time: e.Time, Item: e.ID,
		}
		out = append(out, m, m)
	}
	return append(out, layers.Mention{Name: "Olaf", Text: fmt.Sprint("Olaf was there in turn ", turn), Speaker: "user", Time: e.Time, Item: e.ID}), nil
}

// TestEntityManyNames finds names and mentions that are not in memory, and what is
// held of them has a bound.
func TestEntityManyNames(t *testing.T) {
	turns := 300
	if testing.Short() {
		turns = 150
	}
	store := openMem(t)
	opts := &layers.EntityOptions{Extract: countedNames, Mentions: 100}
	opts.Spec.Budget = projection.Exactly(20_000)
	writer := talk(t, remember(t, store, layers.Entity(opts)), "a", "r")
	for i := range turns {
		writer.say(fmt.Sprint(i), "I see.")
	}
	leaves := 0
	for _, err := range store.List(t.Context(), entityPrefix+"r0/n/b/") {
		if err != nil {
			t.Fatal(err)
		}
		leaves++
	}
	if leaves == 0 {
		t.Fatal("no segment is so large that it has leaves")
	}
	before := heap()
	layer := layers.Entity(opts)
	c := talk(t, remember(t, store, layer), "b", "r")
	for turn := 0; turn < turns; turn += 7 {
		got := c.ask(fmt.Sprintf("Who is Family%dx%d?", turn, turn%48))
		if want := fmt.Sprintf("user: number %d of turn %d", turn%48, turn); !strings.Contains(got, want) || strings.Count(got, "\n- ") != 1 {
			t.Fatalf("%d: shown\n%s\nwant %q alone", turn, got, want)
		}
		c.commit("Somebody.")
	}
	got := c.ask("And Olaf?")
	for turn := turns - 100; turn < turns; turn++ { // more than are kept in memory
		if want := fmt.Sprintf("user: Olaf was there in turn %d\n", turn); !strings.Contains(got+"\n", want) {
			t.Fatalf("shown\n%s\nwithout %q", got, want)
		}
	}
	c.commit("Yes.")
	held := heap() - before
	runtime.KeepAlive(layer)
	t.Logf("%d KB are held of %d names", held>>10, 48*turns)
	if most := uint64(12 << 20); held > most {
		t.Errorf("%d KB are held, over %d", held>>10, most>>10)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
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
