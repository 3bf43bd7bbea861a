package killtest_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// hand is a person who edits the files of a vault beside the process, and after
// it was killed. Every edit is over before the next check: nothing of it may be
// lost.
type hand struct {
	dir   string
	rnd   *rand.Rand
	n     int
	notes map[string]*note // by their paths below dir
}

// note is a file that the person has made. Its text has one token.
type note struct {
	token  string // "" after it was removed
	shared bool   // the process writes to it as well
}

// sharedTag is that of notes that the process writes to as well. They are saved
// as most editors do, by a rename: who truncates a file and fills it while
// another replaces it has lost already.
const sharedTag = "shared"

// edit makes one edit now and then, and says so in the journal.
func (l *life) edit(copied io.Writer) error {
	h := l.hand
	if h == nil || h.rnd.IntN(4) > 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(h.dir, "_data", "vault.json")); errors.Is(err, fs.ErrNotExist) {
		return nil // there is no vault yet
	}
	h.n++
	token := fmt.Sprintf("z%dh%dz", l.Kills, h.n)
	path, ok := one(h.rnd, slices.Sorted(maps.Keys(h.notes)))
	n := h.notes[path]
	var err error
	switch {
	case !ok || len(h.notes) < 3 || h.rnd.IntN(4) == 0:
		path = fmt.Sprintf("insight/hand-%d-%d.md", l.Kills, h.n)
		n = &note{shared: h.rnd.IntN(2) == 0}
		fmt.Fprintf(copied, "h add %s %s shared=%t\n", path, token, n.shared)
		err = h.save(path, n, fmt.Sprintf("---\nname: by hand\nstatus: active\nlayer: archive\nsource_worker: person\ntags: [%s]\n---\n# By hand\n\nThe word is %s.\n",
			map[bool]string{true: sharedTag, false: "own"}[n.shared], token))
	case n.token == "":
		fmt.Fprintf(copied, "h again %s %s\n", path, token)
		err = h.save(path, n, fmt.Sprintf("---\nname: by hand\nstatus: active\nlayer: archive\nsource_worker: person\n---\nThe word is %s.\n", token))
	case h.rnd.IntN(6) == 0:
		fmt.Fprintf(copied, "h remove %s\n", path)
		token = ""
		err = os.Remove(filepath.Join(h.dir, path))
	default:
		fmt.Fprintf(copied, "h edit %s %s instead of %s\n", path, token, n.token)
		var text []byte
		if text, err = os.ReadFile(filepath.Join(h.dir, path)); err == nil {
			err = h.save(path, n, strings.ReplaceAll(string(text), n.token, token))
		}
	}
	if err != nil {
		return fmt.Errorf("edit by hand: %w", err)
	}
	n.token = token
	h.notes[path] = n
	l.Edits++
	return nil
}

// save writes a file in place, or to another that takes its place.
func (h *hand) save(path string, n *note, text string) error {
	path = filepath.Join(h.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if !n.shared && h.rnd.IntN(2) == 0 {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	swap := filepath.Join(filepath.Dir(path), ".hand.swp")
	return errors.Join(os.WriteFile(swap, []byte(text), 0o644), os.Rename(swap, path))
}

// checkHand checks that what a person saved is there, or was kept.
func (c *check) checkHand() error {
	if c.hand == nil {
		return nil
	}
	var kept []byte
	err := filepath.WalkDir(filepath.Join(c.hand.dir, "_data", "lost"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		kept = append(kept, text...)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for path, n := range c.hand.notes {
		key := strings.TrimSuffix(path, ".md")
		document, err := c.db.Get(c.ctx, key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		switch {
		case n.token == "" && err == nil:
			c.bad("%s was removed by hand and is there", path)
		case n.token != "" && firstToken('z', string(document)) != n.token && !strings.Contains(string(kept), n.token):
			c.bad("%s has not what was saved by hand, %s, nor was it kept: %.300s %v", path, n.token, document, err)
		}
	}
	return nil
}
