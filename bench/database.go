package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	direct "github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/open"
)

// database is what is measured: an engine of Strata, or the library under it,
// used directly. It is safe for concurrent use.
type database interface {
	set(ctx context.Context, docs []storage.Entry) error // durable when it returns
	get(ctx context.Context, key string) error
	list(ctx context.Context, limit int) (int, error)              // the first keys
	scan(ctx context.Context, from string, limit int) (int, error) // keys after from, with values
	close() error
}

// engine is an engine of Strata.
type engine struct{ a storage.Adapter }

// openEngine opens an engine in a directory by its scheme.
func openEngine(ctx context.Context, scheme, dir string, level storage.Durability) (*engine, error) {
	spec := scheme + ":"
	switch scheme {
	case "mem":
	case "bolt":
		spec += filepath.Join(dir, "data.db")
	default:
		spec += dir
	}
	a, err := open.Open(ctx, spec, &open.Options{Durability: level})
	if err != nil {
		return nil, err
	}
	return &engine{a}, nil
}

func (e *engine) set(ctx context.Context, docs []storage.Entry) error {
	if len(docs) == 1 {
		return storage.Set(ctx, e.a, docs[0].Key, docs[0].Value)
	}
	ops := make([]storage.Op, len(docs))
	for i, d := range docs {
		ops[i] = storage.Put(d.Key, d.Value)
	}
	return e.a.Apply(ctx, ops...)
}

func (e *engine) get(ctx context.Context, key string) error {
	_, _, err := e.a.Get(ctx, key)
	return err
}

func (e *engine) list(ctx context.Context, limit int) (n int, err error) {
	for _, err = range e.a.List(ctx, "doc/") {
		if err != nil || n == limit {
			break
		}
		n++
	}
	return n, err
}

