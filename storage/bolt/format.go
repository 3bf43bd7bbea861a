package bolt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/stratamem/strata/storage"
	"go.etcd.io/bbolt"
)

// The file has four buckets:
//
//	strata   what the file is
//	  format   {"format":"strata-bolt","version":2}
//	  fields   the declared fields, a sorted JSON list
//	  counts   documents, then records: 8 bytes each, big-endian
//	data     key → frame of package engine: sequence number, CRC-32C, value
//	pieces   number, 8 bytes, big-endian → piece of a value
//	index    entry of package engine → nothing
//
// A record of more than 992 bytes and a document of more than 2,016 are cut
// into pieces of 992, the last one shorter; older programs cut at 996 and 2,016,
// and any size is read. Pages have any size that bbolt has. Their numbers are consecutive. In place of the value,
// the frame has
//
//	first piece   8 bytes, big-endian
//	pieces        4 bytes, big-endian: how many
//	length        4 bytes, big-endian: of the value
//	CRC-32C       4 bytes, big-endian: of the value
//
// and the highest bit of its sequence number is set. Pieces belong to one frame
// and are deleted with it. piece.go explains why.
//
// The bucket sequence of data is the number of the last write, that of pieces
// the number of the last piece. They never decrease, so no version is used
// twice.
//
// Another version of the format has another number. A program opens the
// versions up to its own and refuses newer ones. Version 1 had no pieces: all
// values were in their frames. Such a file is read as it is and becomes version
// 2 when the first value in pieces is set; existing values stay in their frames
// until they are set to another value.
var (
	bucketStrata = []byte("strata")
	bucketData   = []byte("data")
	bucketPieces = []byte("pieces")
	bucketIndex  = []byte("index")

	keyFormat = []byte("format")
	keyFields = []byte("fields")
	keyCounts = []byte("counts")
)

const (
	formatName    = "strata-bolt"
	formatVersion = 2
)

type format struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// initialize creates the buckets of an empty file.
func initialize(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketStrata, bucketData, bucketPieces, bucketIndex} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	if err := writeFormat(tx); err != nil {
		return err
	}
	return writeFields(tx, []string{})
}

func writeFormat(tx *bbolt.Tx) error {
	text, err := json.Marshal(format{formatName, formatVersion})
	if err != nil {
		return err
	}
	return tx.Bucket(bucketStrata).Put(keyFormat, text)
}

// recognize reports whether the file is one of ours, of a version we read.
func recognize(tx *bbolt.Tx, path string) error {
	alien := &storage.FormatError{Path: path, Reason: "is a bbolt file of another program: open another file"}
	b := tx.Bucket(bucketStrata)
	if b == nil {
		return alien
	}
	var f format
	if err := json.Unmarshal(b.Get(keyFormat), &f); err != nil || f.Format != formatName {
		return alien
	}
	if f.Version > formatVersion {
		return &storage.FormatError{Path: path, Newer: true, Reason: fmt.Sprintf(
			"has format version %d, newer than the %d this program reads: use a newer one", f.Version, formatVersion)}
	}
	if tx.Bucket(bucketData) == nil || tx.Bucket(bucketIndex) == nil || f.Version > 1 && tx.Bucket(bucketPieces) == nil {
		return &storage.CorruptError{Path: path, Reason: "a bucket is missing", Repair: repairFile}
	}
	return nil
}

func readFields(tx *bbolt.Tx, path string) ([]string, error) {
	var fields []string
	if err := json.Unmarshal(tx.Bucket(bucketStrata).Get(keyFields), &fields); err != nil {
		return nil, &storage.CorruptError{Path: path, Reason: "the declared fields cannot be read", Repair: repairFile}
	}
	return fields, nil
}

func writeFields(tx *bbolt.Tx, fields []string) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketStrata).Put(keyFields, text)
}

// counts has the number of keys of each kind.
type counts struct{ documents, records uint64 }

// of returns the count that key belongs to.
func (n *counts) of(key string) *uint64 {
	if storage.IsDocument(key) {
		return &n.documents
	}
	return &n.records
}

func readCounts(tx *bbolt.Tx) (counts, error) {
	b := tx.Bucket(bucketStrata).Get(keyCounts)
	switch len(b) {
	case 0:
		return counts{}, nil
	case 16:
		return counts{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
	}
	return counts{}, &storage.CorruptError{Path: tx.DB().Path(), Reason: "the counts cannot be read", Repair: repairFile}
}

func (n counts) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, n.documents)
	return binary.BigEndian.AppendUint64(b, n.records)
}
