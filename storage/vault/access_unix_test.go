//go:build unix

package vault_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stratamem/strata/storage/vault"
)

// modes are the modes of all that is below a directory, by the names with slashes.
func modes(t testing.TB, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			name, _ := filepath.Rel(dir, path)
			found[filepath.ToSlash(name)] = info.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// private tells whether the name in a vault is one that others are not to read.
func private(name string) bool {
	return name[0] == '_' && name != "_vault.json"
}

// fill writes, keeps, rotates and compacts, so that every kind of file is made.
func fill(t testing.TB, s *vault.Store, dir string) {
	t.Helper()
	set(t, s, "policy/a", `{"body":"x"}`)
	set(t, s, "_threads/a", "log")
	set(t, s, "_governance/a/b", "file")
	write(t, dir, "policy/a.md", "by hand")
	write(t, dir, "_governance/a/b.rec", "by hand")
	set(t, s, "policy/a", `{"body":"y"}`)
	set(t, s, "_governance/a/b", "again")
	set(t, s, "policy/new", `{"body":"z"}`)
	set(t, s, "_governance/new/b", "again")
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(lost(t, dir)) < 2 {
		t.Error("nothing was kept")
	}
}

// TestModes: what agents were told and decided is for who runs them, also where an
// older program or version control made it, and documents are as the umask says.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	check := func(dir string) {
		t.Helper()
		for name, mode := range modes(t, dir) {
			want := fs.FileMode(0o644)
			if private(name) {
				want = 0o600
			}
			if mode.IsDir() {
				want |= want >> 2 & 0o111
			}
			if strings.HasPrefix(name, "_governance/a") && !mode.IsDir() {
				continue // written by another hand; the directory keeps others out
			}
			if mode.Perm() != want {
				t.Errorf("%s is %o, want %o", name, mode.Perm(), want)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "vault")
	s := open(t, dir, governed())
	fill(t, s, dir)
	check(dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(dir)

	dir = golden(t, "v1.tar.gz")
	if mode := modes(t, dir)["_data/end"]; mode.Perm() != 0o644 {
		t.Errorf("the old vault's end is %o", mode)
	}
	open(t, dir, governed())
	check(dir)
}

// TestModesOfAGroup: in a directory that is shared by a group all new files and the
// lock are the group's, in one that was made shared later the old ones as well.
func TestModesOfAGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give files to any group")
	}
	const group = 54321
	for _, umask := range []int{0o022, 0o077} {
		for _, mode := range []fs.FileMode{0o775, 0o775 | fs.ModeSetgid, 0o770 | fs.ModeSetgid} {
			defer syscall.Umask(syscall.Umask(umask))
			dir := t.TempDir()
			s := open(t, dir, governed())
			set(t, s, "insight/before", `{}`)
			set(t, s, "_governance/before", "x")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(dir, -1, group); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, governed())
			set(t, s, "policy/a", `{}`)
			set(t, s, "_governance/a/b", "x")
			set(t, s, "_threads/a", "x")
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			for name, got := range modes(t, dir) {
				info, err := os.Lstat(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				want := fs.FileMode(0o664)
				if private(name) {
					want = 0o660
				}
				want &= 0o770 | mode.Perm()&0o007
				if got.IsDir() {
					want |= want >> 2 & 0o111
				}
				if got.Perm() != want || info.Sys().(*syscall.Stat_t).Gid != group {
					t.Errorf("umask %o, directory %v: %s is %v of %d, want %o", umask, mode, name, got, info.Sys().(*syscall.Stat_t).Gid, want)
				}
				if got.IsDir() && got&fs.ModeSetgid != mode&fs.ModeSetgid {
					t.Errorf("directory %v: %s is %v", mode, name, got)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUsersOfAGroup: two users of a group write to a shared vault at once, and
// somebody else reads none of what is private. Each is a process of its own.
func TestUsersOfAGroup(t *testing.T) {
	if job := os.Getenv("STRATA_VAULT_USER"); job != "" {
		asUser(t, job)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root may be several users")
	}
	const group, first, second, stranger = 54321, 54331, 54332, 54333
	base := t.TempDir()
	for path := base; path != os.TempDir() && len(path) > 4; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("the test's own program cannot be read: ", err)
	}
	program := filepath.Join(base, "test")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "vault")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, first, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o775|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	run := func(user uint32, groups []uint32, job string) {
		t.Helper()
		cmd := exec.Command(program, "-test.run=^TestUsersOfAGroup$", "-test.v")
		cmd.Dir, cmd.Env = base, append(os.Environ(), "STRATA_VAULT_USER="+job+" "+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, Groups: groups}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("user %d, %s: %v\n%s", user, job, err, out)
		}
	}
	run(first, []uint32{group}, "write")
	run(second, []uint32{group}, "write")
	run(first, []uint32{group}, "write")
	run(stranger, nil, "look")
}

// asUser is a child of TestUsersOfAGroup.
func asUser(t *testing.T, job string) {
	job, dir, _ := strings.Cut(job, " ")
	if job == "look" {
		for name, mode := range seen(dir) {
			if private(name) && mode.IsRegular() {
				if _, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
					t.Errorf("%s can be read", name)
				}
			}
		}
		if _, err := os.ReadDir(filepath.Join(dir, "_data")); err == nil {
			t.Error("_data can be listed")
		}
		if _, err := os.ReadFile(filepath.Join(dir, "policy/shared.md")); err != nil {
			t.Error(err)
		}
		return
	}
	syscall.Umask(0o077)
	s := open(t, dir, governed())
	n := 0
	for range keys(t, s, "policy/u") {
		n++
	}
	set(t, s, "policy/shared", fmt.Sprintf(`{"n":%d}`, n))
	for _, key := range []string{"policy/u%d", "_governance/all/u%d", fmt.Sprintf("_governance/%d/", os.Getuid()) + "u%d"} {
		set(t, s, fmt.Sprintf(key, n), `{}`)
	}
	set(t, s, "_threads/a", fmt.Sprint(n))
	for i := range n {
		set(t, s, fmt.Sprintf("policy/u%d", i), fmt.Sprintf(`{"by":%d}`, os.Getuid()))
		set(t, s, fmt.Sprintf("_governance/all/u%d", i), fmt.Sprint(os.Getuid()))
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

// seen is what a stranger sees of a vault.
func seen(dir string) map[string]fs.FileMode {
	found := map[string]fs.FileMode{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			found[e.Name()] = info.Mode()
		}
	}
	return found
}
