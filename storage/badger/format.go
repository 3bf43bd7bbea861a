package badger

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// The directory is one of badger's, with its external magic number in the
// MANIFEST: 'S' in the high byte, the version of the format in the low one.
// Another version of the format has another number. A program opens the
// versions up to its own and refuses newer ones.
//
// The first byte of a key in badger says what the key is for:
//
//	d key     frame of package engine: sequence number, CRC-32C, value; without
//	          the value, and with the user meta byte 1, where that is large
//	v number key  frame of a large value, under its sequence number: 8 bytes, big-endian
//	i entry   nothing; an index entry of package engine
//	m state   number of the last write, documents, records: 8 bytes each, big-endian
//	m fields  the declared fields, a sorted JSON list
//	m journal what to clean up after a crash: see type journal
//	x         nothing; see flush
//
// The state is part of every commit. The number of the last write never
// decreases, so no version is used twice.
//
// Frames of 2 KiB and more are large: badger keeps them in its value log. They
// have keys of their own, which are used only once, because garbage collection
// can bring back what was deleted: badger 4.9.6 rewrites a value that it moves
// even if it was deleted, and may drop the delete before the value. What comes
// back that way is a frame that no key names, so nobody sees it; see sweep.
const (
	spaceData  = 'd'
	spaceLarge = 'v'
	spaceIndex = 'i'
	spaceMeta  = 'm'
	spaceFlush = 'x'

	formatMagic   = 'S' << 8
	formatVersion = 1
	// manifestVersion is badger's own, which badger does not export.
	manifestVersion = 8

	valueThreshold = 2 << 10
	metaLarge      = 1
)

var (
	keyState   = []byte{spaceMeta, 's', 't', 'a', 't', 'e'}
	keyFields  = []byte{spaceMeta, 'f', 'i', 'e', 'l', 'd', 's'}
	keyJournal = []byte{spaceMeta, 'j', 'o', 'u', 'r', 'n', 'a', 'l'}
	keyFlush   = []byte{spaceFlush}
)

func dataKey(key string) []byte {
	return append(append(make([]byte, 0, 1+len(key)), spaceData), key...)
}

func indexKey(entry string) []byte {
	return append(append(make([]byte, 0, 1+len(entry)), spaceIndex), entry...)
}

func largeKey(key string, seq uint64) []byte {
	b := append(make([]byte, 0, 9+len(key)), spaceLarge)
	return append(binary.BigEndian.AppendUint64(b, seq), key...)
}

// head returns a copy of the value under the key itself, and whether that only
// refers to a value elsewhere; nil if there is no such key.
func head(txn *badger.Txn, key string) (frame []byte, isLarge bool, err error) {
	item, err := txn.Get(dataKey(key))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	frame, err = item.ValueCopy(nil)
	return frame, item.UserMeta() == metaLarge, err
}

// getFrame returns the whole frame of a key, or nil if there is none.
func getFrame(txn *badger.Txn, key string) ([]byte, error) {
	frame, isLarge, err := head(txn, key)
	if err != nil || !isLarge {
		return frame, err
	}
	return getLarge(txn, key, frame)
}

// visitFrame calls visit with the whole frame of an item that is stored under a
// key itself. The frame is valid until visit returns.
func visitFrame(txn *badger.Txn, key string, item *badger.Item, visit func(frame []byte) error) error {
	return item.Value(func(frame []byte) (err error) {
		if item.UserMeta() == metaLarge {
			if frame, err = getLarge(txn, key, frame); err != nil {
				return err
			}
		}
		return visit(frame)
	})
}

// getLarge returns the frame of a large value; if it is missing, a frame with a
// wrong checksum.
func getLarge(txn *badger.Txn, key string, head []byte) ([]byte, error) {
	seq, _, ok := engine.Unseal(key, head)
	if !ok {
		return []byte{}, nil
	}
	frame, err := get(txn, largeKey(key, seq))
	if frame == nil {
		frame = []byte{}
	}
	return frame, err
}

// get returns a copy of the value of a key, or nil if there is none.
//
// Between finding and reading a value, garbage collection may remove the file
// that it was in. badger then returns an empty value and no error; a second
// lookup finds where the value was moved.
func get(txn *badger.Txn, key []byte) ([]byte, error) {
	for attempt := 0; ; attempt++ {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return nil, err
		}
		if len(value) > 0 {
			return value, nil
		}
		if attempt == 3 {
			return []byte{}, nil
		}
	}
}

// state is what a commit changes besides keys and index.
type state struct {
	seq                uint64 // number of the last write
	documents, records uint64
}

// count returns the count that key belongs to.
func (n *state) count(key string) *uint64 {
	if storage.IsDocument(key) {
		return &n.documents
	}
	return &n.records
}

func (n state) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 24), n.seq)
	b = binary.BigEndian.AppendUint64(b, n.documents)
	return binary.BigEndian.AppendUint64(b, n.records)
}

// readState reads the state of the store, which is zero if the store is new.
func readState(txn *badger.Txn, path string) (state, []string, error) {
	b, err := get(txn, keyState)
	if err != nil {
		return state{}, nil, err
	}
	var now state
	switch len(b) {
	case 0:
	case 24:
		now = state{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
	default:
		return state{}, nil, unreadable(path, "state")
	}
	fields := []string{}
	if b, err = get(txn, keyFields); err != nil {
		return state{}, nil, err
	}
	if b != nil && json.Unmarshal(b, &fields) != nil {
		return state{}, nil, unreadable(path, "list of declared fields")
	}
	return now, fields, nil
}

func unreadable(path, what string) error {
	return &storage.CorruptError{Path: path, Reason: fmt.Sprintf("the %s cannot be read", what), Repair: repairStore}
}
