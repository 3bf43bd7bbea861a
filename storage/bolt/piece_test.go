package bolt_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"go.etcd.io/bbolt"
)

// pieceBytes and mostDocument are as format.go says.
const (
	pieceBytes   = 992
	mostDocument = 2016
)

// noise returns n bytes that nothing compresses and nothing else has.
func noise(rng *rand.ChaCha8, n int) []byte {
	b := make([]byte, n)
	rng.Read(b)
	return b
}

// edit changes a closed store with bbolt.
func edit(t *testing.T, path string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// pieceKeys returns the keys of all pieces of a closed store.
func pieceKeys(t *testing.T, path string) (keys [][]byte) {
	t.Helper()
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("pieces")).ForEach(func(k, _ []byte) error {
			keys = append(keys, bytes.Clone(k))
			return nil
		})
	})
	return keys
}

// TestLargeValues sets, replaces and deletes values of all sizes about a piece
// and many, and holds every way to read them against a map.
func TestLargeValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, &bolt.Options{Durability: storage.None})
	ctx := t.Context()
	if err := s.EnsureIndex(ctx, "f"); err != nil {
		t.Fatal(err)
	}
	rng := rand.NewChaCha8([32]byte{1})
	r := rand.New(rng)
	sizes := []int{
		0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 2*pieceBytes - 1, 2 * pieceBytes, 2*pieceBytes + 1,
		mostDocument, mostDocument + 1, 7 * pieceBytes, 30_000, 300_000,
	}
	want := make(map[string][]byte)
	set := func(key string, value []byte) storage.Op {
		want[key] = value
		return storage.Put(key, value)
	}
	if err := s.Apply(ctx, set("_most", noise(rng, storage.MaxValue-len("_most")))); err != nil {
		t.Fatal(err)
	}
	holds(t, s, want)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := s.Get(ctx, "_most"); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > storage.MaxValue+64<<10 {
		t.Errorf("Get of %d bytes allocates %d", len(want["_most"]), took)
	}
	if err := s.Apply(ctx, set("_most", nil)); err != nil {
		t.Fatal(err)
	}
	for round := range 30 {
		var ops []storage.Op
		for range 8 {
			n := sizes[r.IntN(len(sizes))]
			switch key := fmt.Sprintf("_r/%02d", r.IntN(20)); r.IntN(4) {
			case 0:
				ops = append(ops, storage.Remove(key))
				delete(want, key)
			case 1:
				key = fmt.Sprintf("doc/%02d", r.IntN(10))
				ops = append(ops, set(key, fmt.Appendf(nil, `{"f":"%d","pad":"%s"}`, round%3, strings.Repeat("x", n))))
			default:
				ops = append(ops, set(key, noise(rng, n)))
			}
		}
		if err := s.Apply(ctx, ops...); err != nil {
			t.Fatal(err)
		}
		holds(t, s, want)
	}
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v", found)
	}
	still, err := s.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, still.(*bolt.Store), want)
	if err := errors.Join(still.Close(), s.Compact(ctx)); err != nil {
		t.Fatal(err)
	}
	holds(t, s, want)
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v after Compact", found)
	}
	for key := range want {
		if err := storage.Delete(ctx, s, key); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := pieceKeys(t, path); len(left) > 0 {
		t.Errorf("%d pieces are left of no value", len(left))
	}
}

