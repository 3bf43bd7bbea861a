package soma_test

import (
	"strings"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// TestWithheldSaysWhatToDo: what is withheld names why, and the verbs that decide about it,
// of which each does; a verb that would be refused is not named.
func TestWithheldSaysWhatToDo(t *testing.T) {
	const (
		ratify  = "'strata review ratify policy/canon-no-shell'"
		retire  = "'strata review retire policy/canon-no-shell'"
		history = "'strata knowledge history policy/canon-no-shell --json' has the text that was ratified"
	)
	merged := func(ours, their func(w *world)) func(w *world) {
		return func(w *world) {
			other := w.other()
			ours(w)
			w.add(1e9)
			their(other)
			w.merge(other)
		}
	}
	for _, c := range []struct {
		name    string
		happens func(w *world)
		reason  string
		repair  string
	}{
		{"its document is gone", func(w *world) { w.check(storage.Delete(w.Context(), w.db, shell)) },
			"its document is gone",
			"bring it back, as by git restore, or " + retire + ": " + history},
		{"it was edited", func(w *world) { w.edit(shell, "ever", "on Mondays") },
			"its document is not what was ratified",
			ratify + " takes it as it is; " + history},
		{"it was retired, and its document brought back", func(w *world) {
			document, _, err := w.db.Get(w.Context(), shell)
			w.check(err)
			retireShell(w)
			w.check(storage.Set(w.Context(), w.db, shell, document))
		},
			"a review has decided that it no longer holds, and its document says that it does",
			ratify + " takes it as it is; " + history},
		{"it was merged badly", func(w *world) { w.edit(shell, `"body":"`, `"body":"<<<<<<< ours\\n`) },
			"its document is not what was ratified: it has the marks of a merge conflict",
			"edit the document; " + history},
		{"retired here and superseded there", merged(retireShell, supersedeShell),
			"decisions about it contradict each other: supersede by anna at 2026-05-04T09:00:01.000Z in favour of canon-no-bash, retire by anna at 2026-05-04T09:00:00.000Z",
			"decide: " + ratify + " or " + retire},
	} {
		t.Run(c.name, func(t *testing.T) {
			withheld := func() (*world, *soma.Withheld) {
				w := newWorld(t, "mem")
				w.rule("shell", "error", nil)
				c.happens(w)
				list, err := w.Quarantined(w.Context())
				w.check(err)
				for i := range list {
					if list[i].ID == "policy/canon-no-shell" {
						return w, &list[i]
					}
				}
				t.Fatalf("it is not withheld: %v", list)
				return nil, nil
			}
			w, held := withheld()
			w.same("reason", held.Reason, c.reason)
			w.same("repair", held.Repair, c.repair)
			if err := w.As(anna).Ratify(w.Context(), held.ID, "as it is"); (err == nil) != strings.Contains(c.repair, ratify) {
				t.Errorf("ratify: %v", err)
			}
			w, held = withheld()
			if err := w.As(anna).Retire(w.Context(), held.ID, "over"); (err == nil) != strings.Contains(c.repair, retire) {
				t.Errorf("retire: %v", err)
			}
		})
	}
}
