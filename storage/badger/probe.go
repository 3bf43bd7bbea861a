package badger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/stratamem/strata/storage"
)

// recognize reports whether the directory is one of ours, of a version we read,
// or one in which a store can be created.
func (s *Store) recognize() error {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, diskError(err))
	}
	has := func(part string) bool {
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), part) })
	}
	if has(badger.ManifestFilename) {
		return s.recognizeManifest()
	}
	if has(".sst") || has(".vlog") || has(".mem") {
		return &storage.CorruptError{Path: s.path, Reason: "the file MANIFEST is missing", Repair: repairStore}
	}
	for _, e := range entries {
		// What a process may leave if it is killed while creating a store.
		if e.Name() != lockFile && e.Name() != "MANIFEST-REWRITE" {
			return &storage.FormatError{Path: s.path, Reason: "holds other files: name a new or an empty directory"}
		}
	}
	if s.opts.ReadOnly {
		return &storage.FormatError{Path: s.path, Reason: "is empty: name a store; the first write to an empty directory makes it one"}
	}
	return nil
}

// recognizeManifest reads the beginning of badger's list of files: "Bdgr", the
// external magic number, and the version of badger's format, 2 bytes each,
// big-endian.
func (s *Store) recognizeManifest() error {
	f, err := os.Open(filepath.Join(s.path, badger.ManifestFilename))
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, diskError(err))
	}
	defer f.Close()
	var head [8]byte
	if n, err := f.ReadAt(head[:], 0); n < len(head) {
		return &storage.CorruptError{Path: f.Name(), Reason: fmt.Sprintf("the file was cut short: %v", err), Repair: repairStore}
	}
	magic, version := binary.BigEndian.Uint16(head[4:]), binary.BigEndian.Uint16(head[6:])
	newer := func(what string, found, known uint16) error {
		return &storage.FormatError{Path: s.path, Newer: true, Reason: fmt.Sprintf(
			"has %s version %d, newer than the %d this program reads: use a newer one", what, found, known)}
	}
	switch {
	case string(head[:4]) != "Bdgr":
		return &storage.FormatError{Path: s.path, Reason: "has a MANIFEST that is not badger's: name a new or an empty directory"}
	case magic&0xFF00 != formatMagic:
		return &storage.FormatError{Path: s.path, Reason: "is a badger directory of another program: name a new or an empty directory"}
	case magic&0xFF > formatVersion:
		return newer("format", magic&0xFF, formatVersion)
	case version > manifestVersion:
		return newer("badger", version, manifestVersion)
	case version < manifestVersion:
		return &storage.FormatError{Path: s.path, Reason: fmt.Sprintf("has badger version %d, which is not read any more", version)}
	}
	return nil
}

// repair removes what badger may leave when it is killed but then cannot open:
// newly created files that are still empty, and a truncated list of discarded
// bytes, which badger recreates.
func (s *Store) repair() error {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		ext := filepath.Ext(e.Name())
		unborn := info.Size() == 0 && (ext == ".mem" || ext == ".vlog")
		if !unborn && (e.Name() != "DISCARD" || info.Size() >= 1<<20) {
			continue
		}
		if err := os.Remove(filepath.Join(s.path, e.Name())); err != nil {
			return err
		}
		s.opts.Logger.Warn("removed an unfinished file", "store", s.path, "file", e.Name())
	}
	return nil
}

