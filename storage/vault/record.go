package vault

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
	"golang.org/x/text/unicode/norm"
)

// A record in a namespace of files is a file with its value, byte for byte: the
// key _governance/insight/a is _governance/insight/a.rec. Segments are escaped
// like the ids of documents; one that is too long for a name continues in a
// subdirectory, and the name of the directory before ends in ==. The dot of a
// directory that would end in .rec is escaped.
//
// A namespace is one of files if Options.Files names it or the vault has its
// directory, so a clone needs nothing else to read them. Its name, and that of
// its directory, is _ followed by the name of a type. A record that is still in
// the log because it was written before its namespace became one of files is
// read from there, and moved by the next writer.
const (
	recordExtension = ".rec"
	// mostPiece bounds a part of a segment, in bytes of its name.
	mostPiece = mostName - len(recordExtension)
)

// isSpace reports whether a directory of the vault belongs to a namespace.
func isSpace(dir string) bool {
	kind, ok := strings.CutPrefix(dir, "_")
	return ok && dir != dataDir && !strings.Contains(kind, "/") && storage.IsDocument(kind) && storage.ValidateKey(kind+"/x") == nil && len(dir) <= mostName
}

// space returns the namespace of a record, or "" if that cannot be one of
// files.
func space(key string) string {
	name, _, ok := strings.Cut(key, "/")
	if !ok || !isSpace(name) {
		return ""
	}
	return name
}

// top returns the first directory of a path with slashes.
func top(dir string) string {
	name, _, _ := strings.Cut(dir, "/")
	return name
}

// cutRel splits the path of a file, relative to the vault, into its directory
// and its name.
func cutRel(rel string) (dir, name string) {
	i := strings.LastIndexByte(rel, '/')
	return rel[:i], rel[i+1:]
}

// isFile reports whether a name is that of a document or record, whichever the
// directory is for.
func (l *layout) isFile(dir, name string) bool {
	end := extension
	if l.isSpace(top(dir)) {
		end = recordExtension
	}
	return strings.HasSuffix(name, end) && name[0] != '.'
}

// isFolder reports whether a name may be that of a subdirectory in a namespace.
func (l *layout) isFolder(dir, name string) bool {
	return l.isSpace(top(dir)) && name[0] != '.' && !l.isFile(dir, name)
}

// recordFile returns the file of a record.
func recordFile(key string) (dir, name string) {
	segments := strings.Split(key, "/")
	names := segments[:1:1]
	for _, segment := range segments[1:] {
		for {
			n := piece(segment)
			if n == len(segment) {
				names = append(names, escapeName(segment))
				break
			}
			names = append(names, escapeName(segment[:n])+cutMark)
			segment = segment[n:]
		}
	}
	last := len(names) - 1
	for i, folder := range names[:last] { // its name is not a file's
		if stem, ok := strings.CutSuffix(folder, recordExtension); ok {
			names[i] = stem + "=2E" + recordExtension[1:]
		}
	}
	return path.Join(names[:last]...), names[last] + recordExtension
}

// piece returns how much of a segment fits a name, in whole runes.
func piece(segment string) int {
	if len(escapeName(segment)) <= mostPiece {
		return len(segment)
	}
	size := 2 // what the first byte of a name may need more than others
	for i, r := range segment {
		if size += len(escapeName("x"+string(r))) - 1; size > mostPiece {
			return i
		}
	}
	return len(segment)
}

// recordKey reverses recordFile.
func recordKey(dir, name string) (string, bool) {
	stem, ok := strings.CutSuffix(name, recordExtension)
	if !ok {
		return "", false
	}
	names := append(strings.Split(dir, "/"), stem)
	var key strings.Builder
	key.WriteString(names[0])
	for i, more := 1, false; i < len(names); i++ {
		if names[i] == "" || names[i][0] == '.' {
			return "", false
		}
		if !more {
			key.WriteString("/")
		}
		var part string
		part, more = strings.CutSuffix(names[i], cutMark)
		key.WriteString(unescapeName(norm.NFC.String(part)))
	}
	return key.String(), storage.ValidateKey(key.String()) == nil
}

