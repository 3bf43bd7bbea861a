package vault

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/storage"
)

// The audit log has a line of JSON for each change of a document, in the order
// of the changes:
//
//	{"seq":7,"op":"update","id":"a","type":"insight","layer":"strategic","worker":"w1",
//	 "fields":["status"],"ts":"2026-01-02T03:04:05.123456789Z","actor":"strata",
//	 "before":"…","after":"…","prev":"…"}
//
// (on one line). before and after are SHA-256 digests of the vault's salt and
// the digest of the file's text; prev is that of the previous line; each is cut
// to 16 bytes, in hex. ts never decreases, even if the clock does. At 10 MB
// _mutations.jsonl becomes _mutations.N.jsonl, and the chain continues in a new
// file.
//
// The chain detects accidents and careless edits. Someone who rewrites the
// whole chain is detected only if its head, which [Store.Verify] returns, is
// kept elsewhere.
const (
	auditName = "_mutations.jsonl"
	auditMost = 10 << 20
)

// Mutation is a line of the audit log.
type Mutation struct {
	Seq    uint64    `json:"seq"`
	Op     string    `json:"op"` // create, update or delete
	ID     string    `json:"id"`
	Type   string    `json:"type"`
	Layer  string    `json:"layer,omitempty"`  // the document's field of that name
	Worker string    `json:"worker,omitempty"` // its field source_worker
	Fields []string  `json:"fields,omitempty"` // that an update changed
	Time   time.Time `json:"ts"`
	Actor  string    `json:"actor"`            // see [storage.WithActor]; ActorHand for changes by other hands
	Lost   string    `json:"lost,omitempty"`   // where the text that was replaced is kept
	Before string    `json:"before,omitempty"` // salted digest of the text before
	After  string    `json:"after,omitempty"`
	Prev   string    `json:"prev,omitempty"` // digest of the line before
}

// ActorHand is the actor of a change that was made without a store, and was
// noticed when a store replaced it.
const ActorHand = "hand"

// auditFile is the current file of the audit log. Only the holder of the
// vault's lock uses it.
type auditFile struct {
	root string
	who  access
	f    *os.File
	no   uint64 // number of earlier files
	size int64
	head string // digest of the last line
}

func auditPath(root string, no uint64) string {
	if no == 0 {
		return filepath.Join(root, auditName)
	}
	return filepath.Join(root, fmt.Sprintf("_mutations.%04d.jsonl", no))
}

// auditFiles lists the files of the audit log, oldest first, and returns the
// number of full ones.
func auditFiles(root string) (paths []string, full uint64, err error) {
	for {
		path := auditPath(root, full+1)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return nil, 0, err
		}
		full++
		paths = append(paths, path)
	}
	return append(paths, auditPath(root, 0)), full, nil
}

// open opens or creates the file, and reads its last line.
func (a *auditFile) open() error {
	paths, full, err := auditFiles(a.root)
	if err != nil {
		return err
	}
	if a.f != nil {
		a.f.Close()
	}
	a.f, err = a.who.open(paths[len(paths)-1], os.O_CREATE|os.O_RDWR|noFollow, true)
	if err != nil {
		return err
	}
	a.no, a.head = full, ""
	if a.size, a.head, err = lastLine(a.f); err != nil || a.size > 0 || full == 0 {
		return err
	}
	f, err := os.Open(paths[len(paths)-2])
	if err != nil {
		return err
	}
	defer f.Close()
	_, a.head, err = lastLine(f)
	return err
}

// lastLine returns the size of a file of the log, not counting a torn line, and
// the digest of its last line.
func lastLine(f *os.File) (size int64, head string, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, "", err
	}
	for window := int64(16 << 10); ; window *= 4 {
		from := max(0, info.Size()-window)
		buf := make([]byte, info.Size()-from)
		if _, err := f.ReadAt(buf, from); err != nil && err != io.EOF {
			return 0, "", err
		}
		end := bytes.LastIndexByte(buf, '\n')
		if end >= 0 {
			if start := bytes.LastIndexByte(buf[:end], '\n') + 1; start > 0 || from == 0 {
				return from + int64(end) + 1, lineDigest(buf[start:end]), nil
			}
		}
		if from == 0 {
			return 0, "", nil
		}
	}
}

func lineDigest(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:16])
}

// current ensures that the file is the one at its path and that its size is
// known.
func (a *auditFile) current() error {
	if a.f == nil {
		return a.open()
	}
	there, err := os.Lstat(auditPath(a.root, 0))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mine, statErr := a.f.Stat()
	if err != nil || statErr != nil || there.Size() != a.size || !os.SameFile(there, mine) {
		return a.open()
	}
	return nil
}

// rotate renames a full file.
func (a *auditFile) rotate() error {
	if a.size < auditMost {
		return nil
	}
	if err := a.f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(auditPath(a.root, 0), auditPath(a.root, a.no+1)); err != nil {
		return err
	}
	return a.open()
}

// append writes lines at the end.
func (a *auditFile) append(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if _, err := a.f.WriteAt(lines, a.size); err != nil {
		return errors.Join(err, a.f.Truncate(a.size))
	}
	a.size += int64(len(lines))
	a.head = lineDigest(lines[bytes.LastIndexByte(lines[:len(lines)-1], '\n')+1 : len(lines)-1])
	return nil
}

