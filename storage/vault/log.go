package vault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// The log is the journal of all changes, in the order in which they were made,
// and the store of the records. It is a series of segments, _data/log/N.log,
// each of at most about 32 MiB:
//
//	magic    16 bytes
//	frames   length of the payload (4 bytes, little-endian), CRC-32C of the
//	         segment's number, the frame's place and the payload (4 bytes), payload
//	zeros    space for more, so that a commit does not change the file's size
//
// A payload consists of uvarints, byte strings and digests, see frame.encode:
// the number of the next op, the time, the audit log's file, place and lines,
// and the ops. An op is a document's new text or its removal, a record's frame
// of package engine or its removal, the declared fields, or a mark: the log
// continues in the next segment, or all records of segments up to N are in
// N.base.
//
// N.base is a segment that holds only those records. It is put in place as a
// whole; segments up to N that still exist are not read.
//
// _data/end says how much of the log is part of the vault: the number of a
// segment (8 bytes), a place in it (8 bytes), the boot of the system that wrote
// it (36 bytes), and their CRC-32C (4 bytes). Only the holder of the lock moves
// it, once files and audit log have what the log has. Readers stop there; what
// lies beyond was begun by a process that died, and the next to take the lock
// finishes it. _data/settled has the number of the last segment whose documents
// are known to be on disk.
const (
	dataDir      = "_data"
	logDir       = "_data/log"
	tempDir      = "_data/tmp"
	lostDir      = "_data/lost"
	endName      = "_data/end"
	settledName  = "_data/settled"
	segmentMagic = "strata-vault-1\n\n"
	segmentMost  = 32 << 20
	segmentGrows = 1 << 20
	frameHead    = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// position is a place in the log.
type position struct {
	segment uint64
	at      int64
}

// segment is an open file of the log.
type segment struct {
	no   uint64
	base bool
	f    *os.File
	fd   uintptr
	size int64 // as far as known to the writer
	refs int   // by the store and its snapshots; guarded by Store.mu
}

func segmentPath(root string, no uint64, base bool) string {
	ext := ".log"
	if base {
		ext = ".base"
	}
	return filepath.Join(root, logDir, fmt.Sprintf("%08d%s", no, ext))
}

func openSegment(root string, no uint64, base bool) (*segment, error) {
	path := segmentPath(root, no, base)
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a reader can continue
		f, err = os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	}
	if err != nil {
		return nil, err
	}
	magic := make([]byte, len(segmentMagic))
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != segmentMagic {
		f.Close()
		return nil, &storage.CorruptError{Path: path, Reason: "the log segment has no head", Repair: repairLog}
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &segment{no: no, base: base, f: f, fd: f.Fd(), size: info.Size(), refs: 1}, nil
}

// createSegment creates an empty segment, or replaces one that was never used.
// It is put in place as a whole: a segment without its head would be damage.
func (s *Store) createSegment(no uint64) error {
	root, sync := s.root, s.opts.Durability == storage.Full
	path := segmentPath(root, no, false)
	temp := filepath.Join(root, tempDir, tempPrefix+randomName()+"log")
	f, err := s.who.open(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, true)
	if err != nil {
		return err
	}
	_, err = f.WriteString(segmentMagic)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if sync {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// write writes a frame at a place. If it cannot, it erases what it wrote.
func (g *segment) write(at int64, payload []byte, sync bool) (int64, error) {
	buf := make([]byte, frameHead, frameHead+len(payload))
	binary.LittleEndian.PutUint32(buf, uint32(len(payload)))
	binary.LittleEndian.PutUint32(buf[4:], g.sum(at, payload))
	buf = append(buf, payload...)
	end := at + int64(len(buf))
	if end+frameHead > g.size {
		// Zeros after the frame, in the same call: either both fit or neither does.
		buf = append(buf, make([]byte, segmentGrows)...)
	}
	_, err := g.f.WriteAt(buf, at)
	if err == nil {
		g.size = max(g.size, at+int64(len(buf)))
		if sync {
			err = dataSync(g.f, g.fd)
		}
	}
	if err != nil {
		err = errors.Join(err, g.cut(at))
	}
	return end, err
}

// cut removes what is at and after a place.
func (g *segment) cut(at int64) error {
	err := g.f.Truncate(at)
	if err == nil {
		g.size = at
	}
	return err
}

func (g *segment) sum(at int64, payload []byte) uint32 {
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:], g.no)
	binary.LittleEndian.PutUint64(head[8:], uint64(at))
	return crc32.Update(crc32.Update(0, castagnoli, head[:]), castagnoli, payload)
}

// read returns the whole frames from a place up to limit, or to the last if
// limit is negative, and whether something other than a frame follows them.
func (g *segment) read(from, limit int64) (frames []frame, torn bool, err error) {
	if limit < 0 {
		info, err := g.f.Stat()
		if err != nil {
			return nil, false, err
		}
		limit = info.Size()
	}
	if limit <= from {
		return nil, false, nil
	}
	buf := make([]byte, limit-from)
	n, err := g.f.ReadAt(buf, from)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	buf = buf[:n]
	for at := 0; at+frameHead <= len(buf); {
		size := int(binary.LittleEndian.Uint32(buf[at:]))
		if size == 0 {
			return frames, false, nil
		}
		if size > len(buf)-at-frameHead {
			return frames, true, nil
		}
		payload := buf[at+frameHead : at+frameHead+size]
		if g.sum(from+int64(at), payload) != binary.LittleEndian.Uint32(buf[at+4:]) {
			return frames, true, nil
		}
		f, ok := decodeFrame(payload, from+int64(at)+frameHead)
		if !ok {
			return frames, true, nil
		}
		at += frameHead + size
		f.end = from + int64(at)
		frames = append(frames, f)
	}
	return frames, false, nil
}

// pending reports whether there is anything at a place.
func (g *segment) pending(at int64) bool {
	var b [4]byte
	n, _ := g.f.ReadAt(b[:], at)
	return n == len(b) && binary.LittleEndian.Uint32(b[:]) != 0
}

// The kinds of op in the log.
const (
	opPutDoc = iota + 1
	opDeleteDoc
	opPutRecord
	opDeleteRecord
	opFields // value is the declared fields as JSON names, one per line
	opNext   // seq is the segment in which the log continues
	opBased  // seq is the segment up to which records are in a base
)

// change is an op of the log.
type change struct {
	kind   byte
	key    string
	dir    string // of a document
	name   string
	before digest
	after  digest
	stat   stat
	value  []byte // text, record's frame or fields
	at     int64  // of value in the segment
	seq    uint64
	doc    *doc // if the change is our own
}

// frame is one commit.
type frame struct {
	seq     uint64 // number of the first op after it
	time    int64  // Unix, ns
	auditNo uint64 // number of the audit log's file
	auditAt int64
	audit   []byte // lines
	changes []change
	end     int64 // place of the next frame
}

// encode returns the payload and records where the values are in it.
func (f *frame) encode() []byte {
	n := 64 + len(f.audit)
	for i := range f.changes {
		n += 128 + len(f.changes[i].key) + len(f.changes[i].value)
	}
	b := make([]byte, 0, n)
	b = binary.AppendUvarint(b, f.seq)
	b = binary.AppendVarint(b, f.time)
	b = binary.AppendUvarint(b, f.auditNo)
	b = binary.AppendVarint(b, f.auditAt)
	b = appendBytes(b, f.audit)
	b = binary.AppendUvarint(b, uint64(len(f.changes)))
	for i := range f.changes {
		c := &f.changes[i]
		b = append(b, c.kind)
		b = appendBytes(b, c.key)
		b = binary.AppendUvarint(b, c.seq)
		if c.kind == opPutDoc || c.kind == opDeleteDoc {
			b = appendBytes(appendBytes(b, c.dir), c.name)
			b = append(append(b, c.before[:]...), c.after[:]...)
			b = binary.AppendVarint(b, c.stat.mtime)
			b = binary.AppendUvarint(b, c.stat.inode)
		}
		b = appendBytes(b, c.value)
		c.at = int64(len(b) - len(c.value))
	}
	return b
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// decodeFrame reads a payload that lies at a place in its segment. Values
// share its memory.
func decodeFrame(payload []byte, at int64) (frame, bool) {
	r := decoder{b: payload}
	var f frame
	f.seq = r.uvarint()
	f.time = r.varint()
	f.auditNo = r.uvarint()
	f.auditAt = r.varint()
	f.audit = r.bytes()
	n := r.uvarint()
	if n > uint64(len(payload)) {
		return f, false
	}
	f.changes = make([]change, 0, n)
	for range n {
		var c change
		c.kind = r.byte()
		c.key = string(r.bytes())
		c.seq = r.uvarint()
		if c.kind == opPutDoc || c.kind == opDeleteDoc {
			c.dir, c.name = string(r.bytes()), string(r.bytes())
			copy(c.before[:], r.take(len(c.before)))
			copy(c.after[:], r.take(len(c.after)))
			c.stat.mtime = r.varint()
			c.stat.inode = r.uvarint()
		}
		c.value = r.bytes()
		c.stat.size = int64(len(c.value))
		c.at = at + int64(r.at-len(c.value))
		f.changes = append(f.changes, c)
	}
	return f, !r.bad && r.at == len(payload)
}

// decoder reads a payload; bad means that it ended too early.
type decoder struct {
	b   []byte
	at  int
	bad bool
}

func (r *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(r.b[r.at:])
	return v & r.step(n)
}

func (r *decoder) varint() int64 {
	v, n := binary.Varint(r.b[r.at:])
	return v & int64(r.step(n))
}

// step advances past a number of n bytes. It returns all ones, or 0 if there
// was no number.
func (r *decoder) step(n int) uint64 {
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.at += n
	return ^uint64(0)
}

func (r *decoder) take(n int) []byte {
	if n < 0 || n > len(r.b)-r.at {
		r.bad = true
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

func (r *decoder) bytes() []byte { return r.take(int(r.uvarint())) }

func (r *decoder) byte() byte {
	b := r.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// ending is the content of _data/end.
type ending struct {
	position
	boot string
}

const endSize = 8 + 8 + 36 + 4

func (e ending) encode() []byte {
	b := make([]byte, 52, endSize)
	binary.LittleEndian.PutUint64(b, e.segment)
	binary.LittleEndian.PutUint64(b[8:], uint64(e.at))
	copy(b[16:], e.boot)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readEnd reads _data/end; false means that it is missing or torn.
func readEnd(f *os.File) (ending, bool) {
	var b [endSize]byte
	for range 100 { // a writer may be changing it
		n, err := f.ReadAt(b[:], 0)
		if n == endSize && crc32.Checksum(b[:52], castagnoli) == binary.LittleEndian.Uint32(b[52:]) {
			return ending{
				position{binary.LittleEndian.Uint64(b[:]), int64(binary.LittleEndian.Uint64(b[8:]))},
				strings.TrimRight(string(b[16:52]), "\x00"),
			}, true
		}
		if err != nil && err != io.EOF || n == 0 {
			break
		}
	}
	return ending{}, false
}

// segmentsOf lists the segments of a vault: the last base, or 0, and the
// numbers of those after it, ascending.
func segmentsOf(root string) (base uint64, numbers []uint64, err error) {
	entries, err := os.ReadDir(filepath.Join(root, logDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a clone has none
		return 0, nil, err
	}
	for _, e := range entries {
		var no uint64
		switch _, err := fmt.Sscanf(e.Name(), "%d.", &no); {
		case err != nil || no == 0:
		case e.Name() == filepath.Base(segmentPath("", no, true)):
			base = max(base, no)
		case e.Name() == filepath.Base(segmentPath("", no, false)):
			numbers = append(numbers, no)
		}
	}
	slices.Sort(numbers)
	return base, slices.DeleteFunc(numbers, func(no uint64) bool { return no <= base }), nil
}

const repairLog = "close all stores of the vault, move _data/log away and open it again: documents are in their files, records are lost; or restore a backup"

// record reads a record's value.
func (it item) record(key string) ([]byte, error) {
	frame := make([]byte, it.at.size)
	if _, err := it.from.f.ReadAt(frame, it.at.at); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s: %w", it.from.f.Name(), err)
	}
	seq, value, ok := engine.Unseal(key, frame)
	if !ok || seq != it.seq {
		return nil, &storage.CorruptError{
			Path: it.from.f.Name(), Key: key, Reason: "checksum of the value does not agree",
			Repair: "check the store for more damage, then replace or delete what has this key, or restore a backup",
		}
	}
	return value, nil
}
