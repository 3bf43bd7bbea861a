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
	token  string   // "" after it was removed
	before string   // the token that it had then
	kept   []string // tokens that were replaced during a commit: they are in _data/lost
	shared bool     // the process writes to it as well
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
	if h.rnd.IntN(5) == 0 {
		return l.tamper(copied)
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
		token, n.before = "", n.token
		err = os.Remove(filepath.Join(h.dir, path))
	default:
		var text []byte
		if text, err = os.ReadFile(filepath.Join(h.dir, path)); err == nil {
			was := firstToken('z', string(text))
			if was != n.token {
				n.kept = append(n.kept, n.token)
			}
			fmt.Fprintf(copied, "h edit %s %s instead of %s\n", path, token, was)
			err = h.save(path, n, strings.ReplaceAll(string(text), was, token))
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

// A person edits canon past the reviews, in ways that may come to no harm:
// tampered files are never served as they are, and what a policy was against stays
// blocked.
const (
	newline  = "a newline at the end" // changes nothing
	reworded = "other words"          // which a reviewer may ratify
	marked   = "the marks of a merge conflict"
	cut      = "half of the file"
	removed  = "no file"
	loosened = "another condition"
)

// askRatify is in what a reviewer is to ratify.
const askRatify = "Please ratify this as well."

var tamperings = []string{newline, reworded, marked, cut, removed, loosened}

// tamper edits canon that was in force after the last kill, or brings back what
// was edited.
func (l *life) tamper(copied io.Writer) error {
	var list []*thing
	for _, id := range slices.Sorted(maps.Keys(l.things)) {
		if th := l.things[id]; strings.HasPrefix(id, "idea-") && th.settled == promoted && !th.loose && th.tampered != reworded {
			list = append(list, th)
		}
	}
	th, ok := one(l.hand.rnd, list)
	if !ok {
		return nil
	}
	path := filepath.Join(th.kind, "canon-"+th.id+".md")
	full := filepath.Join(l.hand.dir, path)
	if th.tampered != "" {
		fmt.Fprintf(copied, "h restore %s\n", path)
		th.tampered = ""
		l.Edits++
		return l.hand.save(path, &note{shared: true}, th.original)
	}
	read, err := os.ReadFile(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was just forgotten
	}
	if err != nil {
		return fmt.Errorf("edit by hand: %w", err)
	}
	text := string(read)
	th.original, th.tampered = text, tamperings[l.hand.rnd.IntN(len(tamperings))]
	fmt.Fprintf(copied, "h tamper %s: %s\n", path, th.tampered)
	l.Edits++
	switch th.tampered {
	case newline:
		text += "\n"
	case reworded:
		text += askRatify + "\n"
	case marked:
		text += "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"
	case cut:
		text = text[:len(text)/2]
	case loosened:
		text = strings.Replace(text, "tool-", "tool-of-nobody-", 1)
		text = strings.ReplaceAll(text, askRatify, "") // that was of an edit before this one
		if th.kind != "policy" {
			text += "And more.\n"
		}
	case removed:
		return os.Remove(full)
	}
	return l.hand.save(path, &note{shared: true}, text)
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
		document, _, err := c.db.Get(c.ctx, key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		for _, token := range n.kept {
			if !strings.Contains(string(kept), token) {
				c.bad("%s had what was saved by hand, %s, which was replaced and not kept", path, token)
			}
		}
		switch has := firstToken('z', string(document)); {
		case n.token == "" && err == nil:
			if !n.shared || has != n.before { // that was removed while it was being committed
				c.bad("%s was removed by hand and is there", path)
			}
		case n.token != "" && has != n.token && !strings.Contains(string(kept), n.token):
			c.bad("%s has not what was saved by hand, %s, nor was it kept: %.300s %v", path, n.token, document, err)
		}
	}
	return nil
}
