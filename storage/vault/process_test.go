//go:build unix

package vault_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// The tests below run the test binary again as another process, which sees by
// this variable what it is to do.
const childDoes = "STRATA_VAULT_CHILD"

// child starts this test in another process.
func child(t *testing.T, does string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), childDoes+"="+does)
	return cmd
}

// TestProcesses has 8 processes create documents in one vault and count in one
// record: 100 each, or STRATA_CREATES.
func TestProcesses(t *testing.T) {
	each := 100
	if n, err := strconv.Atoi(os.Getenv("STRATA_CREATES")); err == nil && n > 0 {
		each = n
	}
	if does := os.Getenv(childDoes); does != "" {
		name, dir, _ := strings.Cut(does, " ")
		s := open(t, dir, &vault.Options{Durability: storage.Process, LockWait: 60 * time.Second, Actor: name})
		var wg sync.WaitGroup
		for w := range 2 {
			wg.Go(func() {
				for i := w; i < each; i += 2 {
					set(t, s, fmt.Sprintf("doc/%s-%d", name, i), fmt.Sprintf(`{"process":"%s","n":%d}`, name, i))
					increment(t, s)
				}
			})
		}
		wg.Wait()
		want(t, s, fmt.Sprintf("doc/%s-0", name), fmt.Sprintf(`{"process":"%s","n":0}`, name))
		return
	}
	dir := t.TempDir()
	watching := open(t, dir, nil)
	if err := watching.EnsureIndex(t.Context(), "process"); err != nil {
		t.Fatal(err)
	}
	const processes = 8
	var wg sync.WaitGroup
	for p := range processes {
		wg.Go(func() {
			if out, err := child(t, fmt.Sprintf("p%d %s", p, dir)).CombinedOutput(); err != nil {
				t.Errorf("process %d: %v\n%s", p, err, out)
			}
		})
	}
	wg.Wait()
	for _, s := range []*vault.Store{watching, open(t, dir, nil)} {
		for p := range processes {
			n := 0
			for _, err := range s.Find(t.Context(), storage.Query{Equal: map[string]string{"process": fmt.Sprintf("p%d", p)}}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != each {
				t.Errorf("process %d has %d documents of %d", p, n, each)
			}
		}
		if got, _, err := s.Get(t.Context(), "_count/a"); err != nil || string(got) != strconv.Itoa(processes*each) {
			t.Errorf("counted %s, %v, want %d", got, err, processes*each)
		}
		sound(t, s)
	}
	files, err := filepath.Glob(filepath.Join(dir, "doc/*.md"))
	lines, head, verr := watching.Verify(t.Context())
	if err != nil || verr != nil || len(files) != processes*each || lines != processes*each || head == "" {
		t.Errorf("%d files and %d lines in the audit log, want %d; %v, %v", len(files), lines, processes*each, err, verr)
	}
}

// TestOpenedMeanwhile closes vaults, which renews the index, while others open
// the same one, which removes temporary files.
func TestOpenedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, nil)
	var ops []storage.Op
	for i := range 1000 {
		ops = append(ops, storage.Put(fmt.Sprintf("doc/%d", i), []byte(`{"n":1}`)))
	}
	if err := first.Apply(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	const stores, rounds = 8, 5
	var wg sync.WaitGroup
	for w := range stores {
		wg.Go(func() {
			for i := range rounds {
				s, err := vault.Open(t.Context(), dir, &vault.Options{LockWait: 60 * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				err = storage.Set(t.Context(), s, fmt.Sprintf("doc/%d-%d", w, i), []byte(`{"n":2}`))
				if err := errors.Join(err, s.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if st, err := first.Stats(t.Context()); err != nil || st.Documents != 1000+stores*rounds {
		t.Errorf("%d documents, %v; want %d", st.Documents, err, 1000+stores*rounds)
	}
	sound(t, first)
}

// increment adds one to a counter that others add to.
func increment(t *testing.T, s *vault.Store) {
	t.Helper()
	ctx := t.Context()
	for {
		value, v, err := s.Get(ctx, "_count/a")
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Error(err)
			return
		}
		n, _ := strconv.Atoi(string(value))
		err = s.Apply(ctx, storage.Put("_count/a", strconv.AppendInt(nil, int64(n+1), 10)).IfVersion(v))
		if err == nil {
			return
		}
		if !errors.Is(err, storage.ErrConflict) {
			t.Error(err)
			return
		}
	}
}

// TestKilledBetweenSteps kills a process between the steps of a commit. The
// commit is finished by whoever comes next: one that opens the vault, or one
// that has it open.
func TestKilledBetweenSteps(t *testing.T) {
	if does := os.Getenv(childDoes); does != "" {
		point, dir, _ := strings.Cut(does, " ")
		s := open(t, dir, nil)
		set(t, s, "doc/before", `{"n":1}`)
		vault.CrashAt(point, 1, func() {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
		err := s.Apply(t.Context(), storage.Put("doc/a", []byte(`{"f":"new","body":"x"}`)), storage.Put("_rec/a", []byte("new")),
			storage.Remove("doc/old"), storage.Put("doc/b", []byte(`{"f":"new"}`)), storage.Put("doc/before", []byte(`{"n":2}`)))
		if err == nil {
			err = s.Compact(t.Context())
		}
		t.Fatalf("not killed: %v", err)
	}
	for _, point := range []string{"logged", "swapped", "placed", "audited", "based"} {
		for _, alive := range []bool{true, false} {
			for _, boot := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/alive=%t/boot=%t", point, alive, boot), func(t *testing.T) {
					killedAt(t, point, alive, boot)
				})
			}
		}
	}
}

func killedAt(t *testing.T, point string, alive, boot bool) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	if err := s.EnsureIndex(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	set(t, s, "doc/old", `{"f":"old"}`)
	set(t, s, "doc/a", `{"f":"old"}`)
	set(t, s, "_rec/a", "old")
	if boot {
		s.NewBoot()
		set(t, s, "_rec/b", "")
	}
	if !alive {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBetweenSteps$", "-test.count=1")
	cmd.Env = append(os.Environ(), childDoes+"="+point+" "+dir)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("child: %v\n%s", err, out)
	}
	if !alive {
		s = open(t, dir, nil)
	}
	set(t, s, "_rec/after", "")
	want(t, s, "doc/a", `{"f":"new","body":"x"}`)
	want(t, s, "doc/b", `{"f":"new"}`)
	want(t, s, "doc/before", `{"n":2}`)
	if got, _, err := s.Get(t.Context(), "_rec/a"); err != nil || string(got) != "new" {
		t.Errorf("Get = %q, %v", got, err)
	}
	found(t, s, "f", "old")
	found(t, s, "f", "new", "doc/a", "doc/b")
	sound(t, s)
	if lines, _, err := s.Verify(t.Context()); err != nil || lines != 7 {
		t.Errorf("%d lines in the audit log, %v", lines, err)
	}
	if texts := lost(t, dir); len(texts) > 0 {
		t.Errorf("kept %q", texts)
	}
	again := open(t, dir, nil)
	sound(t, again)
	temps, _ := filepath.Glob(filepath.Join(dir, "_data/tmp/.*"))
	if len(temps) > 0 {
		t.Errorf("temporary files are left: %q", temps)
	}
}

// TestKilledOverAnEdit: a person saves files while a commit puts its own there, and
// the process dies when it has taken theirs out.
func TestKilledOverAnEdit(t *testing.T) {
	if does := os.Getenv(childDoes); does != "" {
		n, dir, _ := strings.Cut(does, " ")
		s := open(t, dir, nil)
		vault.CrashAt("placed", 1, func() {
			write(t, dir, "doc/b.md", "---\nn: 3\n---\nof a person\n")
			write(t, dir, "doc/c.md", "---\nn: 4\n---\nof a person too\n")
		})
		vault.CrashAt("swapped", int(n[0]-'0'), func() {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
		err := s.Apply(t.Context(), storage.Put("doc/a", []byte(`{"n":2}`)),
			storage.Put("doc/b", []byte(`{"n":2}`)), storage.Remove("doc/c"))
		t.Fatalf("not killed: %v", err)
	}
	for n := 2; n <= 3; n++ {
		for _, alive := range []bool{true, false} {
			t.Run(fmt.Sprintf("swap=%d/alive=%t", n, alive), func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir, nil)
				for _, key := range []string{"doc/a", "doc/b", "doc/c"} {
					set(t, s, key, `{"n":1}`)
				}
				if !alive {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				cmd := exec.Command(os.Args[0], "-test.run=^TestKilledOverAnEdit$", "-test.count=1")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childDoes, n, dir))
				out, err := cmd.CombinedOutput()
				if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
					t.Fatalf("child: %v\n%s", err, out)
				}
				other := open(t, dir, nil)
				if !alive {
					s = other
				}
				want(t, s, "doc/a", `{"n":2}`)
				want(t, s, "doc/b", `{"n":2}`)
				all := strings.Join(lost(t, dir), "")
				if n == 2 { // doc/c was not taken away yet
					all += read(t, dir, "doc/c.md")
				}
				for _, text := range []string{"of a person\n", "of a person too\n"} {
					if strings.Count(all, text) != 1 {
						t.Errorf("%q is there %d times", text, strings.Count(all, text))
					}
				}
				if temps, _ := filepath.Glob(filepath.Join(dir, "_data/tmp/.*")); len(temps) > 0 {
					t.Errorf("temporary files are left: %q", temps)
				}
				sound(t, s)
			})
		}
	}
}

// TestRecoveryLeavesHandEdits: what a person did between a crash and the next
// open stays.
func TestRecoveryLeavesHandEdits(t *testing.T) {
	if dir := os.Getenv(childDoes); dir != "" {
		s := open(t, dir, nil)
		vault.CrashAt("audited", 1, func() {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
		s.Apply(t.Context(), storage.Put("doc/a", []byte(`{"n":2}`)), storage.Put("doc/b", []byte(`{"n":2}`)), storage.Put("doc/c", []byte(`{"n":2}`)))
		return
	}
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "doc/a", `{"n":1}`)
	old := read(t, dir, "doc/a.md")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	child(t, dir).Run()
	write(t, dir, "doc/a.md", old)                   // what it was: redone
	write(t, dir, "doc/b.md", "---\nn: 3\n---\n")    // by hand: stays
	write(t, dir, "doc/c.md", "---\n\"n\":\x00\x00") // torn: redone
	s = open(t, dir, nil)
	want(t, s, "doc/a", `{"n":2}`)
	want(t, s, "doc/b", `{"n":3}`)
	want(t, s, "doc/c", `{"n":2}`)
	sound(t, s)
}

// TestPowerLoss takes back what was not synced: the files of commits, but not
// the log.
func TestPowerLoss(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &vault.Options{Durability: storage.Full})
	s.NewBoot()
	for i := range 30 {
		set(t, s, fmt.Sprintf("doc/%02d", i%20), fmt.Sprintf(`{"n":%d}`, i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "doc/01.md"))
	os.Truncate(filepath.Join(dir, "doc/02.md"), 0)
	write(t, dir, "doc/03.md", strings.Repeat("\x00", 10))
	write(t, dir, "doc/04.md", string(vault.Encode("doc/04", []byte(`{"n":4}`)))) // the one before
	os.Remove(filepath.Join(dir, "_index.json"))
	os.Remove(filepath.Join(dir, "_data/end"))
	os.Truncate(filepath.Join(dir, "_mutations.jsonl"), 700)
	s = open(t, dir, nil)
	for i := range 20 {
		n := i
		if i < 10 {
			n += 20
		}
		want(t, s, fmt.Sprintf("doc/%02d", i), fmt.Sprintf(`{"n":%d}`, n))
	}
	if lines, _, err := s.Verify(t.Context()); err != nil || lines != 30 {
		t.Errorf("%d lines in the audit log, %v", lines, err)
	}
	sound(t, s)
}

// TestTornLog: what is torn at the end of the log is cut off.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "_rec/a", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, numbers, err := vault.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, fmt.Sprintf("_data/log/%08d.log", numbers[len(numbers)-1]))
	text := []byte(read(t, dir, strings.TrimPrefix(log, dir)))
	end := len(text)
	for text[end-1] == 0 {
		end--
	}
	copy(text[end+1:], "\x40\x00\x00\x00garbage that is no frame")
	if err := os.WriteFile(log, text, 0o644); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil)
	set(t, s, "_rec/b", "2")
	for key, value := range map[string]string{"_rec/a": "1", "_rec/b": "2"} {
		if got, _, err := s.Get(t.Context(), key); err != nil || string(got) != value {
			t.Errorf("Get %s = %q, %v", key, got, err)
		}
	}
	sound(t, s)
}

func TestLocked(t *testing.T) {
	if dir := os.Getenv(childDoes); dir != "" {
		s := open(t, dir, nil)
		vault.CrashAt("logged", 1, func() {
			fmt.Println("holds")
			select {}
		})
		set(t, s, "_rec/held", "")
		return
	}
	dir := t.TempDir()
	s := open(t, dir, &vault.Options{LockWait: 50 * time.Millisecond})
	cmd := child(t, dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holds\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	err = storage.Set(t.Context(), s, "_rec/a", nil)
	var locked *storage.LockedError
	if !errors.As(err, &locked) || !strings.Contains(locked.Holder, strconv.Itoa(cmd.Process.Pid)) || locked.Path == "" {
		t.Errorf("Set while another process holds the lock: %v", err)
	}
	if _, _, err := s.Get(t.Context(), "_rec/a"); !errors.Is(err, storage.ErrNotFound) { // readers take no lock
		t.Errorf("Get: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := storage.Set(ctx, s, "_rec/a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Set with an ended context: %v", err)
	}
	if _, err := vault.Open(t.Context(), dir, &vault.Options{LockWait: -1, Logger: quiet}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("Open while another process holds the lock: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := storage.Set(t.Context(), s, "_rec/a", nil); err != nil { // free at once
		t.Error(err)
	}
	if text := read(t, dir, "_vault.lock"); text != "" {
		t.Errorf("the lock file says %q", text)
	}
	if _, _, err := s.Get(t.Context(), "_rec/held"); err != nil {
		t.Errorf("the commit of the dead process: %v", err)
	}
}
