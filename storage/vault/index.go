package vault

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// _index.json is JSON, with one document on each line between the first and the
// last:
//
//	{"format":"strata-vault-index","version":2,"segment":3,"at":4711,"fields":["status"],"documents":{
//	"insight/a":{"type":"insight","status":"active","tags":["x"],"_fields":{"status":"active"},"_file":"insight/a.md",
//	  "_size":120,"_mtime":1767322800000000000,"_inode":42,"_digest":"…"},
//	…
//	},"crc32c":"…"}
//
// (each document on one line). Of the document's own fields it has those that
// people look for; names that begin with _ are the store's: _fields are the
// declared fields, _unseen is set if another hand wrote the text and no program
// has read it. segment and at say up to which place in the log the index is
// current. crc32c covers all lines before the last.
//
// Version 1 had no records, and its bodies included the newline at the end of
// the file.
//
// It is a checkpoint: what it lacks is found in the log and the files. If it is
// missing, damaged or of another version, it is rebuilt from the files.
const (
	indexName    = "_index.json"
	indexFormat  = "strata-vault-index"
	indexVersion = 2
)

type indexHead struct {
	Format  string   `json:"format"`
	Version int      `json:"version"`
	Segment uint64   `json:"segment"`
	At      int64    `json:"at"`
	Fields  []string `json:"fields"`
}

// recognizeIndex returns an error for an index of a newer version.
func recognizeIndex(root string) error {
	path := filepath.Join(root, indexName)
	f, err := os.Open(path)
	if err != nil {
		return nil // rebuilt
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 64<<10).ReadSlice('\n')
	if head, ok := readHead(line); ok && head.Version > indexVersion {
		return newer(path, head.Version, indexVersion)
	}
	return nil
}

const indexOpens = `,"documents":{`

func readHead(line []byte) (indexHead, bool) {
	var h indexHead
	head, ok := bytes.CutSuffix(bytes.TrimSpace(line), []byte(indexOpens))
	if !ok || json.Unmarshal(append(bytes.Clone(head), '}'), &h) != nil || h.Format != indexFormat {
		return h, false
	}
	return h, true
}

// readIndex reads the index into the state. It returns false if there is no
// usable index.
func (s *Store) readIndex() bool {
	path := filepath.Join(s.root, indexName)
	content, err := os.ReadFile(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.logger.Warn("vault: the index cannot be read and is made anew", "file", path, "error", err)
		}
		return false
	}
	st := newState()
	aliases := map[string]string{}
	head, ok := readLines(content, &st, aliases, s.layout.Load())
	if !ok || head.Version < 1 || head.Version > indexVersion || head.Version == 1 && slices.Contains(head.Fields, fieldBody) {
		s.logger.Warn("vault: the index is damaged and is made anew", "file", path)
		return false
	}
	s.now, s.aliases = st, aliases
	s.indexAt = position{head.Segment, head.At}
	return true
}

func readLines(content []byte, st *state, aliases map[string]string, l *layout) (head indexHead, ok bool) {
	last := bytes.LastIndexByte(bytes.TrimRight(content, "\n"), '\n') + 1
	var sum string
	if _, err := fmt.Sscanf(string(content[last:]), `},"crc32c":%q}`, &sum); err != nil ||
		sum != fmt.Sprintf("%08x", crc32.Checksum(content[:last], castagnoli)) {
		return head, false
	}
	line, rest, _ := cutLine(content[:last])
	if head, ok = readHead(line); !ok {
		return head, false
	}
	st.fields = head.Fields
	for len(rest) > 0 {
		line, rest, _ = cutLine(rest)
		line = bytes.TrimSuffix(line, []byte(","))
		end := quotedEnd(line)
		if end < 0 || end >= len(line) {
			return head, false
		}
		key := unquote(line[:end])
		d, ok := docOf(key, line[end+1:], st.fields)
		if !ok {
			return head, false
		}
		if l.alias(key, d) {
			aliases[d.rel()] = key
		}
		st.put(key, item{doc: d})
	}
	return head, true
}

// writeIndex renews the index if anything has changed.
func (s *Store) writeIndex(sync bool) error {
	s.upkeep.indexing.Lock()
	defer s.upkeep.indexing.Unlock()
	s.syncing.Lock()
	at := s.at
	s.mu.RLock()
	changes := s.changes
	s.mu.RUnlock()
	st := s.snapshot()
	s.syncing.Unlock()
	if s.upkeep.written == changes+1 {
		return nil
	}
	err := s.place(filepath.Join(s.root, indexName), func(temp string) error { return s.writeIndexTo(temp, st, at, sync) })
	if err != nil {
		return fmt.Errorf("write index: %w", engine.DiskError(err))
	}
	s.upkeep.written = changes + 1
	return nil
}

func (s *Store) writeIndexTo(path string, st *state, at position, sync bool) error {
	f, err := s.who.open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, true)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	sum := uint32(0)
	write := func(b []byte) {
		sum = crc32.Update(sum, castagnoli, b)
		out.Write(b) // after a failed write, Flush fails
	}
	fields := st.fields
	if fields == nil {
		fields = []string{}
	}
	head, err := json.Marshal(indexHead{indexFormat, indexVersion, at.segment, at.at, fields})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	write(append(bytes.TrimSuffix(head, []byte("}")), indexOpens+"\n"...))
	var line []byte
	st.files(func(key string, d *doc) bool {
		if d.bad != "" {
			return true
		}
		if line != nil {
			write(append(line, ",\n"...))
		}
		line = append(appendQuoted(line[:0], key), ':')
		line = d.appendLine(line)
		return true
	})
	if line != nil {
		write(append(line, '\n'))
	}
	fmt.Fprintf(out, "},\"crc32c\":\"%08x\"}\n", sum)
	err = out.Flush()
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Rebuild rebuilds _index.json from the files. Writes wait meanwhile. Open does
// so itself if the index is missing or damaged.
func (s *Store) Rebuild(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if err := s.writable(); err != nil {
		return err
	}
	err := s.group.Exclusive(ctx, func() error {
		return s.locked(ctx, func() error {
			s.syncing.Lock()
			defer s.syncing.Unlock()
			docs := map[string]*doc{}
			s.change(func() {
				s.now.files(func(key string, d *doc) bool {
					docs[key] = d
					return true
				})
				for key, d := range docs {
					s.dropDoc(key, d)
				}
			})
			s.sweepAll, s.trusting = true, true
			defer func() { s.trusting = false }()
			return s.observe()
		})
	})
	if err == nil {
		err = s.writeIndex(s.opts.Durability == storage.Full)
	}
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	return nil
}
