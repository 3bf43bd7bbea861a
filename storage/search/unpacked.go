package search

import (
	"bytes"
	"sync"

	"github.com/stratamem/strata/internal/recent"
)

// unpacked caches decoded records of documents that were read lately: what is
// found for one turn of a conversation tends to be found for the next as well,
// and unpacking takes a tenth of a turn. A record is looked up by its key and
// its bytes, so a changed record is read again. The zero value is empty; nil
// caches nothing.
type unpacked struct {
	mu      sync.Mutex
	records recent.Cache[string, unpackedRecord] // by key, of bytes
}

type unpackedRecord struct {
	stored []byte
	docs   []Doc
}

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
	r, ok := u.records.Get(key)
	return r.docs, ok && bytes.Equal(r.stored, stored)
}

func (u *unpacked) put(key string, r unpackedRecord) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.records.Limit, u.records.Size = 512<<10, sizeOfRecord
	u.records.Put(key, r)
}

func sizeOfRecord(key string, r unpackedRecord) int {
	size := len(key) + len(r.stored)
	for i := range r.docs {
		const fields = 256
		size += fields + len(r.docs[i].Text)
	}
	return size
}
