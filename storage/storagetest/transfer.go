package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/mem"
)

func transferCases() []testCase {
	return []testCase{
		{name: "backup-and-restore", run: backupAndRestore},
		{name: "backup-damaged", run: backupDamaged},
		{name: "copy", run: copyBetween},
		{name: "copy-resumed", run: copyResumed},
	}
}

// variety stores a bit of everything and returns the tally.
func variety(t *testing.T, e Engine, a storage.Adapter) backup.Tally {
	t.Helper()
	declare(t, a, "even", "tags")
	fill(t, e, a, 400)
	limits := storage.LimitsOf(a)
	for i, text := range hostileTexts {
		if len(storage.Join(text, text)) > limits.Key-10 {
			continue
		}
		set(t, a, "doc/"+storage.Join(text), fmt.Sprintf(`{"z":%d, "tags":["a","%d"], "a":{"c":1.10,"b":"\u00e9\ud83d\ude42\/<>&"}}`, i, i%3))
		set(t, a, "_rec/"+storage.Join(text, text), text)
	}
	set(t, a, "_rec/big", strings.Repeat("\x00\xff", min(1<<17, limits.Value/2)))
	set(t, a, "doc/big", `{"body":"`+strings.Repeat("ü", min(1<<17, limits.Value/2-10))+`"}`)
	set(t, a, "_rec/empty", "")
	tally, err := backup.TallyOf(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

// alike checks that a store holds what variety stored, and answers as the
// original did.
func alike(t *testing.T, a, original storage.Adapter, tally backup.Tally) {
	t.Helper()
	got, err := backup.TallyOf(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "tally", got, tally)
	for _, q := range []storage.Query{{Equal: fields{"even": "true"}}, {Equal: fields{"tags": "1"}}, {Range: &storage.Range{Field: "tags", From: "0", To: "2"}}} {
		wantFound(t, a, q, keysOf(t, storage.Find(t.Context(), original, q))...)
	}
}

func backedUp(t *testing.T, a storage.Adapter) ([]byte, backup.Tally) {
	t.Helper()
	var out bytes.Buffer
	tally, err := backup.Write(t.Context(), a, &out)
	if err != nil {
		t.Fatalf("Backup: %v", err)
	}
	return out.Bytes(), tally
}

func backupAndRestore(t *testing.T, e Engine) {
	a := e.open(t)
	tally := variety(t, e, a)
	text, written := backedUp(t, a)
	diff(t, "tally of the backup", written, tally)

	m := mem.New()
	defer m.Close()
	read, err := backup.Restore(t.Context(), m, bytes.NewReader(text), nil)
	if err != nil {
		t.Fatalf("Restore into mem: %v", err)
	}
	diff(t, "tally of the restored", read, tally)
	if !e.has("Statter") { // then the backup has no indexes
		declare(t, m, "even", "tags")
	}
	alike(t, m, a, tally)
	again, _ := backedUp(t, m)
	if _, rest, _ := bytes.Cut(text, []byte("\n")); !bytes.Contains(again, rest[:bytes.LastIndex(rest, []byte(`{"end"`))]) {
		t.Error("the backup of a restored backup has other lines")
	}

	// And back, from a reader that cannot seek.
	b := e.open(t)
	var last backup.Tally
	progress := func(done backup.Tally) { last = done }
	if _, err := backup.Restore(t.Context(), b, io.MultiReader(bytes.NewReader(again)), &backup.RestoreOptions{Progress: progress}); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	if last.Documents != tally.Documents || last.Records != tally.Records {
		t.Errorf("the last progress is %+v", last)
	}
	alike(t, b, a, tally)
	sound(t, e, b)

	_, err = backup.Restore(t.Context(), b, bytes.NewReader(text), nil)
	checkInvalid(t, "Restore into a store that is not empty", err)
	set(t, b, "_rec/empty", "changed")
	set(t, b, "_rec/extra", "stays")
	if _, err := backup.Restore(t.Context(), b, bytes.NewReader(text), &backup.RestoreOptions{Merge: true}); err != nil {
		t.Fatalf("Restore with Merge: %v", err)
	}
	want(t, b, "_rec/empty", "")
	want(t, b, "_rec/extra", "stays")
}

func backupDamaged(t *testing.T, e Engine) {
	a := e.open(t)
	fill(t, e, a, 5)
	text, _ := backedUp(t, a)
	b := e.open(t)
	refuse := func(what string, text []byte, target error) {
		t.Helper()
		_, err := backup.Restore(t.Context(), b, bytes.NewReader(text), nil)
		if !errors.Is(err, target) {
			t.Errorf("%s: error %v, want %v", what, err, target)
		}
	}
	for cut := range len(text) - 1 {
		if !bytes.ContainsRune(text[:cut], '\n') {
			refuse(fmt.Sprintf("cut to %d bytes", cut), text[:cut], storage.ErrFormat)
			continue
		}
		refuse(fmt.Sprintf("cut to %d bytes", cut), text[:cut], storage.ErrCorrupt)
	}
	header := bytes.IndexByte(text, '\n')
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		_, err := backup.Restore(t.Context(), b, bytes.NewReader(bad), nil)
		if !errors.Is(err, storage.ErrCorrupt) && !(i <= header && (errors.Is(err, storage.ErrFormat) || errors.Is(err, storage.ErrNewer))) {
			t.Errorf("bit of byte %d flipped: %v", i, err)
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	swapped := bytes.Join([][]byte{lines[0], lines[2], lines[1]}, nil)
	refuse("lines swapped", append(swapped, bytes.Join(lines[3:], nil)...), storage.ErrCorrupt)
	refuse("a line left out", append(bytes.Clone(lines[0]), bytes.Join(lines[2:], nil)...), storage.ErrCorrupt)
	refuse("something follows", append(bytes.Clone(text), "\n"...), storage.ErrCorrupt)
	refuse("newer", bytes.Replace(text, []byte(`"version":1`), []byte(`"version":2`), 1), storage.ErrNewer)
	refuse("something else", []byte("hello\nworld\n"), storage.ErrFormat)
	refuse("nothing", nil, storage.ErrFormat)
	diff(t, "keys after refused backups", list(t, b, ""), []string{})
}

func copyBetween(t *testing.T, e Engine) {
	a := e.open(t)
	tally := variety(t, e, a)
	m := mem.New()
	defer m.Close()
	var steps []backup.CopyProgress
	got, err := backup.Copy(t.Context(), m, a, &backup.CopyOptions{Progress: func(p backup.CopyProgress) { steps = append(steps, p) }})
	if err != nil {
		t.Fatalf("Copy to mem: %v", err)
	}
	diff(t, "tally of the copy", got, tally)
	if !e.has("Statter") {
		declare(t, m, "even", "tags")
	}
	alike(t, m, a, tally)
	if len(steps) < 2 || !steps[len(steps)-1].Verifying || steps[len(steps)-1].Done != tally.Documents+tally.Records {
		t.Errorf("progress is %+v", steps)
	}
	b := e.open(t)
	if _, err := backup.Copy(t.Context(), b, m, nil); err != nil {
		t.Fatalf("Copy back: %v", err)
	}
	alike(t, b, a, tally)
	sound(t, e, b)
	_, err = backup.Copy(t.Context(), b, m, nil)
	checkInvalid(t, "Copy into a store that is not empty", err)
	set(t, b, "_rec/extra", "")
	_, err = backup.Copy(t.Context(), b, m, &backup.CopyOptions{Resume: true})
	checkInvalid(t, "Copy into a store that holds something else", err)
}

func copyResumed(t *testing.T, e Engine) {
	src := mem.New()
	defer src.Close()
	keys := fill(t, Engine{}, src, 1500)
	dst := e.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := backup.Copy(ctx, dst, src, &backup.CopyOptions{Progress: func(p backup.CopyProgress) {
		if p.Done >= 1500 {
			cancel()
		}
	}})
	wantErr(t, "cancelled Copy", err, context.Canceled)
	have := len(list(t, dst, ""))
	if have == 0 || have >= len(keys) {
		t.Fatalf("a cancelled Copy left %d keys of %d", have, len(keys))
	}
	set(t, dst, keys[0], "damaged")
	var last backup.CopyProgress
	if _, err := backup.Copy(t.Context(), dst, src, &backup.CopyOptions{Resume: true, Progress: func(p backup.CopyProgress) { last = p }}); err != nil {
		t.Fatalf("resumed Copy: %v", err)
	}
	if int(last.Written) != len(keys)-have+1 {
		t.Errorf("a resumed Copy wrote %d keys, want %d", last.Written, len(keys)-have+1)
	}
	diff(t, "keys", list(t, dst, ""), keys)
	want(t, dst, keys[0], "record 0")
}
