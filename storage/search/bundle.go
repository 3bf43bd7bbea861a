package search

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// A bundle is the documents of one record: those whose IDs are equal up to the
// last hyphen, in an index with [Options.Bundle]. Its key is that of a document
// with the common part as its ID, and its record is
//
//	format     a byte
//	documents  how many; each: the rest of its ID, and its record, see Doc.encode
//
// where numbers are uvarints, and texts and records follow their lengths.
const bundleFormat = 2

// bundleOf returns the common part of the IDs of a bundle, and false if a
// document with this ID is in none.
func bundleOf(id string) (name string, ok bool) {
	at := strings.LastIndexByte(id, '-')
	return id[:max(at, 0)], at > 0
}

func encodeBundle(name string, docs []Doc) []byte {
	b := binary.AppendUvarint([]byte{bundleFormat}, uint64(len(docs)))
	for i := range docs {
		b = appendText(b, docs[i].ID[len(name):])
		b = appendText(b, string(docs[i].encode()))
	}
	return b
}

// rooms are of *[]byte, to unpack records in.
var rooms sync.Pool

// decodeRecord decodes what is stored under the key of an ID: a document or a
// bundle.
func decodeRecord(id string, stored []byte) ([]Doc, error) {
	room, _ := rooms.Get().(*[]byte)
	if room == nil {
		room = new([]byte)
	}
	defer rooms.Put(room)
	*room = (*room)[:0]
	value, err := pack.UnpackTo(room, stored)
	if err != nil {
		return nil, errShort
	}
	if len(value) == 0 || value[0] != bundleFormat {
		d, err := decodeDoc(id, value)
		return []Doc{d}, err
	}
	r := reader{data: string(value[1:])}
	var docs []Doc
	for n := r.count(); n > 0 && r.err == nil; n-- {
		d := Doc{ID: id + r.text(), Record: DocKey(id)}
		part := reader{data: r.text()}
		if err := part.doc(&d); err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	if r.data != "" {
		r.fail()
	}
	return docs, r.err
}

// ReadRecord returns the documents stored under a key relative to the index,
// which is their [Doc.Record], or an error that is [storage.ErrNotFound].
func ReadRecord(ctx context.Context, r storage.Reader, key string) ([]Doc, error) {
	return readRecord(ctx, r, key, nil)
}

func readRecord(ctx context.Context, r storage.Reader, key string, u *unpacked) ([]Doc, error) {
	id, ok := DocID(key)
	if !ok {
		return nil, fmt.Errorf("read document: %w", &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound})
	}
	value, err := r.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	docs, err := u.read(key, id, value)
	if errors.Is(err, errShort) {
		err = &storage.CorruptError{Key: key, Reason: "document of an index is damaged", Repair: "delete it"}
	}
	return docs, err
}

// shelf reads documents, all of a bundle at once.
type shelf struct {
	r       storage.Reader
	bundled bool             // whether to look for a bundle first
	bundles map[string][]Doc // by name; nil: there is none
	recent  *unpacked
}

func (s *shelf) read(ctx context.Context, id string) (Doc, error) {
	if s.bundled {
		if d, err := s.unbundle(ctx, id); !errors.Is(err, storage.ErrNotFound) {
			return d, err
		}
	}
	docs, err := readRecord(ctx, s.r, DocKey(id), s.recent)
	switch {
	case errors.Is(err, storage.ErrNotFound) && !s.bundled:
		return s.unbundle(ctx, id)
	case err != nil:
		return Doc{}, err
	case len(docs) != 1 || docs[0].ID != id: // a bundle of this name
		return Doc{}, notFound(id)
	}
	return docs[0], nil
}

func (s *shelf) unbundle(ctx context.Context, id string) (Doc, error) {
	name, ok := bundleOf(id)
	if !ok {
		return Doc{}, notFound(id)
	}
	docs, had := s.bundles[name]
	if !had {
		var err error
		if docs, err = readRecord(ctx, s.r, DocKey(name), s.recent); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return Doc{}, err
		}
		if s.bundles == nil {
			s.bundles = make(map[string][]Doc)
		}
		s.bundles[name] = docs
	}
	if i := slices.IndexFunc(docs, func(d Doc) bool { return d.ID == id }); i >= 0 {
		return docs[i], nil
	}
	return Doc{}, notFound(id)
}

func notFound(id string) error {
	return fmt.Errorf("read document: %w", &storage.KeyError{Op: "get", Key: DocKey(id), Err: storage.ErrNotFound})
}

// all reads the documents that exist.
func (s *shelf) all(ctx context.Context, ids []string) ([]Doc, error) {
	var docs []Doc
	for _, id := range ids {
		d, err := s.read(ctx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// texts returns the operations that remove documents and add others, which must
// not be in the index, except those on its segments.
func (ix *Index) texts(ctx context.Context, r storage.Reader, gone []string, fresh []Doc) ([]storage.Op, error) {
	var ops []storage.Op
	bundles := make(map[string]*rebundling)
	var names []string
	of := func(id string) *rebundling {
		name, ok := bundleOf(id)
		if !ok || !ix.bundled {
			return nil
		}
		b := bundles[name]
		if b == nil {
			b = &rebundling{gone: make(map[string]bool)}
			bundles[name] = b
			names = append(names, name)
		}
		return b
	}
	for _, id := range gone {
		if b := of(id); b != nil {
			b.gone[id] = true
		} else {
			ops = append(ops, storage.Remove(DocKey(id)))
		}
	}
	for i := range fresh {
		if b := of(fresh[i].ID); b != nil {
			b.docs = append(b.docs, fresh[i])
		} else {
			ops = append(ops, single(&fresh[i]))
		}
	}
	most := r.Limits().Value
	for _, name := range names {
		b := bundles[name]
		had, err := ReadRecord(ctx, r, DocKey(name))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		kept := slices.DeleteFunc(had, func(d Doc) bool {
			out := b.gone[d.ID]
			delete(b.gone, d.ID)
			return out
		})
		for id := range b.gone { // those added before there were bundles
			ops = append(ops, storage.Remove(DocKey(id)))
		}
		docs := append(slices.Clip(kept), b.docs...)
		record := pack.Pack(new([]byte), encodeBundle(name, docs))
		if len(record) > most { // new documents are stored separately from the bundle
			for i := range b.docs {
				ops = append(ops, single(&b.docs[i]))
			}
			docs, record = kept, pack.Pack(new([]byte), encodeBundle(name, kept))
		}
		switch {
		case len(docs) > 0:
			ops = append(ops, storage.Put(DocKey(name), record))
		case err == nil:
			ops = append(ops, storage.Remove(DocKey(name)))
		}
	}
	return ops, nil
}

// single returns the operation that stores a document by itself.
func single(d *Doc) storage.Op {
	return storage.Put(DocKey(d.ID), pack.Pack(new([]byte), d.encode()))
}

// rebundling is a change of a bundle.
type rebundling struct {
	gone map[string]bool // ids
	docs []Doc           // to add
}
