package layers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/projection"
)

func TestInstructions(t *testing.T) {
	dir := t.TempDir()
	guide, link := filepath.Join(dir, "GUIDE.md"), filepath.Join(dir, "link.md")
	stamp := time.Now().Add(-time.Hour)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(guide, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stamp = stamp.Add(time.Second)
		if err := os.Chtimes(guide, stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	write("\uFEFFUse metric units.\n")
	if err := os.Symlink(guide, link); err != nil {
		t.Fatal(err)
	}
	store := openMem(t)
	layer := layers.Instructions(&layers.InstructionsOptions{Text: " Be kind. ", Files: []string{link}, MaxBytes: 100})
	c := talk(t, remember(t, store, layer), "t", "r")
	expect := func(want, note string) {
		t.Helper()
		got := c.say("hi", "hello")
		if !strings.Contains(got, want) {
			t.Errorf("shown: %q, want %q in it", got, want)
		}
		if n := c.note("instructions"); (note == "") != (n == "") || !strings.Contains(n, note) {
			t.Errorf("note = %q, want %q", n, note)
		}
	}
	expect("Be kind.\nUse metric units.", "")
	write("Use feet.")
	expect("Use feet.", "")

	for _, bad := range []struct{ text, note string }{
		{strings.Repeat("x", 101), "its 101 bytes are over the limit of 100: its last good text stays"},
		{"caf\xe9", "not UTF-8 text"},
		{"a\x00b", "not UTF-8 text"},
	} {
		write(bad.text)
		expect("Use feet.", bad.note)
	}
	if err := os.Remove(guide); err != nil {
		t.Fatal(err)
	}
	expect("Use feet.", "no such file")
	c.end()

	// The last good text survives a restart.
	c = talk(t, remember(t, store, layer), "t2", "other")
	expect("Use feet.", "no such file")
	write("Back again.")
	expect("Back again.", "")
	c.end()
}

func TestInstructionsOfNoUse(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                           "it is a directory",
		filepath.Join(dir, "missing"): "no such file",
		os.DevNull:                    "not a regular file",
	} {
		c := talk(t, remember(t, openMem(t), layers.Instructions(&layers.InstructionsOptions{Files: []string{path}})), "t", "r")
		c.ask("hi")
		rep := c.run.Report()
		if !rep.Degraded() || !strings.Contains(c.note("instructions"), want) {
			t.Errorf("%s: report %q, want %q and degraded", path, c.note("instructions"), want)
		}
		c.end()
	}
}

// TestInstructionsDelta: an edit in one of many files is published, and the prefix
// holds.
func TestInstructionsDelta(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	at := time.Now().Add(-time.Hour)
	write := func(path, text string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	text := func(n int, rule string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "# Guide %d\n\n", n)
		for i := range 20 {
			fmt.Fprintf(&b, "%d.%d: %s.\n\n", n, i, strings.Repeat("do it so ", 10))
		}
		return b.String() + rule + "\n\nThat is all."
	}
	for i := range 12 {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%02d.md", i)))
		write(paths[i], text(i, "Use feet."))
	}
	m := remember(t, openMem(t), layers.Instructions(&layers.InstructionsOptions{Files: paths}))
	c := talk(t, m, "t", "r")
	for range 5 {
		c.say("hi", "hello")
	}
	write(paths[3], text(3, "Use metres."))
	write(paths[7], text(7, "Use feet.\nMind the gap."))
	view, err := c.run.Project(t.Context(), projection.Text(projection.User, "how far?"))
	if err != nil {
		t.Fatal(err)
	}
	if view.Opened != "" {
		t.Errorf("the prefix opened anew: %s", view.Opened)
	}
	items := view.Items()
	want := `<instructions add>
Lines of this have changed: those with - are gone, those with + hold now.
  3.19: ` + strings.Repeat("do it so ", 10) + `.
- Use feet.
+ Use metres.
  Use feet.
+ Mind the gap.
</instructions>`
	if diff := cmp.Diff(want, items[len(items)-1].Text()); diff != "" {
		t.Errorf("the update (-want +got):\n%s", diff)
	}
	c.commit("2 metres")
	c.end()

	// Also before it is known how often they change.
	c = talk(t, m, "another", "r")
	c.say("hi", "hello")
	write(paths[3], text(3, "Use yards."))
	if view, err = c.run.Project(t.Context(), projection.Text(projection.User, "how far?")); err != nil {
		t.Fatal(err)
	}
	if view.Opened != "" {
		t.Errorf("the prefix of a young thread opened anew: %s", view.Opened)
	}
	c.commit("2 yards")
	c.end()
}

// TestInstructionsInTheSameTick: an edit that changes neither size nor time is seen
// if it comes as soon after the one before as the clock of files may not tell.
func TestInstructionsInTheSameTick(t *testing.T) {
	path := filepath.Join(t.TempDir(), "GUIDE.md")
	now := time.Now()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
	}
	store := openMem(t)
	layer := layers.Instructions(&layers.InstructionsOptions{Files: []string{path}})
	write("Use feet. ")
	c := talk(t, remember(t, store, layer), "t", "r")
	c.say("hi", "hello")
	write("Use miles.")
	if got := c.say("hi", "hello"); !strings.Contains(got, "Use miles.") {
		t.Errorf("shown: %q", got)
	}
	c.end()
	write("Use yards.")
	c = talk(t, remember(t, store, layer), "t", "r")
	if got := c.say("hi", "hello"); !strings.Contains(got, "Use yards.") {
		t.Errorf("shown after a restart: %q", got)
	}
	c.end()
}
