package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/open"
)

// fill makes a store of documents and records, with a declared field.
func fill(t *testing.T, spec string, documents int) {
	t.Helper()
	with(t, spec, func(a storage.Adapter) {
		if err := storage.EnsureIndex(t.Context(), a, "layer"); err != nil {
			t.Fatal(err)
		}
		var ops []storage.Op
		for i := range documents {
			ops = append(ops, storage.Put(fmt.Sprintf("insight/%05d", i),
				fmt.Appendf(nil, `{"layer":"%s","n":%d,"body":"# Text %d\n---\n"}`, []string{"canon", "working"}[i%2], i, i)))
			if len(ops) == 500 || i == documents-1 {
				if err := a.Apply(t.Context(), ops...); err != nil {
					t.Fatal(err)
				}
				ops = ops[:0]
			}
		}
		for _, key := range []string{"_runs/1", "_runs/2"} {
			if err := storage.Set(t.Context(), a, key, []byte{0, 1, 255}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func with(t *testing.T, spec string, f func(storage.Adapter)) {
	t.Helper()
	a, err := open.Open(t.Context(), spec, &open.Options{Durability: storage.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(a)
}

// canon returns the keys that a query finds.
func canon(t *testing.T, spec string) (keys []string) {
	t.Helper()
	with(t, spec, func(a storage.Adapter) {
		for e, err := range storage.Find(t.Context(), a, storage.Query{Equal: map[string]string{"layer": "canon"}}) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, e.Key)
		}
	})
	return keys
}

// do runs a command line that must succeed, and returns its JSON.
func do(t *testing.T, args ...string) (m moved) {
	t.Helper()
	status, out, errs := call(t.Context(), nil, append(args, "--json")...)
	if status != 0 {
		t.Fatalf("strata %s: status %d: %s", strings.Join(args, " "), status, errs)
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatalf("strata %s: %v in %s", strings.Join(args, " "), err, out)
	}
	return m
}

// TestTransferBetweenEngines: a copy, and a backup restored, from each engine
// into each other, has the digest and the query answers of the first.
func TestTransferBetweenEngines(t *testing.T) {
	engines := []string{"bolt", "badger", "vault"}
	for _, from := range engines {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at := func(engine, name string) string { return engine + ":" + filepath.Join(dir, name) }
			src := at(from, "source")
			fill(t, src, 300)
			file := filepath.Join(dir, "backup")
			first := do(t, "backup", src, file)
			if first.Documents != 300 || first.Records != 2 {
				t.Fatalf("backed up %+v", first)
			}
			answer := canon(t, src)
			if len(answer) != 150 {
				t.Fatalf("%d documents found", len(answer))
			}
			for _, to := range engines {
				there, back, restored := at(to, to+"-there"), at(from, to+"-back"), at(to, to+"-restored")
				for _, m := range []moved{do(t, "copy", src, there), do(t, "copy", there, back), do(t, "restore", file, restored)} {
					if m.Tally != first.Tally {
						t.Errorf("to %s: %+v, want %+v", to, m.Tally, first.Tally)
					}
				}
				for _, spec := range []string{there, back, restored} {
					if got := canon(t, spec); !slices.Equal(got, answer) {
						t.Errorf("%s answers with %d keys, want %d", spec, len(got), len(answer))
					}
				}
			}
		})
	}
}

// TestCopyResumes: a copy whose process is killed in the middle goes on where it
// was, and one that is whole writes nothing.
func TestCopyResumes(t *testing.T) {
	dir := t.TempDir()
	src, dst := "bolt:"+filepath.Join(dir, "a.db"), "vault:"+filepath.Join(dir, "v")
	const documents = 6_000
	fill(t, src, documents)
	cmd := exec.Command("strata", "copy", src, dst)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for files := 0; files < 300; { // it is at work, and far from done
		entries, _ := os.ReadDir(filepath.Join(dir, "v", "insight"))
		files = len(entries)
		if files == documents {
			t.Fatal("the copy was too fast to be killed")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the copy ended before it was killed")
	}
	if status, _, errs := call(t.Context(), nil, "copy", src, dst); status != 1 || !strings.Contains(errs, "or resume") {
		t.Fatalf("a copy into a part: status %d: %s", status, errs)
	}
	m := do(t, "copy", src, dst, "--resume")
	if m.Documents != documents || *m.Written > documents-200 || *m.Written == 0 {
		t.Errorf("the second run has %d documents and wrote %d keys", m.Documents, *m.Written)
	}
	if m := do(t, "copy", src, dst, "--resume"); *m.Written != 0 {
		t.Errorf("the third run wrote %d keys", *m.Written)
	}
	if len(canon(t, dst)) != documents/2 {
		t.Error("queries of the copy find less")
	}
}

// TestCopyIsInterrupted: what to do next is said.
func TestCopyIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "a.db")
	fill(t, "bolt:"+src, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if status, _, errs := call(ctx, nil, "copy", src, "vault:"+filepath.Join(dir, "a b")); status != exitInterrupted {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestStorePath: two names of one store are known for that.
func TestStorePath(t *testing.T) {
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	for _, spec := range []string{"vault:" + dir + "/new/v", "vault:" + link + "/new/v", "badger:" + link + "/x/../new/v/"} {
		if got := storePath(spec); got != filepath.Join(real, "new", "v") {
			t.Errorf("storePath(%q) = %q", spec, got)
		}
	}
}