// holds compares a store with what it should hold.
func holds(t *testing.T, s *bolt.Store, want map[string][]byte) {
	t.Helper()
	ctx := t.Context()
	for key, value := range want {
		if got, _, err := s.Get(ctx, key); err != nil || !bytes.Equal(got, value) {
			t.Errorf("Get %s: %d bytes, %v, want %d", key, len(got), err, len(value))
		}
	}
	for _, reverse := range []bool{false, true} {
		var keys []string
		for e, err := range s.Scan(ctx, "", &storage.ScanOptions{Reverse: reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(e.Value, want[e.Key]) {
				t.Errorf("Scan yields %d bytes of %s, want %d", len(e.Value), e.Key, len(want[e.Key]))
			}
			if _, version, err := s.Get(ctx, e.Key); err != nil || version != e.Version {
				t.Errorf("Scan has version %s of %s, Get has %s, %v", e.Version, e.Key, version, err)
			}
			keys = append(keys, e.Key)
		}
		if len(keys) != len(want) {
			t.Errorf("Scan yields %d keys, want %d", len(keys), len(want))
		}
	}
	found, documents := 0, 0
	for f := range 3 {
		for e, err := range s.Find(ctx, storage.Query{Equal: map[string]string{"f": fmt.Sprint(f)}}) {
			if err != nil {
				t.Fatal(err)
			}
			if found++; !bytes.Equal(e.Value, want[e.Key]) {
				t.Errorf("Find yields %d bytes of %s, want %d", len(e.Value), e.Key, len(want[e.Key]))
			}
		}
	}
	for key := range want {
		if storage.IsDocument(key) {
			documents++
		}
	}
	if found != documents {
		t.Errorf("Find yields %d documents, want %d", found, documents)
	}
}

// TestDamagedPieces damages each thing that a value in pieces is made of. Reading
// it is an error, Check finds it, and setting or deleting the key leaves nothing
// of it.
func TestDamagedPieces(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{2})
	value := noise(rng, 5*pieceBytes+100)
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	s := open(t, path, &bolt.Options{Durability: storage.None})
	ctx := t.Context()
	for _, key := range []string{"_a", "_b", "_c"} {
		if err := storage.Set(ctx, s, key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pieces := pieceKeys(t, path)
	b := pieces[6:12] // those of _b
	pair := func(tx *bbolt.Tx) (*bbolt.Bucket, *bbolt.Bucket) {
		return tx.Bucket([]byte("data")), tx.Bucket([]byte("pieces"))
	}
	flip := func(bucket *bbolt.Bucket, key []byte, at int) error {
		changed := bytes.Clone(bucket.Get(key))
		changed[at] ^= 0x80
		return bucket.Put(key, changed)
	}
	for _, c := range []struct {
		name   string
		damage func(data, pieces *bbolt.Bucket) error
		reads  bool // the value is whole for all that
	}{
		{"flipped bit", func(_, pieces *bbolt.Bucket) error { return flip(pieces, b[2], pieceBytes/2) }, false},
		{"first piece missing", func(_, pieces *bbolt.Bucket) error { return pieces.Delete(b[0]) }, false},
		{"last piece missing", func(_, pieces *bbolt.Bucket) error { return pieces.Delete(b[5]) }, false},
		{"piece missing", func(_, pieces *bbolt.Bucket) error { return pieces.Delete(b[3]) }, false},
		{"short piece", func(_, pieces *bbolt.Bucket) error { return pieces.Put(b[3], value[:100]) }, false},
		{"long piece", func(_, pieces *bbolt.Bucket) error { return pieces.Put(b[3], value) }, false},
		{"two pieces swapped", func(_, pieces *bbolt.Bucket) error {
			one, other := bytes.Clone(pieces.Get(b[1])), bytes.Clone(pieces.Get(b[2]))
			return errors.Join(pieces.Put(b[1], other), pieces.Put(b[2], one))
		}, false},
		{"no pieces", func(_, pieces *bbolt.Bucket) error {
			for _, k := range b {
				if err := pieces.Delete(k); err != nil {
					return err
				}
			}
			return nil
		}, false},
		{"mark", func(data, _ *bbolt.Bucket) error { return flip(data, []byte("_b"), 0) }, false},
		{"reference", func(data, _ *bbolt.Bucket) error { return flip(data, []byte("_b"), 14) }, false},
		{"short reference", func(data, _ *bbolt.Bucket) error {
			return data.Put([]byte("_b"), bytes.Clone(data.Get([]byte("_b"))[:20]))
		}, false},
		{"reference of another key", func(data, _ *bbolt.Bucket) error {
			return data.Put([]byte("_b"), bytes.Clone(data.Get([]byte("_a"))))
		}, false},
		{"extra piece", func(_, pieces *bbolt.Bucket) error {
			return pieces.Put(binary.BigEndian.AppendUint64(nil, 1000), value[:10])
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, set := range []bool{true, false} {
				path := write(t, filepath.Join(t.TempDir(), "store.db"), good)
				edit(t, path, func(tx *bbolt.Tx) error {
					data, pieces := pair(tx)
					return c.damage(data, pieces)
				})
				s := open(t, path, nil)
				got, _, err := s.Get(ctx, "_b")
				var corrupt *storage.CorruptError
				switch {
				case c.reads:
					if err != nil || !bytes.Equal(got, value) {
						t.Errorf("Get: %d bytes, %v", len(got), err)
					}
				case !errors.As(err, &corrupt) || corrupt.Key != "_b" || corrupt.Repair == "":
					t.Errorf("Get: %v, want a CorruptError of _b", err)
				}
				for _, key := range []string{"_a", "_c"} {
					if got, _, err := s.Get(ctx, key); err != nil || !bytes.Equal(got, value) {
						t.Errorf("Get %s: %d bytes, %v", key, len(got), err)
					}
				}
				found := faults(t, s)
				if len(found) != 1 || (found[0].Key == "_b") == c.reads {
					t.Errorf("Check found %+v", found)
				}
				if c.reads {
					continue
				}
				want := 12
				if set {
					want, err = 18, storage.Set(ctx, s, "_b", value)
				} else {
					err = storage.Delete(ctx, s, "_b")
				}
				if err != nil {
					t.Fatal(err)
				}
				if found := faults(t, s); len(found) > 0 {
					t.Errorf("Check found %+v after a repair", found)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if left := pieceKeys(t, path); len(left) != want {
					t.Errorf("%d pieces, want %d", len(left), want)
				}
			}
		})
	}
}

// TestEqualValue pins that to set what a key has writes no page of it, and that
// preconditions and versions are those of a change all the same.
func TestEqualValue(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"), &bolt.Options{Durability: storage.None})
	ctx := t.Context()
	for _, value := range [][]byte{{}, []byte("short"), bytes.Repeat([]byte("long "), 1000)} {
		var made, again storage.Version
		if err := s.Apply(ctx, storage.Put("_k", value).Making(&made)); err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(ctx, storage.Put("_k", bytes.Clone(value)).IfVersion(made).Making(&again)); err != nil {
			t.Fatal(err)
		}
		got, version, err := s.Get(ctx, "_k")
		if err != nil || !bytes.Equal(got, value) || made != version || again != version {
			t.Errorf("%d bytes of version %s, %v, after versions %s and %s", len(got), version, err, made, again)
		}
	}
}

// version1 returns the path of a store that was written before there were pieces.
func version1(t *testing.T) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "v1.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "store.db"), content)
}

func formatOf(t *testing.T, path string) (text string) {
	t.Helper()
	edit(t, path, func(tx *bbolt.Tx) error {
		text = string(tx.Bucket([]byte("strata")).Get([]byte("format")))
		return nil
	})
	return text
}

// TestVersion1 opens a file of version 1. It is read as it is, stays one for
// programs that know no other as long as no large value is set, and is then one
// that they refuse.
func TestVersion1(t *testing.T) {
	want := map[string][]byte{"_big": bytes.Repeat([]byte("0123456789abcdef"), 100<<10/16)}
	for i := range 40 {
		n := []int{10, 1000, 3000, 9000}[i%4]
		want[fmt.Sprintf("doc/%02d", i)] = fmt.Appendf(nil, `{"f":"%d","pad":"%s"}`, i%4, bytes.Repeat([]byte("x"), n))
	}
	want["doc/03"] = []byte(`{"f":"3"}`)
	delete(want, "doc/07")
	path := version1(t)
	check := func(s *bolt.Store) {
		t.Helper()
		for key, value := range want {
			if got, _, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got, value) {
				t.Errorf("Get %s: %d bytes, %v, want %d", key, len(got), err, len(value))
			}
		}
		var keys []string
		for e, err := range s.Find(t.Context(), storage.Query{Equal: map[string]string{"f": "3"}}) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, e.Key)
		}
		if len(keys) != 9 || slices.Contains(keys, "doc/07") {
			t.Errorf("Find yields %q", keys)
		}
		if found := faults(t, s); len(found) > 0 {
			t.Errorf("Check found %+v", found)
		}
	}
	set := func(s *bolt.Store, key string, value []byte) {
		t.Helper()
		if err := storage.Set(t.Context(), s, key, value); err != nil {
			t.Fatal(err)
		}
		want[key] = value
	}
	s := open(t, path, &bolt.Options{ReadOnly: true})
	check(s)
	s.Close()

	s = open(t, path, nil)
	set(s, "_small", make([]byte, pieceBytes))
	set(s, "_big", []byte("small now"))
	if err := storage.Delete(t.Context(), s, "_none"); err != nil {
		t.Fatal(err)
	}
	check(s)
	s.Close()
	if got := formatOf(t, path); got != `{"format":"strata-bolt","version":1}` {
		t.Errorf("format is %s after small values", got)
	}

	s = open(t, path, nil)
	set(s, "_large", make([]byte, pieceBytes+1))
	set(s, "doc/11", []byte(`{"f":"3","pad":"`+strings.Repeat("y", 5000)+`"}`))
	check(s)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(s)
	s.Close()
	if got := formatOf(t, path); got != `{"format":"strata-bolt","version":2}` {
		t.Errorf("format is %s after a large value", got)
	}
	check(open(t, path, nil))
}
