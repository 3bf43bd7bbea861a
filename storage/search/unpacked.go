package search

import (
	"bytes"
	"sync"
)

// unpacked are records of documents that were read lately, taken apart: what is
// found for one turn of a conversation is found for the next as well, and to unpack
// it is a tenth of what a turn takes. A record is looked up by its bytes beside its key: whoever
// changes it, it is read anew. The zero value is empty; nil keeps nothing.
type unpacked struct {
	mu          sync.Mutex
	now, before map[string]unpackedRecord // by key: those used since the last change of these, and before it
	bytes       int                       // of now
}

type unpackedRecord struct {
	stored []byte
	docs   []Doc
}

// unpackedBytes is what now and before may take, each.
const unpackedBytes = 512 << 10

// read returns the documents of a record. They are not to be changed.
func (u *unpacked) read(key, id string, stored []byte) ([]Doc, error) {
	if u == nil {
		return decodeRecord(id, stored)
	}
	if docs, ok := u.get(key, stored); ok {
		return docs, nil
	}
	docs, err := decodeRecord(id, stored)
	if err == nil {
		u.put(key, unpackedRecord{stored, docs})
	}
	return docs, err
}

func (u *unpacked) get(key string, stored []byte) ([]Doc, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r, ok := u.now[key]
	if !ok {
		if r, ok = u.before[key]; ok {
			delete(u.before, key)
			u.keep(key, r)
		}
	}
	return r.docs, ok && bytes.Equal(r.stored, stored)
}

func (u *unpacked) put(key string, r unpackedRecord) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keep(key, r)
}

func (u *unpacked) keep(key string, r unpackedRecord) {
	size := len(key) + len(r.stored)
	for i := range r.docs {
		const fields = 256
		size += fields + len(r.docs[i].Text)
	}
	if size > unpackedBytes/4 {
		return
	}
	if u.bytes += size; u.now == nil || u.bytes > unpackedBytes {
		u.now, u.before, u.bytes = make(map[string]unpackedRecord), u.now, size
	}
	u.now[key] = r
}
