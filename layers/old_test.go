package layers_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
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
