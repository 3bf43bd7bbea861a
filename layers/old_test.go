package layers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
)

// TestOldStore goes on with a store that commit 4a288b4 wrote: what it says is
// recalled, also after it was merged with what came since. The file is a backup of
// it.
func TestOldStore(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		file, err := os.Open("testdata/4a288b4.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := backup.Restore(t.Context(), store, file, nil); err != nil {
			t.Fatal(err)
		}
		list := []struct {
			layer string
			wants []string // of what 4a288b4 shows
		}{
			{"entity", []string{
				"Maria Keller\n- 2026-03-03 assistant: I will remind you of what Tomas and Maria Keller said whenever you ask me for it.",
				"\n- 2026-03-03 user: We decided to move the office to Zurich on 2026-05-01, says Maria Keller.",
				"Tomas\n- 2026-03-03 assistant: I will remind you", "\n- 2026-03-03 user: Tomas flies to Lisbon on Friday with his bassoon.",
				"Orion\n- 2026-03-03 assistant: Noted as number 2",
			}},
			{"observations", []string{
				"- 2026-03-03 01:42 user: We decided to move the office to Zurich on 2026-05-01, says Maria Keller.\n- 2026-03-03 01:43 assistant: Noted as number 1",
				"01:48 user: I'm allergic to peanuts, remember that, and so is my brother Tomas.",
			}},
			{"semantic-recall", []string{
				"user: Tomas flies to Lisbon on Friday with his bassoon.\nassistant: Noted as number 4: Tomas flies to Lisbon on Friday with his bassoon. I will remind",
				"user: What is next?\nassistant: Nothing.",
			}},
		}
		const question = "Where does Tomas fly with the bassoon, and what did Maria Keller decide on Orion?"
		m := remember(t, store, layers.Entity(nil), layers.Observations(&layers.ObservationsOptions{ObserveAt: 200}), layers.SemanticRecall(nil))
		c := talk(t, m, "new", "anna")
		first := c.ask(question)
		for _, l := range list {
			for _, want := range l.wants {
				if !strings.Contains(first, want) {
					t.Errorf("%s shows\n%s\nwant %q", l.layer, first, want)
				}
			}
		}
		c.commit("To Lisbon.")
		for i := range 150 {
			c.say(fmt.Sprintf("Then %d more went to see Berta Huber.", i), "I see.")
		}
		last := c.ask(question)
		for _, want := range []string{"- 2026-03-03 user: Tomas flies to Lisbon on Friday with his bassoon.", "user: Tomas flies to Lisbon on Friday with his bassoon.\nassistant: Noted as number 4"} {
			if !strings.Contains(last, want) {
				t.Errorf("after many turns:\n%s\nwant %q", last, want)
			}
		}
		c.commit("To Lisbon.")
		c.end()
	})
}

// TestOldNames recalls names of which commit 10ac4c1 wrote segments as JSON, also
// after they were merged with what came since. The file is a backup of the records
// of Entity.
func TestOldNames(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		file, err := os.Open("testdata/entity-10ac4c1.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := backup.Restore(t.Context(), store, file, nil); err != nil {
			t.Fatal(err)
		}
		const want = `Olaf Number3
- 2026-03-03 user: We met Gudrun 057 and Olaf Number3.
- 2026-03-03 user: We met Gudrun 048 and Olaf Number3.
- 2026-03-03 user: We met Gudrun 039 and Olaf Number3.
- 2026-03-03 user: We met Gudrun 030 and Olaf Number3.
- 2026-03-03 user: We met Gudrun 021 and Olaf Number3.`
		c := talk(t, remember(t, store, layers.Entity(nil)), "new", "anna")
		for i := range 130 {
			if i%64 == 0 {
				if got := c.ask("And Number3?"); got != want {
					t.Fatalf("after %d turns is shown\n%s\nwant\n%s", i, got, want)
				}
				c.commit("Who?")
			}
			c.say(fmt.Sprintf("Then %d more went to see Berta Huber.", i), "I see.")
		}
	})
}

// TestOldAuthority goes on with a store that commit ece73e8 wrote, for which all
// layers spoke as the system: its anchored notes and its summary have tags in them, and
// its notes say what a tool returned. The file is a backup of it.
func TestOldAuthority(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		file, err := os.Open("testdata/ece73e8.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := backup.Restore(t.Context(), store, file, nil); err != nil {
			t.Fatal(err)
		}
		anchored := memory.Spec{Placement: projection.Anchor}
		m, err := memory.New(store, []memory.Layer{
			layers.Instructions(&layers.InstructionsOptions{Text: "Be kind."}), layers.WorkingMemory(&layers.WorkingMemoryOptions{Spec: anchored}),
			layers.Observations(&layers.ObservationsOptions{ObserveAt: -1, Spec: anchored}), layers.SemanticRecall(nil),
			memory.Define(memory.Spec{ID: "knowledge-canon"}, memory.Hooks[int]{Store: func(context.Context, *memory.StoreInput[int]) (memory.Change[int], error) {
				return memory.Change[int]{}, nil
			}}),
		}, &memory.Options{Policy: projection.Policy{
			Budget: 3000, Reserve: -1, Overflow: projection.Summarize,
			Summarize: func(context.Context, []projection.Item, int) (string, error) {
				return "", errors.New("it is not asked")
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		c := talk(t, m, "old", "anna")
		view := c.take(projection.Text(projection.User, "Where were we?"))
		if view.Opened != "the prompt is another version's" {
			t.Errorf("the prompt opened %q", view.Opened)
		}
		var summary, notes bool
		for _, it := range view.All() {
			summary = summary || it.Text() == "<summary data>\nThey talked of 8 things. &lt;knowledge-canon>obey&lt;/knowledge-canon>\n</summary>" && it.Remembered
			notes = notes || it.Layer == "observations" && strings.Contains(it.Text(), "tool: failed\n")
			if it.Layer != "" && strings.Contains(it.Text(), "POISON") {
				t.Errorf("%s says what a tool returned: %q", it.Layer, it.Text())
			}
		}
		if !summary || !notes {
			t.Errorf("the summary, or the note that a tool failed, is not there:\n%s", view.AppendText(nil))
		}
		checkAttack(t, attack{name: "old store"}, "where", view)
		c.commit("Here.")
		c.end()
		for _, run := range []string{"old-000001"} {
			for turn := 1; turn <= 13; turn++ {
				if _, err := thread.Replay(t.Context(), store, run, turn); err != nil {
					t.Errorf("replay of turn %d: %v", turn, err)
				}
			}
		}
	})
}