// probe finds damage that would make badger end the process, or that badger
// would ignore: in the list of files, and in the parts of the tables that it
// reads on opening.
func (s *Store) probe() error {
	f, err := os.Open(filepath.Join(s.path, badger.ManifestFilename))
	if os.IsNotExist(err) {
		return nil // a new store
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, diskError(err))
	}
	defer f.Close()
	bad := func(name, reason string) error {
		return &storage.CorruptError{Path: filepath.Join(s.path, name), Reason: reason, Repair: repairStore}
	}
	manifest, end, err := badger.ReplayManifestFile(f, formatMagic|formatVersion, s.badger())
	if err != nil {
		return bad(badger.ManifestFilename, err.Error())
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, diskError(err))
	}
	logs, tables := s.files("*.mem"), s.files("*.sst")
	// What a crash leaves torn is also in a log or in older tables. A store
	// without logs was closed, so anything torn or missing was whole then.
	if len(logs) == 0 && (end < info.Size() || len(manifest.Tables) == 0 && len(tables) > 0) {
		return bad(badger.ManifestFilename, "the file was cut short or overwritten at its end")
	}
	if end < info.Size() {
		s.opts.Logger.Warn("the list of files ends in a torn entry, which is dropped", "store", s.path, "bytes", info.Size()-end)
	}
	for id := range manifest.Tables {
		name := table.IDToFilename(id)
		reason, err := probeTable(filepath.Join(s.path, name))
		switch {
		case os.IsNotExist(err):
			return bad(name, "the file is missing")
		case err != nil:
			return fmt.Errorf("open %s: %w", s.path, diskError(err))
		case reason != "":
			return bad(name, reason)
		}
	}
	if s.opts.ReadOnly {
		return s.probeClosed()
	}
	return nil
}

// files returns the names of the files of the store that match a pattern. That
// the directory is readable was checked before.
func (s *Store) files(pattern string) (names []string) {
	dir, _ := os.ReadDir(s.path)
	for _, e := range dir {
		if ok, _ := filepath.Match(pattern, e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names
}

// probeClosed refuses a store that has a write-ahead log, because badger must
// write in order to read it.
func (s *Store) probeClosed() error {
	if len(s.files("*.mem")) == 0 {
		return nil
	}
	return fmt.Errorf("open %s: %w: open it for writing once: %w", s.path, ErrNotClosed, storage.ErrReadOnly)
}

// probeTable says what is wrong with a table. It ends with
//
//	index, its length, its checksum, the length of the checksum
//
// where lengths have 4 bytes, big-endian. A block, of which badger reads the
// last, ends with its checksum and the length of that; the checksum covers what
// precedes it. The index is a flat buffer.
func probeTable(path string) (reason string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	end := info.Size()
	// before returns the n bytes that precede end, and moves it there.
	before := func(n int64) []byte {
		if n < 0 || n > end {
			return nil
		}
		b := make([]byte, n)
		if _, err = f.ReadAt(b, end-n); err != nil {
			return nil
		}
		end -= n
		return b
	}
	length := func() int64 {
		if b := before(4); b != nil {
			return int64(binary.BigEndian.Uint32(b))
		}
		return -1
	}
	const short = "the file was cut short or overwritten at its end"
	sum := before(length())
	index := before(length())
	if err != nil {
		return "", err
	}
	if len(sum) == 0 || len(sum) > 16 || len(index) == 0 || !bytes.Equal(sum, checksum(index)) {
		return short, nil
	}
	root := fb.GetRootAsTableIndex(index, 0) // as badger wrote it: its checksum is right
	var last fb.BlockOffset
	if n := root.OffsetsLength(); n == 0 || !root.Offsets(&last, n-1) {
		return "the file has no blocks", nil
	}
	end = int64(last.Offset()) + int64(last.Len())
	block := before(int64(last.Len()))
	if n := len(block) - 4; n > 0 {
		if size := int(binary.BigEndian.Uint32(block[n:])); size <= min(n, 16) && bytes.Equal(block[n-size:n], checksum(block[:n-size])) {
			return "", nil
		}
	}
	return "the last block is damaged", err
}

// checksum is a CRC-32C as badger stores it: field 2 of a protocol buffer.
func checksum(b []byte) []byte {
	sum := uint64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	if sum == 0 {
		return []byte{}
	}
	return binary.AppendUvarint([]byte{2 << 3}, sum)
}
