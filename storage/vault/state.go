package vault

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"github.com/tidwall/btree"
)

// digest identifies the text of a document's file; the zero digest stands for
// no file.
type digest [16]byte

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(sum[:16])
}

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// version of a document: that of the text of its file.
func (d digest) version() storage.Version { return storage.Version(d.String()) }

// stat shows, without reading it, that a file is the one that was read.
type stat struct {
	size, mtime int64
	inode       uint64
}

func statOf(info os.FileInfo) stat {
	return stat{info.Size(), info.ModTime().UnixNano(), inode(info)}
}

// doc is a document in memory, or a record that is a file: everything but its
// content. It is immutable; a changed document is another doc.
type doc struct {
	dir, name string // of its file
	stat      stat
	digest    digest
	entries   []string // in the index
	line      []byte   // its value in _index.json; nil if it cannot be read
	bad       string   // why it cannot be read
	unseen    bool     // written by another hand, and not read by any caller of this store
	text      span     // in a snapshot's spool
}

func (d *doc) path(root string) string { return filepath.Join(root, d.dir, d.name) }

func (d *doc) rel() string { return d.dir + "/" + d.name }

// span is a part of a file.
type span struct{ at, size int64 }

// item is what is known about a key: a document, or where a record is.
type item struct {
	doc  *doc
	from *segment
	at   span // of the record's frame
	seq  uint64
}

// version of what is there.
func (it item) version() storage.Version {
	if it.doc != nil {
		return it.doc.digest.version()
	}
	return engine.Version(it.seq)
}

// state is the content of a store, except for values. A snapshot of it never
// changes.
type state struct {
	items   *btree.Map[string, item]
	index   *btree.Map[string, struct{}] // entries of package engine
	fields  []string                     // declared; replaced, never changed
	spaces  []string                     // namespaces of files, sorted; replaced, never changed
	docs    int                          // number of readable documents
	records int
}

func newState() state {
	return state{items: new(btree.Map[string, item]), index: new(btree.Map[string, struct{}])}
}

func (st *state) copy() *state {
	c := *st
	c.items, c.index = st.items.Copy(), st.index.Copy()
	return &c
}

func (st *state) put(key string, it item) {
	if it.doc != nil && !storage.IsDocument(key) {
		st.addSpace(top(it.doc.dir))
	}
	old, had := st.items.Set(key, it)
	if had {
		st.count(key, old, -1)
	}
	st.count(key, it, 1)
	st.reindex(old.doc, it.doc)
}

func (st *state) remove(key string) {
	if old, had := st.items.Delete(key); had {
		st.count(key, old, -1)
		st.reindex(old.doc, nil)
	}
}

func (st *state) count(key string, it item, n int) {
	switch {
	case !storage.IsDocument(key):
		st.records += n
	case it.doc.bad == "":
		st.docs += n
	}
}

func (st *state) reindex(before, after *doc) {
	var old, now []string
	if before != nil {
		old = before.entries
	}
	if after != nil {
		now = after.entries
	}
	removed, added := engine.Diff(old, now)
	for _, entry := range removed {
		st.index.Delete(entry)
	}
	for _, entry := range added {
		st.index.Set(entry, struct{}{})
	}
}

// shownFields are the fields that people look for in _index.json, if a document
// has them.
var shownFields = []string{"name", "title", "status", "layer", "tags", "created", "updated"}

// newDoc returns the doc of a document.
func newDoc(key, dir, name string, st stat, sum digest, document []byte, declared []string) *doc {
	d := &doc{dir: dir, name: name, stat: st, digest: sum}
	d.index(key, document, declared)
	return d
}

// index sets what follows from the document and the declared fields.
func (d *doc) index(key string, document []byte, declared []string) {
	if !storage.IsDocument(key) {
		d.line = []byte(`{"_fields":{}}`)
		return
	}
	d.entries = engine.Entries(key, document, declared)
	kind, _ := split(key)
	line := appendQuoted(append(make([]byte, 0, 256), `{"type":`...), kind)
	var chosen []field
	for _, f := range members(document) {
		if slices.Contains(shownFields, f.name) && len(f.value) <= 512 && f.value[0] != '{' {
			line = append(appendQuoted(append(line, ','), f.name), ':')
			line = appendInline(line, f.value)
		}
		if slices.Contains(declared, f.name) {
			f.value = appendInline(nil, f.value)
			chosen = append(chosen, f)
		}
	}
	d.line = append(line, `,"_fields":`...)
	d.line = append(append(d.line, object(chosen)...), '}')
}

// appendLine appends the value in _index.json.
func (d *doc) appendLine(out []byte) []byte {
	out = append(out, d.line[:len(d.line)-1]...)
	out = appendQuoted(append(out, `,"_file":`...), d.rel())
	out = append(append(out, `,"_size":`...), itoa(d.stat.size)...)
	out = append(append(out, `,"_mtime":`...), itoa(d.stat.mtime)...)
	out = append(append(out, `,"_inode":`...), itoa(d.stat.inode)...)
	out = append(append(out, `,"_digest":"`...), d.digest.String()...)
	if d.unseen {
		return append(out, `","_unseen":true}`...)
	}
	return append(out, `"}`...)
}

// docOf reverses appendLine. The line is covered by the checksum of the index.
func docOf(key string, line []byte, declared []string) (*doc, bool) {
	before, _, ok := bytes.Cut(line, []byte(`,"_file":`))
	if !ok || line[0] != '{' {
		return nil, false
	}
	d := &doc{line: append(slices.Clip(bytes.Clone(before)), '}')}
	have := 0
	for _, f := range members(line) {
		var err error
		switch f.name {
		case "_file":
			rel := unquote(f.value)
			if !strings.Contains(rel, "/") {
				return nil, false
			}
			d.dir, d.name = cutRel(rel)
		case "_size":
			d.stat.size, err = strconv.ParseInt(string(f.value), 10, 64)
		case "_mtime":
			d.stat.mtime, err = strconv.ParseInt(string(f.value), 10, 64)
		case "_inode":
			d.stat.inode, err = strconv.ParseUint(string(f.value), 10, 64)
		case "_digest":
			var n int
			if n, err = hex.Decode(d.digest[:], f.value[1:min(len(f.value)-1, 1+2*len(d.digest))]); n != len(d.digest) {
				return nil, false
			}
		case "_fields":
			if storage.IsDocument(key) {
				d.entries = engine.Entries(key, f.value, declared)
			}
		case "_unseen":
			d.unseen = true
			continue
		default:
			continue
		}
		if err != nil {
			return nil, false
		}
		have++
	}
	return d, have == 6
}
