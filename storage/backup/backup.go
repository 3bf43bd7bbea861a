// Package backup copies what a store holds: into a file that any engine can
// restore, or into another store.
//
// It knows no engine's own format and copies no files: it reads and writes by
// the contract of package storage. The one decision: a backup is one portable
// text, verified as a whole before any of it is restored, so that a store can
// move from any engine to any other.
package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/storage"
)

// A backup is text, one JSON object on each line, each ended by a line feed:
//
//	{"format":"strata-backup","version":1,"created":"2026-01-02T03:04:05Z","engine":"bolt","indexes":["status"]}
//	{"key":"_threads/t/1","record":"YmFzZTY0"}
//	{"key":"insight/a","document":{"status":"active"}}
//	{"end":true,"documents":1,"records":1,"sha256":"…"}
//
// Keys ascend. Documents are in canonical form, records in base64. sha256
// covers all bytes before the last line. A reader refuses a version above its
// own, ignores unknown names, and detects every truncation and corruption.
const (
	backupFormat  = "strata-backup"
	backupVersion = 1
	// backupLine bounds a line: a value in base64, an escaped key, names.
	backupLine = storage.MaxValue/3*4 + 6*storage.MaxKey + 1024
)

type backupHeader struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	Engine  string    `json:"engine,omitempty"`
	Indexes []string  `json:"indexes,omitempty"`
}

type backupEntry struct {
	Key      string          `json:"key"`
	Document json.RawMessage `json:"document"`
	Record   []byte          `json:"record"`

	End       bool   `json:"end"`
	Documents int64  `json:"documents"`
	Records   int64  `json:"records"`
	SHA256    string `json:"sha256"`
}

// Write writes the whole store to w, in a format that [Restore] reads into any
// engine. On an engine with [storage.Snapshot] it is the store at one moment;
// on another, writes made while it runs may or may not be included, and a batch
// may be included in part. After an error the output is not a backup, and
// Restore says so.
func Write(ctx context.Context, a storage.Adapter, w io.Writer) (Tally, error) {
	still, err := storage.Snapshot(ctx, a)
	switch {
	case errors.Is(err, storage.ErrUnsupported):
		return write(ctx, a, w)
	case err != nil:
		return Tally{}, fmt.Errorf("backup: %w", err)
	}
	tally, err := write(ctx, still, w)
	if closeErr := still.Close(); err == nil && closeErr != nil {
		return Tally{}, fmt.Errorf("backup: %w", closeErr)
	}
	return tally, err
}

