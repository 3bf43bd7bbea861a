package search

import (
	"bytes"
	"sync"
)

// unpacked caches decoded records of documents that were read lately: what is
// found for one turn of a conversation tends to be found for the next as well,
// and unpacking takes a tenth of a turn. A record is looked up by its key and
// its bytes, so a changed record is read again. The zero value is empty; nil
// caches nothing.
type unpacked struct {
	mu          sync.Mutex
	now, before map[string]unpackedRecord // by key: those used since the last swap, and before it
	bytes       int                       // of now
}

type unpackedRecord struct {
	stored []byte
	docs   []Doc
}

// unpackedBytes is the maximum size of now and of before.
const unpackedBytes = 512 << 10

// read returns the documents of a record, which must not be modified.
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