func (e *engine) scan(ctx context.Context, from string, limit int) (n int, err error) {
	for _, err = range storage.Scan(ctx, e.a, "doc/", &storage.ScanOptions{After: from, Limit: limit}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (e *engine) find(ctx context.Context, team string) (n int, err error) {
	for _, err = range storage.Find(ctx, e.a, storage.Query{Equal: map[string]string{"team_id": team}}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (e *engine) close() error { return e.a.Close() }

// openDirect opens the library under an engine, with the options that make it
// do the same: bbolt and badger with a sync per commit, and for the vault a
// file for each document. It returns nil for mem.
func openDirect(scheme, dir string, sync bool) (database, error) {
	switch scheme {
	case "bolt":
		db, err := bbolt.Open(filepath.Join(dir, "data.db"), 0o600, &bbolt.Options{NoSync: !sync, FreelistType: bbolt.FreelistMapType, Timeout: time.Second})
		if err != nil {
			return nil, err
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(bucket)
			return err
		})
		return &boltDirect{db}, err
	case "badger":
		db, err := direct.Open(direct.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(sync).WithMetricsEnabled(false))
		if err != nil {
			return nil, err
		}
		return &badgerDirect{db}, nil
	case "vault":
		dir = filepath.Join(dir, "doc")
		return &files{dir: dir, sync: sync}, os.MkdirAll(dir, 0o755)
	}
	return nil, nil
}

var bucket = []byte("data")

// boltDirect is bbolt: one Update for each commit, one View for each read.
type boltDirect struct{ db *bbolt.DB }

func (d *boltDirect) set(_ context.Context, docs []storage.Entry) error {
	return d.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		for _, e := range docs {
			if err := b.Put([]byte(e.Key), e.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *boltDirect) get(_ context.Context, key string) error {
	return d.db.View(func(tx *bbolt.Tx) error {
		if bytes.Clone(tx.Bucket(bucket).Get([]byte(key))) == nil {
			return errMissing
		}
		return nil
	})
}

func (d *boltDirect) list(_ context.Context, limit int) (n int, err error) {
	return d.each("", limit, false)
}

func (d *boltDirect) scan(_ context.Context, from string, limit int) (n int, err error) {
	return d.each(from, limit, true)
}

func (d *boltDirect) each(from string, limit int, values bool) (int, error) {
	entries := make([]storage.Entry, 0, limit)
	err := d.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		for k, v := c.Seek([]byte(from)); k != nil && len(entries) < limit; k, v = c.Next() {
			e := storage.Entry{Key: string(k)}
			if values {
				e.Value = bytes.Clone(v)
			}
			entries = append(entries, e)
		}
		return nil
	})
	return len(entries), err
}

func (d *boltDirect) close() error { return d.db.Close() }

// badgerDirect is badger: one transaction for each commit and each read.
type badgerDirect struct{ db *direct.DB }

func (d *badgerDirect) set(_ context.Context, docs []storage.Entry) error {
	return d.db.Update(func(tx *direct.Txn) error {
		for _, e := range docs {
			if err := tx.Set([]byte(e.Key), e.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *badgerDirect) get(_ context.Context, key string) error {
	return d.db.View(func(tx *direct.Txn) error {
		it, err := tx.Get([]byte(key))
		if err == nil {
			_, err = it.ValueCopy(nil)
		}
		return err
	})
}

func (d *badgerDirect) list(_ context.Context, limit int) (int, error) {
	return d.each("", limit, false)
}

func (d *badgerDirect) scan(_ context.Context, from string, limit int) (int, error) {
	return d.each(from, limit, true)
}

func (d *badgerDirect) each(from string, limit int, values bool) (int, error) {
	entries := make([]storage.Entry, 0, limit)
	err := d.db.View(func(tx *direct.Txn) error {
		opts := direct.DefaultIteratorOptions
		opts.PrefetchValues = values
		it := tx.NewIterator(opts)
		defer it.Close()
		for it.Seek([]byte(from)); it.Valid() && len(entries) < limit; it.Next() {
			e := storage.Entry{Key: string(it.Item().Key())}
			if values {
				var err error
				if e.Value, err = it.Item().ValueCopy(nil); err != nil {
					return err
				}
			}
			entries = append(entries, e)
		}
		return nil
	})
	return len(entries), err
}

func (d *badgerDirect) close() error { return d.db.Close() }

// files stores each document in a file: a temporary one, synced, renamed, and
// the directory synced.
type files struct {
	dir  string
	sync bool
}

func (d *files) path(key string) string { return filepath.Join(d.dir, filepath.Base(key)+".md") }

func (d *files) set(_ context.Context, docs []storage.Entry) error {
	for _, e := range docs {
		path := d.path(e.Key)
		f, err := os.Create(path + ".tmp")
		if err != nil {
			return err
		}
		_, err = f.Write(e.Value)
		if err == nil && d.sync {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
		if d.sync {
			if err := syncDir(d.dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (d *files) get(_ context.Context, key string) error {
	_, err := os.ReadFile(d.path(key))
	return err
}

// list reads the directory, which is unordered.
func (d *files) list(_ context.Context, limit int) (int, error) {
	f, err := os.Open(d.dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	names, err := f.Readdirnames(limit)
	return len(names), err
}

// scan reads files in the order of the directory.
func (d *files) scan(_ context.Context, _ string, limit int) (int, error) {
	f, err := os.Open(d.dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	names, err := f.Readdirnames(limit)
	for _, name := range names {
		if err == nil {
			_, err = os.ReadFile(filepath.Join(d.dir, name))
		}
	}
	return len(names), err
}

func (d *files) close() error { return nil }

var errMissing = errors.New("a document is missing")

// benchFields are the fields that package soma declares.
var benchFields = []string{"type", "layer", "status", "tags", "team_id"}

// document returns the i-th document: about 1 KiB of JSON, under a random key,
// like hashes and UUIDs. team_id cycles through teams values.
func document(i, teams int) storage.Entry {
	return storage.Entry{
		Key: documentKey(i),
		Value: fmt.Appendf(nil, `{"type":"insight","layer":%q,"status":%q,"tags":[%q,%q],"team_id":%q,"n":%d,"body":%q}`,
			[]string{"archive", "working", "emerging", "canon"}[i%4], []string{"draft", "active", "superseded"}[i%3],
			fmt.Sprint("t", i%31), fmt.Sprint("u", i%1009), teamOf(i, teams), i, prose(i)),
	}
}

func teamOf(i, teams int) string { return fmt.Sprint("team-", i%max(teams, 1)) }

// prose returns 850 bytes of text that differ between documents as far as a
// compressor is concerned.
func prose(i int) string {
	const size = 850
	at := i * 127 % (len(words()) - size)
	return words()[at : at+size]
}

// words is 256 KiB of words in no order.
var words = sync.OnceValue(func() string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < 256<<10 {
		for range 2 + r.IntN(8) {
			b.WriteByte("etaoinshrdlucmwfgypbvk"[min(r.IntN(22), r.IntN(22))])
		}
		b.WriteByte(' ')
	}
	return b.String()
})

// documentKey mixes i by the finalizer of SplitMix64 (Steele, Lea and Flood,
// OOPSLA 2014).
func documentKey(i int) string {
	z := uint64(i+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return fmt.Sprintf("doc/%016x", z^z>>31)
}
