package storagetest_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// flaw is what is wrong with a logged store.
type flaw int

const (
	sound       flaw = iota
	neverSynced      // Full is a promise that nobody keeps
	syncedLate       // the sync of a write is made before the next
	loses            // a write is acknowledged before it is in the file
	halves           // the changes of a batch are written one by one
	unchecked        // checksums are not compared
	keepsTorn        // a torn end is passed over, and written after
	refusesTorn      // a torn end is damage
	resets           // a damaged file is an empty one
	overwrites       // the file is written anew for every batch
	savesIndex       // what is indexed is written by Close only
)

// logged is a small engine: a store in memory, and a file of all its batches. A
// frame of the file is the length of a batch as JSON, the CRC-32 of that, the
// CRC-32 of the batch (4 bytes each, little-endian), and the batch.
type logged struct {
	*mem.Store
	flaw flaw
	full bool

	mu      sync.Mutex
	f       *os.File
	waiting []byte          // acknowledged and not written
	indexed map[string]bool // documents that Find knows, with savesIndex
}

const loggedHead = 12

// change is what is in a batch: of a key, or declared fields.
type change struct {
	Key, Value string
	Delete     bool
	Fields     []string
}

func openLogged(flaw flaw, full bool) func(context.Context, string) (storage.Adapter, error) {
	return func(ctx context.Context, dir string) (storage.Adapter, error) {
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		s := &logged{Store: mem.New(), flaw: flaw, full: full, f: f}
		if err := s.replay(ctx); err != nil {
			f.Close()
			return nil, err
		}
		return s, nil
	}
}

// replay makes all batches again. A frame that the file is too short for was
// being written when the process ended.
func (s *logged) replay(ctx context.Context) error {
	content, err := os.ReadFile(s.f.Name())
	if err != nil {
		return err
	}
	if s.flaw == savesIndex {
		s.indexed = map[string]bool{}
		if text, err := os.ReadFile(s.f.Name() + ".index"); err == nil {
			if err := json.Unmarshal(text, &s.indexed); err != nil {
				return err
			}
		}
	}
	at := 0
	for at < len(content) {
		rest := content[at:]
		batch, ok := frame(rest, s.flaw == unchecked)
		if !ok && s.flaw == resets {
			s.Store = mem.New()
			at = 0
			break
		}
		if !ok || batch == nil && s.flaw == refusesTorn {
			return &storage.CorruptError{Path: s.f.Name(), Reason: "a frame is damaged"}
		}
		if batch == nil {
			break
		}
		if err := s.replayBatch(ctx, batch); err != nil {
			return err
		}
		at += loggedHead + len(batch)
	}
	if s.flaw == keepsTorn {
		at = len(content)
	}
	if err := s.f.Truncate(int64(at)); err != nil {
		return err
	}
	_, err = s.f.Seek(int64(at), 0)
	return err
}

func (s *logged) replayBatch(ctx context.Context, batch []byte) error {
	var changes []change
	if err := json.Unmarshal(batch, &changes); err != nil {
		return &storage.CorruptError{Path: s.f.Name(), Reason: "a batch cannot be read"}
	}
	var ops []storage.Op
	for _, c := range changes {
		switch {
		case c.Fields != nil:
			if err := s.Store.EnsureIndex(ctx, c.Fields...); err != nil {
				return err
			}
		case c.Delete:
			ops = append(ops, storage.Remove(c.Key))
		default:
			ops = append(ops, storage.Put(c.Key, []byte(c.Value)))
		}
	}
	return s.Store.Apply(ctx, ops...)
}

// frame returns the batch that content begins with: nil if it is not all there,
// and false if it is damaged.
func frame(content []byte, unchecked bool) ([]byte, bool) {
	if len(content) < loggedHead {
		return nil, true
	}
	n := binary.LittleEndian.Uint32(content)
	if binary.LittleEndian.Uint32(content[4:]) != crc32.ChecksumIEEE(content[:4]) {
		return nil, false
	}
	if int(n) > len(content)-loggedHead {
		return nil, true
	}
	batch := content[loggedHead : loggedHead+int(n)]
	if !unchecked && binary.LittleEndian.Uint32(content[8:]) != crc32.ChecksumIEEE(batch) {
		return nil, false
	}
	return batch, true
}

func (s *logged) Apply(ctx context.Context, ops ...storage.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flaw == syncedLate {
		if err := s.f.Sync(); err != nil {
			return err
		}
	}
	if err := s.Store.Apply(ctx, ops...); err != nil {
		return err
	}
	var changes []change
	for _, op := range ops {
		changes = append(changes, change{Key: op.Key, Value: string(op.Value), Delete: op.Delete})
		if s.indexed != nil {
			s.indexed[op.Key] = true
		}
		if s.flaw == halves {
			if err := s.write(changes); err != nil {
				return err
			}
			changes = nil
		}
	}
	if changes == nil {
		return nil
	}
	return s.write(changes)
}

func (s *logged) EnsureIndex(ctx context.Context, fields ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Store.EnsureIndex(ctx, fields...); err != nil {
		return err
	}
	return s.write([]change{{Fields: fields}})
}

func (s *logged) write(changes []change) error {
	batch, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(batch)))
	head = binary.LittleEndian.AppendUint32(head, crc32.ChecksumIEEE(head))
	head = binary.LittleEndian.AppendUint32(head, crc32.ChecksumIEEE(batch))
	text := append(head, batch...)
	switch s.flaw {
	case loses:
		text, s.waiting = s.waiting, text
	case overwrites:
		before, err := os.ReadFile(s.f.Name())
		if err == nil {
			err = s.f.Truncate(0)
		}
		if err == nil {
			_, err = s.f.Seek(0, 0)
		}
		if err != nil {
			return err
		}
		text = append(before, text...)
	}
	if _, err := s.f.Write(text); err != nil {
		return err
	}
	if s.full && s.flaw != neverSynced && s.flaw != syncedLate {
		return s.f.Sync()
	}
	return nil
}

func (s *logged) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		return nil
	}
	_, err := s.f.Write(s.waiting)
	if s.indexed != nil {
		text, _ := json.Marshal(s.indexed)
		err = errors.Join(err, os.WriteFile(s.f.Name()+".index", text, 0o600))
	}
	err = errors.Join(err, s.f.Close(), s.Store.Close())
	s.f = nil
	return err
}

func (s *logged) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range s.Store.Find(ctx, q) {
			if err == nil && s.indexed != nil && !s.indexed[entry.Key] {
				continue
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}
