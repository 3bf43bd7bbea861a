package layers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/layers"
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
		{"caf\xe9", "no UTF-8 text"},
		{"a\x00b", "no UTF-8 text"},
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
		os.DevNull:                    "no regular file",
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
