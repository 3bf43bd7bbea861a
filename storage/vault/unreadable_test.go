package vault_test

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
)

// unreadable returns what Unreadable yields: the keys, or the files where there
// is none.
func unreadable(t *testing.T, dir string, s storage.Adapter, prefix string) []string {
	t.Helper()
	names := []string{}
	for f, err := range storage.Unreadable(t.Context(), s, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Path == "" || f.Reason == "" || f.Repair == "" {
			t.Errorf("fault %+v does not say what and what to do", f)
		}
		name := f.Key
		if name == "" {
			name, _ = filepath.Rel(dir, f.Path)
			name = "file " + filepath.ToSlash(name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestUnreadable: what may be a document and is none is listed under the prefixes
// that it may have, and is no longer when it is mended.
func TestUnreadable(t *testing.T) {
	for _, events := range []bool{true, false} {
		dir := t.TempDir()
		s := open(t, dir, nil)
		if !events {
			s.WithoutEvents()
		}
		set(t, s, "policy/good", `{"body":"x"}`)
		set(t, s, "policy/flipped", `{"body":"x"}`)
		set(t, s, "insight/good", `{"body":"x"}`)
		if got := unreadable(t, dir, s, ""); len(got) > 0 {
			t.Errorf("Unreadable of a sound vault yields %q", got)
		}
		files := map[string]string{
			"policy/flipped.md":                         "---\nbody: \xff\n---\n",
			"policy/conflict.md":                        "---\n<<<<<<< HEAD\nf: x\n=======\nf: y\n>>>>>>> theirs\n---\n",
			"policy/cut.md":                             "---\nf: x\n",
			"policy/^good.md":                           "Good by its name",
			"policy/Good.md":                            "the same key",
			"policy/x==0123456789abcdef.md":             "a name that was cut, and no key in it",
			"policy/y==0123456789abcdef.md":             "---\nkey: policy/other\n---\n",
			"insight/cut.md":                            "---\nf: x\n",
			strings.Repeat("p", 60) + "==0123/x.md":     "---\n",
			"policy/.hidden.md":                         "---\n",
			"policy/readme.txt":                         "---\n",
			"Policy.txt":                                "no type has this name",
			"rule":                                      "a file in the place of a directory",
			"_data/lost/policy/good.123.md":             "---\n",
			"policy/deeper/than/one/directory/may/x.md": "---\n",
		}
		for name, text := range files {
			write(t, dir, name, text)
		}
		policies := []string{
			"file policy/Good.md", "file policy/x==0123456789abcdef.md", "file policy/y==0123456789abcdef.md",
			"policy/conflict", "policy/cut", "policy/flipped",
		}
		anywhere := "file " + strings.Repeat("p", 60) + "==0123/x.md"
		all := slices.Concat(policies, []string{anywhere, "insight/cut", "file rule"})
		if runtime.GOOS != "windows" {
			if err := os.Symlink(t.TempDir(), filepath.Join(dir, "linked")); err != nil {
				t.Fatal(err)
			}
			if got := unreadable(t, dir, s, "linked/x"); !slices.Contains(got, "file linked") {
				t.Errorf("Unreadable of a directory that is a link yields %q", got)
			}
			all = append(all, "file linked")
		}
		for prefix, want := range map[string][]string{
			"":             all,
			"policy/":      append(slices.Clone(policies), anywhere),
			"pol":          append(slices.Clone(policies), anywhere),
			"insight/cut":  {anywhere, "insight/cut"},
			"insight/good": {anywhere},
			"rule/":        {anywhere, "file rule"},
			"_threads/":    {},
		} {
			slices.Sort(want)
			if d := cmp.Diff(want, unreadable(t, dir, s, prefix)); d != "" {
				t.Errorf("events=%t: Unreadable %q (-want +got):\n%s", events, prefix, d)
			}
		}
		shown := map[string]bool{}
		for _, f := range faults(t, s) {
			shown[f.Path] = true
		}
		if len(shown) != len(all) {
			t.Errorf("Check shows %d files, want %d: %q", len(shown), len(all), slices.Sorted(maps.Keys(shown)))
		}
		for name := range files {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if got := unreadable(t, dir, s, "policy/"); len(got) > 0 {
			t.Errorf("Unreadable of a mended vault yields %q", got)
		}
	}
}

// TestUnreadableDirectory: a type whose directory may not be listed is not one
// without documents.
func TestUnreadableDirectory(t *testing.T) {
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("whoever runs the test may read every directory")
	}
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "policy/a", `{}`)
	path := filepath.Join(dir, "policy")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(path, 0o755)
	if got := unreadable(t, dir, s, "policy/"); !slices.Equal(got, []string{"file policy"}) {
		t.Errorf("Unreadable yields %q", got)
	}
}