// ensure writes the lines of a frame if they are missing or torn.
func (a *auditFile) ensure(f *frame) error {
	if len(f.audit) == 0 || f.auditNo != a.no {
		return nil
	}
	if f.auditAt < a.size {
		have := make([]byte, len(f.audit))
		n, err := a.f.ReadAt(have, f.auditAt)
		if err != nil && err != io.EOF {
			return err
		}
		if bytes.Equal(have[:n], f.audit) {
			return nil
		}
		if whole := f.auditAt+int64(len(f.audit)) <= a.size; whole && have[0] != 0 {
			return nil // someone edited the file: the chain will show it
		}
		if err := a.f.Truncate(f.auditAt); err != nil {
			return err
		}
		a.size = f.auditAt
	} else if err := a.f.Truncate(a.size); err != nil { // a torn line
		return err
	}
	return a.append(f.audit)
}

// line returns the next line of the log and advances head.
func (m Mutation) line(head *string) ([]byte, error) {
	m.Prev = *head
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	*head = lineDigest(line)
	return append(line, '\n'), nil
}

// salted returns the digest of a text as the log shows it.
func salted(salt []byte, d digest) string {
	if d == (digest{}) {
		return ""
	}
	sum := sha256.Sum256(append(slices.Clip(salt), d[:]...))
	return hex.EncodeToString(sum[:16])
}

// Log yields the audit log, oldest line first, up to where it has been written
// when the loop begins. A line that cannot be read is a [*storage.CorruptError]
// and ends it.
func (s *Store) Log(ctx context.Context) iter.Seq2[Mutation, error] {
	return func(yield func(Mutation, error) bool) {
		for l, err := range s.auditLines(ctx) {
			var m Mutation
			if err == nil && json.Unmarshal(l.text, &m) != nil {
				err = l.damaged("the line is no JSON")
			}
			if err != nil {
				yield(Mutation{}, err)
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

type auditLine struct {
	path string
	no   int
	text []byte
}

func (l auditLine) damaged(reason string) error {
	return &storage.CorruptError{
		Path: l.path, Reason: fmt.Sprintf("line %d: %s", l.no, reason),
		Repair: "find out who changed the file; documents are not affected",
	}
}

func (s *Store) auditLines(ctx context.Context) iter.Seq2[auditLine, error] {
	return func(yield func(auditLine, error) bool) {
		if s.closed.Load() {
			yield(auditLine{}, storage.ErrClosed)
			return
		}
		paths, last, err := openAudit(s.root)
		if err != nil {
			yield(auditLine{}, err)
			return
		}
		defer last.Close()
		for _, path := range paths[:len(paths)-1] {
			f, err := os.Open(path)
			if err != nil {
				yield(auditLine{}, err)
				return
			}
			more := linesOf(ctx, path, f, yield)
			f.Close()
			if !more {
				return
			}
		}
		linesOf(ctx, paths[len(paths)-1], last, yield)
	}
}

// openAudit lists the files of the audit log and opens the last, so that it
// remains accessible if another process rotates it.
func openAudit(root string) (paths []string, last io.ReadCloser, err error) {
	for {
		paths, full, err := auditFiles(root)
		if err != nil {
			return nil, nil, err
		}
		var last io.ReadCloser
		last, err = os.Open(paths[full])
		if errors.Is(err, fs.ErrNotExist) {
			last, err = io.NopCloser(strings.NewReader("")), nil
		}
		if err != nil {
			return nil, nil, err
		}
		if _, now, err := auditFiles(root); err == nil && now == full {
			return paths, last, nil
		}
		last.Close()
	}
}

// linesOf yields the lines of a file; the last may be incomplete, because it is
// being written.
func linesOf(ctx context.Context, path string, f io.Reader, yield func(auditLine, error) bool) bool {
	in := bufio.NewReaderSize(f, 64<<10)
	for no := 1; ; no++ {
		if err := ctx.Err(); err != nil {
			yield(auditLine{}, err)
			return false
		}
		line, err := in.ReadBytes('\n')
		switch {
		case err == io.EOF:
			return true
		case err != nil:
			yield(auditLine{}, err)
			return false
		}
		if !yield(auditLine{path, no, line[:len(line)-1]}, nil) {
			return false
		}
	}
}

// Verify reads the audit log and checks that each line has the digest of the
// one before. It returns the number of lines and the head of the chain. Keep
// the head elsewhere: a chain that was rewritten has another. A break is a
// [*storage.CorruptError] that names the line.
func (s *Store) Verify(ctx context.Context) (lines int, head string, err error) {
	for l, err := range s.auditLines(ctx) {
		if err != nil {
			return lines, head, err
		}
		var m Mutation
		if json.Unmarshal(l.text, &m) != nil {
			return lines, head, l.damaged("the line is no JSON")
		}
		if m.Prev != head {
			return lines, head, l.damaged("the line does not follow the one before: one was changed, added or removed")
		}
		head = lineDigest(l.text)
		lines++
	}
	return lines, head, nil
}
