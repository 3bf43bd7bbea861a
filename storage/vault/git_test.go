package vault_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// tool returns the path of the first of some programs that there is. Without one
// the test is skipped, or fails where CI is set, which installs them.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("none of %q is installed", names)
	}
	t.Skipf("none of %q is installed", names)
	return ""
}

// repository runs git in a directory, with no settings but these.
func repository(t *testing.T, dir string) func(args ...string) string {
	git := tool(t, "git")
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir(),
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// TestGit: a vault in a repository is cloned and branched, both sides add and
// change, and after the merge either has everything, while a store is open.
func TestGit(t *testing.T) {
	dir, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	git := repository(t, dir)
	s := open(t, dir, governed())
	set(t, s, "policy/a", `{"status":"active","body":"one"}`)
	set(t, s, "policy/removed", `{"status":"active"}`)
	set(t, s, "_governance/policy/a/1", `{"digest":"1"}`)
	set(t, s, "_threads/t", "stays behind")
	git("init", "-q", "-b", "main")
	git("add", "-A")
	git("commit", "-qm", "one")
	const carried = ".gitignore\n_governance/policy/a/1.rec\n_vault.json\npolicy/a.md\npolicy/removed.md\n"
	if d := cmp.Diff(carried, git("ls-files")); d != "" {
		t.Errorf("in the repository:\n%s", d)
	}
	if out := git("status", "--porcelain", "--ignored"); strings.Contains(out, "??") {
		t.Errorf("status:\n%s", out)
	}

	repository(t, filepath.Dir(clone))("clone", "-q", dir, clone)
	there := repository(t, clone)
	if _, err := os.Lstat(filepath.Join(clone, "_data")); err == nil {
		t.Error("_data travelled")
	}
	other := open(t, clone, nil)
	want(t, other, "policy/a", `{"status":"active","body":"one"}`)
	record(t, other, "_governance/policy/a/1", `{"digest":"1"}`)
	absent(t, other, "_threads/t")
	if out := there("status", "--porcelain"); out != "" {
		t.Errorf("opening a clone changed it:\n%s", out)
	}

	// Both sides add files; one changes, one removes.
	set(t, other, "policy/b", `{"status":"active","body":"theirs"}`)
	set(t, other, "_governance/policy/a/2-theirs", `{"follows":"1"}`)
	set(t, other, "policy/a", `{"status":"active","body":"changed there"}`)
	there("add", "-A")
	there("commit", "-qm", "theirs")
	set(t, s, "policy/c", `{"status":"active","body":"ours"}`)
	set(t, s, "_governance/policy/a/2-ours", `{"follows":"1"}`)
	if err := storage.Delete(t.Context(), s, "policy/removed"); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	git("commit", "-qm", "ours")
	if out := git("pull", "-q", "--no-rebase", "--no-edit", clone, "main"); strings.Contains(out, "CONFLICT") {
		t.Errorf("merge:\n%s", out)
	}
	all := []string{"_governance/policy/a/1", "_governance/policy/a/2-ours", "_governance/policy/a/2-theirs", "policy/a", "policy/b", "policy/c"}
	check := func(s *vault.Store, more ...string) {
		t.Helper()
		if d := cmp.Diff(slices.Sorted(slices.Values(append(more, all...))), keys(t, s, "")); d != "" {
			t.Error(d)
		}
		want(t, s, "policy/a", `{"status":"active","body":"changed there"}`)
		record(t, s, "_governance/policy/a/2-theirs", `{"follows":"1"}`)
		sound(t, s)
	}
	check(s, "_threads/t")
	there("pull", "-q", dir, "main")
	check(other)
	check(open(t, clone, governed()))

	// A branch that is switched to, and back.
	git("switch", "-q", "-c", "before", "HEAD~2")
	if got := keys(t, s, "policy/"); !slices.Equal(got, []string{"policy/a", "policy/removed"}) {
		t.Errorf("an older commit has %q", got)
	}
	git("switch", "-q", "main")
	check(s, "_threads/t")

	// A conflict is shown, and not served, until it is resolved.
	set(t, s, "policy/a", `{"status":"retired","body":"changed there"}`)
	git("commit", "-qam", "ours")
	set(t, other, "policy/a", `{"status":"draft","body":"changed there"}`)
	there("commit", "-qam", "theirs")
	if out := git("pull", "--no-rebase", "--no-edit", clone, "main"); !strings.Contains(out, "CONFLICT") {
		t.Errorf("no conflict:\n%s", out)
	}
	if got := unreadable(t, dir, s, "policy/"); !slices.Equal(got, []string{"policy/a"}) {
		t.Errorf("Unreadable yields %q", got)
	}
	if shown := faults(t, s); len(shown) != 1 || !strings.Contains(shown[0].Reason, "merge conflict") {
		t.Errorf("Check shows %+v", shown)
	}
	git("checkout", "-q", "--theirs", "policy/a.md")
	want(t, s, "policy/a", `{"status":"draft","body":"changed there"}`)
	sound(t, s)
}

// TestGitOfNotes: a repository that a vault is made in keeps its
// .gitignore.
func TestGitOfNotes(t *testing.T) {
	dir := t.TempDir()
	git := repository(t, dir)
	write(t, dir, ".gitignore", "*.bak\n")
	write(t, dir, "note/a.md", "text\n")
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "one")
	s := open(t, dir, &vault.Options{Adopt: true})
	want(t, s, "note/a", `{"body":"text"}`)
	if out := git("diff", "--stat"); out != "" {
		t.Errorf("changed:\n%s", out)
	}
}