func write(ctx context.Context, a storage.Adapter, w io.Writer) (Tally, error) {
	header := backupHeader{Format: backupFormat, Version: backupVersion, Created: time.Now().UTC().Truncate(time.Second)}
	st, err := storage.StatsOf(ctx, a)
	if err != nil && !errors.Is(err, storage.ErrUnsupported) {
		return Tally{}, fmt.Errorf("backup: %w", err)
	}
	header.Engine, header.Indexes = st.Engine, st.Indexes
	first, err := json.Marshal(header)
	if err != nil {
		return Tally{}, fmt.Errorf("backup: %w", err)
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	out.Write(append(first, '\n')) // after a failed write, all that follow fail
	tally := newTallier()
	var line []byte
	for e, err := range storage.Scan(ctx, a, "", nil) {
		if err != nil {
			return Tally{}, fmt.Errorf("backup: %w", err)
		}
		value, err := agreed(e)
		if err != nil {
			return Tally{}, fmt.Errorf("backup: %w", err)
		}
		tally.add(e.Key, value)
		line = appendLine(line[:0], e.Key, value)
		if _, err := out.Write(line); err != nil {
			return Tally{}, fmt.Errorf("backup: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return Tally{}, fmt.Errorf("backup: %w", err)
	}
	total := tally.sum()
	if _, err := fmt.Fprintf(w, `{"end":true,"documents":%d,"records":%d,"sha256":"%x"}`+"\n",
		total.Documents, total.Records, sum.Sum(nil)); err != nil {
		return Tally{}, fmt.Errorf("backup: %w", err)
	}
	return total, nil
}

func appendLine(line []byte, key string, value []byte) []byte {
	line = append(line, `{"key":`...)
	line = appendjson.String(line, key)
	if storage.IsDocument(key) {
		line = append(line, `,"document":`...)
		line = append(line, value...)
		return append(line, "}\n"...)
	}
	line = append(line, `,"record":"`...)
	line = base64.StdEncoding.AppendEncode(line, value)
	return append(line, "\"}\n"...)
}

// RestoreOptions configures [Restore]. The zero value means the defaults.
type RestoreOptions struct {
	// Merge allows restoring into a store that is not empty: keys of the backup
	// are replaced, others stay.
	Merge bool
	// Progress is called from time to time with what has been restored so far; its
	// Digest is empty.
	Progress func(Tally)
}

// Restore writes a backup into a and declares its indexes there. It reads the
// backup twice, first to verify it, so that a damaged backup changes nothing
// and is a [*storage.CorruptError]. If r cannot seek, it is copied to a
// temporary file. Restore refuses a store that is not empty unless opts.Merge
// is set, a backup of a newer version, and an entry larger than a accepts; see
// [storage.LimitsOf].
//
// An error after that, such as a full disk, leaves part of the backup restored:
// run Restore again with Merge.
func Restore(ctx context.Context, a storage.Adapter, r io.Reader, opts *RestoreOptions) (Tally, error) {
	if opts == nil {
		opts = &RestoreOptions{}
	}
	if !opts.Merge {
		if err := ensureEmpty(ctx, a, "store is not empty: restore into a new one, or merge"); err != nil {
			return Tally{}, fmt.Errorf("restore: %w", err)
		}
	}
	file, discard, err := seekable(r)
	if err != nil {
		return Tally{}, fmt.Errorf("restore: %w", err)
	}
	defer discard()
	start, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return Tally{}, fmt.Errorf("restore: %w", err)
	}
	limits := storage.LimitsOf(a)
	verify := func(e storage.Entry) error {
		if len(e.Key) > limits.Key || len(e.Value) > limits.Value {
			return limits.ValidateEntry(e.Key, e.Value)
		}
		return ctx.Err()
	}
	header, total, err := readBackup(file, verify)
	if err != nil {
		return Tally{}, fmt.Errorf("restore: %w", err)
	}
	if _, err := file.Seek(start, io.SeekStart); err != nil {
		return Tally{}, fmt.Errorf("restore: %w", err)
	}
	b := newBulk(ctx, a)
	done := newTallier()
	_, _, err = readBackup(file, func(e storage.Entry) error {
		done.add(e.Key, e.Value)
		if opts.Progress != nil && (done.t.Documents+done.t.Records)%bulkOps == 0 {
			opts.Progress(done.t)
		}
		return b.put(e.Key, e.Value)
	})
	if err == nil {
		err = b.flush()
	}
	if err == nil && len(header.Indexes) > 0 {
		err = storage.EnsureIndex(ctx, a, header.Indexes...)
	}
	if err != nil {
		return Tally{}, fmt.Errorf("restore: %w", err)
	}
	if opts.Progress != nil {
		opts.Progress(done.t)
	}
	return total, nil
}

// seekable returns r, or a temporary file with its content, and a function that
// removes that file.
func seekable(r io.Reader) (io.ReadSeeker, func(), error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if _, err := s.Seek(0, io.SeekCurrent); err == nil {
			return s, func() {}, nil
		}
	}
	f, err := os.CreateTemp("", "strata-restore-*")
	if err != nil {
		return nil, nil, err
	}
	discard := func() {
		f.Close()
		os.Remove(f.Name())
	}
	if _, err := io.Copy(f, r); err != nil {
		discard()
		return nil, nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		discard()
		return nil, nil, err
	}
	return f, discard, nil
}

// readBackup calls each for every entry and verifies the whole.
func readBackup(r io.Reader, each func(storage.Entry) error) (backupHeader, Tally, error) {
	in := &backupReader{in: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	header, err := in.header()
	if err != nil {
		return header, Tally{}, err
	}
	tally := newTallier()
	last := ""
	for {
		line, err := in.line()
		if err != nil {
			return header, Tally{}, err
		}
		var e backupEntry
		if err := json.Unmarshal(line, &e); err != nil {
			return header, Tally{}, in.damaged("line is not JSON")
		}
		if e.End {
			if e.SHA256 != hex.EncodeToString(in.sum.Sum(nil)) || e.Documents != tally.t.Documents || e.Records != tally.t.Records {
				return header, Tally{}, in.damaged("checksum does not agree")
			}
			if _, err := in.in.ReadByte(); err != io.EOF {
				return header, Tally{}, in.damaged("something follows the end")
			}
			return header, tally.sum(), nil
		}
		in.sum.Write(in.buf)
		entry := storage.Entry{Key: e.Key, Value: e.Record}
		if storage.IsDocument(e.Key) {
			entry.Value = e.Document
		}
		if storage.ValidateEntry(entry.Key, entry.Value) != nil || entry.Key <= last {
			return header, Tally{}, in.damaged("entry breaks a rule")
		}
		last = entry.Key
		tally.add(entry.Key, entry.Value)
		if err := each(entry); err != nil {
			return header, Tally{}, err
		}
	}
}

type backupReader struct {
	in   *bufio.Reader
	sum  hash.Hash
	buf  []byte // the last line, with its end
	read int    // lines
}

func (b *backupReader) damaged(reason string) error {
	return &storage.CorruptError{
		Reason: fmt.Sprintf("backup, line %d: %s", b.read, reason),
		Repair: "use another backup",
	}
}

// line returns the next line without its end, valid until the next call.
func (b *backupReader) line() ([]byte, error) {
	b.buf = b.buf[:0]
	b.read++
	for {
		part, err := b.in.ReadSlice('\n')
		b.buf = append(b.buf, part...)
		switch {
		case len(b.buf) > backupLine:
			return nil, b.damaged("line is too long")
		case err == nil:
			return bytes.TrimSuffix(b.buf, []byte("\n")), nil
		case err == io.EOF:
			return nil, b.damaged("backup ends too early: it was cut short")
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

func (b *backupReader) header() (backupHeader, error) {
	var h backupHeader
	line, err := b.line()
	if err != nil && !errors.Is(err, storage.ErrCorrupt) {
		return h, err
	}
	if err != nil || json.Unmarshal(line, &h) != nil || h.Format != backupFormat || h.Version < 1 {
		return h, &storage.FormatError{Reason: "this is not a Strata backup"}
	}
	b.sum.Write(b.buf)
	if h.Version > backupVersion {
		return h, &storage.FormatError{Newer: true, Reason: fmt.Sprintf(
			"backup has version %d, newer than the %d this program reads: use a newer one", h.Version, backupVersion)}
	}
	return h, nil
}