// filed reports whether a key belongs to a file.
func (st *state) filed(key string) bool {
	return storage.IsDocument(key) || slices.Contains(st.spaces, space(key))
}

func (s *Store) filed(key string) bool {
	if storage.IsDocument(key) {
		return true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now.filed(key)
}

// addSpace turns a namespace into one of files.
func (st *state) addSpace(name string) {
	if !slices.Contains(st.spaces, name) {
		st.spaces = append(slices.Clip(st.spaces), name)
		slices.Sort(st.spaces)
	}
}

// learn turns a namespace into one of files, if it is not. The caller holds
// syncing.
func (s *Store) learn(name string) {
	s.mu.RLock()
	known := slices.Contains(s.now.spaces, name)
	s.mu.RUnlock()
	if known {
		return
	}
	s.change(func() { s.now.addSpace(name) })
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.now.items.Ascend(name+"/", func(key string, it item) bool {
		within := strings.HasPrefix(key, name+"/")
		s.unfiled = s.unfiled || within && it.doc == nil
		return within && !s.unfiled
	})
}

// refile moves to files the records that are in the log although their
// namespace is one of files. The caller holds the lock.
func (s *Store) refile() error {
	s.syncing.Lock()
	unfiled := s.unfiled
	s.unfiled = false
	s.syncing.Unlock()
	if !unfiled {
		return nil
	}
	st := s.snapshot()
	var keys []string
	st.logged(func(key string, _ item) bool {
		if st.filed(key) {
			keys = append(keys, key)
		}
		return true
	})
	for part := range slices.Chunk(keys, 100) {
		if err := s.roll(false); err != nil {
			return err
		}
		if err := s.refileKeys(st, part); err != nil {
			s.syncing.Lock()
			s.unfiled = true
			s.syncing.Unlock()
			return err
		}
	}
	return nil
}

func (s *Store) refileKeys(st *state, keys []string) error {
	p := newPlan(s)
	defer p.discard()
	for _, key := range keys {
		it, _ := st.items.Get(key)
		value, err := it.record(key)
		if err != nil { // it stays where it is, and its readers get an error
			s.logger.Warn("vault: a record that is to be a file cannot be read", "dir", s.root, "error", err)
			continue
		}
		t := p.target(key)
		t.text, t.digest, t.seq, t.changed = value, digestOf(value), 0, true
		p.frame.changes = append(p.frame.changes, change{kind: opDeleteRecord, key: key, seq: p.seq})
	}
	return p.commit()
}

// appears reports whether another hand has turned a namespace into one of
// files.
func (s *Store) appears(name string) bool {
	if name == "" {
		return false
	}
	info, err := os.Lstat(path.Join(s.root, name))
	return err == nil && info.IsDir()
}

// files visits everything that is a file: records, then documents.
func (st *state) files(visit func(key string, d *doc) bool) {
	for _, name := range st.spaces {
		more := true
		st.items.Ascend(name+"/", func(key string, it item) bool {
			if !strings.HasPrefix(key, name+"/") {
				return false
			}
			more = it.doc == nil || visit(key, it.doc)
			return more
		})
		if !more {
			return
		}
	}
	st.items.Ascend(firstDocument, func(key string, it item) bool { return visit(key, it.doc) })
}

// within visits the files of a directory and, in a namespace, those of its
// subdirectories.
func (st *state) within(l *layout, dir string, visit func(d *doc)) {
	prefix, from := "", firstDocument
	if name := top(dir); l.isSpace(name) {
		prefix = name + "/"
		if key, ok := recordKey(dir, "x"+recordExtension); ok {
			prefix = key[:len(key)-1]
		}
		from = prefix
	} else if kind, ok := l.kindOf(dir); ok {
		prefix = kind + "/"
		from = prefix
	}
	st.items.Ascend(from, func(key string, it item) bool {
		if it.doc != nil {
			visit(it.doc)
		}
		return strings.HasPrefix(key, prefix)
	})
}

// logged visits the records that are in the log, in key order.
func (st *state) logged(visit func(key string, it item) bool) {
	st.items.Scan(func(key string, it item) bool {
		return key < firstDocument && (it.doc != nil || visit(key, it))
	})
}

// firstDocument sorts before the keys of documents and after those of records.
const firstDocument = "`"
