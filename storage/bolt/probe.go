package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/stratamem/strata/storage"
)

// The part of bbolt's format that distinguishes its files from others, and
// whole files from truncated ones. Page 0 and page 1 each hold a meta page: a
// header of 16 bytes, then in the machine's byte order magic, version, page
// size and flags (4 bytes each), root page and sequence, freelist page, number
// of pages, transaction number and FNV-1a checksum of what precedes it (8 bytes
// each).
const (
	metaAt     = 16
	metaBytes  = 64
	metaMagic  = 0xED0CDAED
	metaPages  = 40 // where the fields are, from metaAt
	metaTx     = 48
	metaSum    = 56
	largestExp = 14 // page sizes are 1 KiB to 16 MiB
)

// probe finds what is wrong with a file that bbolt would crash on or misread.
func probe(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, diskError(err))
	}
	defer f.Close()
	magic, pages, pageSize, err := readMeta(f)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	// Read the size last: a process that has the file open may be growing it.
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	size := uint64(info.Size())
	switch {
	case size == 0:
		return &storage.FormatError{Path: path, Reason: "is an empty file: delete it to have a store made, or restore a backup"}
	case !magic:
		return &storage.FormatError{Path: path, Reason: "is not a bolt store: open another file, or import it"}
	case pages == 0:
		return &storage.CorruptError{Path: path, Reason: "both meta pages are damaged", Repair: repairFile}
	case size < pages*pageSize:
		return &storage.CorruptError{
			Path: path, Repair: repairFile,
			Reason: fmt.Sprintf("the file was cut short: it has %d bytes of %d", size, pages*pageSize),
		}
	}
	return nil
}

// readMeta looks for bbolt's magic number, and returns the number and size of
// pages in the newest intact meta page; 0 if there is none.
func readMeta(f io.ReaderAt) (magic bool, pages, pageSize uint64, err error) {
	var newest uint64
	look := func(at int64) error {
		var b [metaBytes]byte
		if _, err := f.ReadAt(b[:], at+metaAt); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		order := binary.NativeEndian
		if order.Uint32(b[:]) != metaMagic {
			return nil
		}
		magic = true
		sum := fnv.New64a()
		sum.Write(b[:metaSum])
		tx := order.Uint64(b[metaTx:])
		if sum.Sum64() != order.Uint64(b[metaSum:]) || pages > 0 && tx < newest {
			return nil
		}
		newest, pages, pageSize = tx, order.Uint64(b[metaPages:]), uint64(order.Uint32(b[8:]))
		return nil
	}
	if err := look(0); err != nil {
		return false, 0, 0, err
	}
	for exp := range largestExp + 1 {
		if err := look(1 << (10 + exp)); err != nil {
			return false, 0, 0, err
		}
	}
	return magic, pages, pageSize, nil
}