// TestGitLineEnds: a checkout with line ends of Windows has the same documents.
func TestGitLineEnds(t *testing.T) {
	dir, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	git := repository(t, dir)
	s := open(t, dir, governed())
	set(t, s, "policy/a", `{"status":"active","tags":["a"],"body":"one line"}`)
	set(t, s, "_governance/a", "{\"digest\":\"1\"}\n")
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "one")
	repository(t, filepath.Dir(clone))("-c", "core.autocrlf=true", "clone", "-q", dir, clone)
	if text := read(t, clone, "policy/a.md"); !strings.Contains(text, "\r\n") {
		t.Errorf("the checkout has %q", text)
	}
	other := open(t, clone, nil)
	want(t, other, "policy/a", `{"status":"active","tags":["a"],"body":"one line"}`)
	record(t, other, "_governance/a", "{\"digest\":\"1\"}\r\n") // bytes are bytes
	sound(t, other)
}

// TestEditors: an editor that saves without a change changes nothing, not even the
// version, and one that adds a newline to an older file not the document.
func TestEditors(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has other editors")
	}
	for name, save := range map[string]func(path string) *exec.Cmd{
		"vim": func(path string) *exec.Cmd {
			cmd := exec.Command(tool(t, "vim", "vim.tiny"), "-u", "NONE", "-n", "-e", "-s", "-c", "wq", path)
			cmd.Env = append(os.Environ(), "TERM=dumb")
			return cmd
		},
		"ed": func(path string) *exec.Cmd {
			cmd := exec.Command(tool(t, "ed"), "-s", path)
			cmd.Stdin = strings.NewReader("w\nq\n")
			return cmd
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			documents := map[string]string{
				"policy/plain":    `{"status":"active","body":"no newline of its own"}`,
				"policy/newline":  `{"status":"active","body":"one of its own\n"}`,
				"policy/newlines": `{"status":"active","body":"\n\nmore\n\n"}`,
				"policy/returns":  `{"status":"active","body":"a\r\nb\r"}`,
				"policy/none":     `{"status":"active","tags":["ä","b c"]}`,
				"policy/fence":    `{"body":"---\nx: y\n---"}`,
			}
			version := func(key string) storage.Version {
				_, v, err := s.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			edit := func(key string) {
				if out, err := save(filepath.Join(dir, key+".md")).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			for key, document := range documents {
				set(t, s, key, document)
				before, text := version(key), read(t, dir, key+".md")
				edit(key)
				want(t, s, key, document)
				if version(key) != before {
					t.Errorf("%s has another version: %q was %q", key, read(t, dir, key+".md"), text)
				}
			}
			const old = "---\nstatus: active\n---\nwritten before"
			write(t, dir, "policy/old.md", old)
			want(t, s, "policy/old", `{"status":"active","body":"written before"}`)
			edit("policy/old")
			if text := read(t, dir, "policy/old.md"); text != old+"\n" {
				t.Errorf("the editor wrote %q", text)
			}
			want(t, s, "policy/old", `{"status":"active","body":"written before"}`)
			sound(t, s)
		})
	}
}
