package vault

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

const (
	// mostGroup is how many bytes of keys and values share a commit.
	mostGroup = 16 << 20
	// leastSpace is how many bytes a write must leave free on the disk.
	leastSpace = 10 << 20
)

// request is one call of Apply.
type request struct {
	ctx    context.Context
	ops    []storage.Op
	staged map[int]*staged // op → a file that was written in advance
}

// staged is the text of a new document and the temporary file that holds it.
type staged struct {
	text   []byte
	digest digest
	temp   string // "" once it is in place
	stat   stat
}

func weigh(r *request) int {
	n := 0
	for i := range r.ops {
		n += len(r.ops[i].Key) + len(r.ops[i].Value)
	}
	return n
}

// request prepares what needs no lock: documents that are probably new are
// written to temporary files while others commit.
func (s *Store) request(ctx context.Context, ops []storage.Op) *request {
	r := &request{ctx: ctx, ops: ops}
	for i := range ops {
		op := &ops[i]
		if op.Delete || !s.filed(op.Key) || s.peek(op.Key) != nil {
			continue
		}
		st := &staged{text: op.Value}
		if storage.IsDocument(op.Key) {
			_, _, cut := s.layout.Load().fileOf(op.Key)
			st.text = encode(op.Key, op.Value, cut, nil)
		}
		st.digest = digestOf(st.text)
		var err error
		if st.temp, st.stat, err = s.writeTemp(st.text, !storage.IsDocument(op.Key)); err != nil {
			break // the commit tries again and reports the error
		}
		if r.staged == nil {
			r.staged = make(map[int]*staged)
		}
		r.staged[i] = st
	}
	return r
}

// discard removes what was staged but not used.
func (r *request) discard() {
	for _, st := range r.staged {
		st.remove()
	}
}

func (st *staged) remove() {
	if st.temp != "" {
		_ = os.Remove(st.temp) // nobody needs it
		st.temp = ""
	}
}

// writeTemp writes a temporary file. It is not synced: the log has its text
// before it is put in place. A process that opens the vault may remove it
// meanwhile.
func (s *Store) writeTemp(text []byte, private bool) (path string, st stat, err error) {
	if err := s.ownDirs(tempDir); err != nil {
		return "", stat{}, err
	}
	path = s.tempName()
	f, err := s.who.open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, private)
	if errors.Is(err, fs.ErrNotExist) { // someone removed the directory
		if err = s.who.mkdirAll(s.root, tempDir); err == nil {
			f, err = s.who.open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, private)
		}
	}
	if err != nil {
		return "", stat{}, err
	}
	_, err = f.Write(text)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			st = statOf(info)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", stat{}, errors.Join(err, os.Remove(path))
	}
	return path, st, nil
}

const tempPrefix = ".tmp."

func (s *Store) tempName() string {
	return filepath.Join(s.root, tempDir, tempPrefix+s.upkeep.name+itoa(s.upkeep.temps.Add(1)))
}

func randomName() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:]) + "."
}

// commit makes the changes of all requests durable together. A request whose
// precondition fails is left out; a disk error affects every request.
func (s *Store) commit(requests []*request) []error {
	errs := make([]error, len(requests))
	err := s.locked(context.Background(), func() error {
		if free, ok := freeSpace(s.lock.fd); ok && free < leastSpace {
			return fmt.Errorf("write %s: %w: under 10 MB are free", s.root, storage.ErrDiskFull)
		}
		if err := s.audit.rotate(); err != nil {
			return fmt.Errorf("rotate audit log: %w", engine.DiskError(err))
		}
		if err := s.roll(false); err != nil {
			return err
		}
		p := newPlan(s)
		defer p.discard()
		for i, r := range requests {
			if errs[i] = p.test(r.ops); errs[i] != nil {
				continue
			}
			if err := p.make(r); err != nil {
				return err
			}
		}
		return p.commit()
	})
	if err != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
	return errs
}

// plan is what a commit is about to do.
type plan struct {
	s       *Store
	time    int64
	keys    map[string]*target
	order   []*target
	frame   frame
	head    string // of the audit log
	seq     uint64
	events  []storage.Event
	watched bool
	fields  []string
	actor   string // the actor of the request being planned
}

// target is one key of a plan, before and after.
type target struct {
	key   string
	was   item
	filed bool
	// For a document, or a record that is a file: its file, which may have a name
	// of its own.
	dir, name string
	text      []byte // the new text of the file
	digest    digest // zero if the file is to be removed
	document  []byte
	prev      *file // of a document: the file so far, once read
	bad       bool  // whether the existing file is not a document
	changed   bool
	staged    *staged
	// For a record in the log.
	value []byte
	seq   uint64 // 0 if the record is to be removed
}

func newPlan(s *Store) *plan {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	return &plan{
		s: s, time: s.tick(), keys: map[string]*target{}, head: s.audit.head, seq: s.seq,
		watched: s.hub.Watched(), fields: s.declared(),
	}
}

// target returns what is planned for a key; initially, what exists.
func (p *plan) target(key string) *target {
	if t := p.keys[key]; t != nil {
		return t
	}
	s := p.s
	t := &target{key: key, filed: s.filed(key)}
	if t.filed {
		t.dir, t.name, _ = s.layout.Load().fileOf(key)
		if d := s.peek(key); d != nil {
			t.dir, t.name = d.dir, d.name
		}
		// Look once more: on a system without events, a change may have been missed.
		if s.watch == nil {
			s.notice(t.dir, t.name)
		}
	}
	s.mu.RLock()
	t.was, _ = s.now.items.Get(key)
	s.mu.RUnlock()
	if t.filed && t.was.doc != nil {
		t.digest, t.bad = t.was.doc.digest, t.was.doc.bad != ""
	}
	t.seq = t.was.seq
	p.keys[key] = t
	p.order = append(p.order, t)
	return t
}

func (t *target) exists() bool { return t.seq != 0 || t.digest != (digest{}) || t.bad }

func (t *target) version() storage.Version {
	if t.filed {
		if t.digest == (digest{}) && !t.bad {
			return ""
		}
		return t.digest.version()
	}
	return engine.Version(t.seq)
}

// test reports whether the preconditions hold.
func (p *plan) test(ops []storage.Op) error {
	for i := range ops {
		op := &ops[i]
		if op.Check && op.If != p.target(op.Key).version() {
			return &storage.ConflictError{Key: op.Key}
		}
	}
	return nil
}

// make plans the changes of a request.
func (p *plan) make(r *request) error {
	p.actor = cmp.Or(storage.ActorOf(r.ctx), p.s.opts.Actor)
	// A precondition that holds shows that its caller knows the text.
	for i := range r.ops {
		if op := &r.ops[i]; op.Check {
			if t := p.keys[op.Key]; t.was.doc != nil && t.was.doc.unseen && op.If == t.was.version() {
				p.s.seen(op.Key, t.was.doc.digest)
				d := *t.was.doc
				d.unseen = false
				t.was.doc = &d
			}
		}
	}
	for i := range r.ops {
		op := &r.ops[i]
		t := p.target(op.Key)
		kind := storage.EventSet
		if op.Delete {
			if !t.exists() {
				continue
			}
			kind = storage.EventDelete
		}
		if p.watched {
			p.events = append(p.events, storage.Event{Kind: kind, Key: op.Key})
		}
		switch {
		case !t.filed:
			p.seq++
			t.value, t.seq = op.Value, p.seq
			if op.Delete {
				t.value, t.seq = nil, 0
			}
		case op.Delete:
			if err := p.remove(t); err != nil {
				return err
			}
		default:
			if err := p.put(t, op.Value, r.staged[i]); err != nil {
				return err
			}
		}
		if op.Made != nil && !op.Delete {
			*op.Made = t.version()
		}
	}
	return nil
}

// put plans the new text of a file.
func (p *plan) put(t *target, document []byte, st *staged) error {
	before, bad := t.digest, t.bad
	if !storage.IsDocument(t.key) {
		t.text, t.digest, t.bad, t.staged = document, digestOf(document), false, st
		if t.digest == before && !bad {
			return nil
		}
		t.changed = true
		return p.meet(t, nil)
	}
	m := Mutation{Op: "update"}
	if !t.exists() {
		m.Op = "create"
	}
	if err := p.readPrev(t); err != nil {
		return err
	}
	var changed []string
	if t.prev == nil && st != nil {
		t.text, t.digest, t.staged = st.text, st.digest, st
	} else {
		if t.prev != nil {
			changed = t.prev.changed(document)
		}
		t.text = encode(t.key, document, isCut(t.dir) || isCut(t.name), t.prev)
		t.digest, t.staged = digestOf(t.text), nil
	}
	t.prev, t.bad, t.document = nil, false, document
	if t.digest == before && !bad {
		return nil
	}
	t.changed = true
	m.Fields = changed
	return p.note(t, m, before, document)
}

// readPrev reads what is to be replaced.
func (p *plan) readPrev(t *target) error {
	switch {
	case t.prev != nil || !t.exists() || t.bad:
		return nil
	case t.text != nil: // from an earlier op
	default:
		text, _, err := p.s.readText(t.dir, t.name)
		var alien *errNoDocument
		if errors.Is(err, fs.ErrNotExist) || errors.As(err, &alien) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read vault: %w", err)
		}
		t.text = text
	}
	f, err := decode(t.text, isCut(t.dir) || isCut(t.name))
	if err == nil {
		t.prev = f
	}
	return nil
}

// changed returns the names of the document fields that differ, sorted.
func (f *file) changed(document []byte) []string {
	old := make(map[string][]byte, len(f.fields)+1)
	for _, m := range f.fields {
		old[m.name] = m.value
	}
	if len(f.body) > 0 {
		old[fieldBody] = appendQuoted(nil, string(f.body))
	}
	var names []string
	for _, m := range members(document) {
		if before, ok := old[m.name]; !ok || !sameJSON(before, m.value) {
			names = append(names, m.name)
		}
		delete(old, m.name)
	}
	for name := range old {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// remove plans the removal of a file.
func (p *plan) remove(t *target) error {
	if !storage.IsDocument(t.key) {
		t.changed = true
		t.text, t.digest, t.staged, t.bad = nil, digest{}, nil, false
		return p.meet(t, nil)
	}
	if err := p.readPrev(t); err != nil {
		return err
	}
	var document []byte
	if t.prev != nil {
		document, _ = t.prev.document(t.key) // for the log only
	}
	before := t.digest
	t.changed = true
	t.text, t.digest, t.prev, t.document, t.staged, t.bad = nil, digest{}, nil, nil, nil, false
	return p.note(t, Mutation{Op: "delete"}, before, document)
}

// note adds a line to the audit log, preceded by a line for a change by another
// hand that was noticed only now.
func (p *plan) note(t *target, m Mutation, before digest, document []byte) error {
	kind, id := split(t.key)
	m.Type, m.ID, m.Actor, m.Time = kind, id, p.actor, time.Unix(0, p.time).UTC()
	err := p.meet(t, func(d *doc, lost string) error {
		met := m
		met.Op, met.Actor, met.Lost, met.Fields = "update", ActorHand, lost, nil
		met.After = salted(p.s.salt, d.digest)
		return p.line(met)
	})
	if err != nil {
		return err
	}
	m.Before, m.After = salted(p.s.salt, before), salted(p.s.salt, t.digest)
	if document != nil {
		for _, f := range members(document) {
			switch f.name {
			case "layer":
				m.Layer, _ = text(f.value)
			case "source_worker":
				m.Worker, _ = text(f.value)
			}
		}
	}
	return p.line(m)
}

// meet keeps the text that is being replaced if another hand wrote it and
// nobody has read it. Then it calls note, unless that is nil.
func (p *plan) meet(t *target, note func(d *doc, lost string) error) error {
	d := t.was.doc
	if d == nil || !d.unseen {
		return nil
	}
	lost, err := p.s.keep(d, p.time)
	if err == nil && note != nil {
		err = note(d, lost)
	}
	if err != nil {
		return err
	}
	known := *d
	known.unseen = false
	t.was.doc = &known
	return nil
}

func (p *plan) line(m Mutation) error {
	m.Seq = p.seq
	line, err := m.line(&p.head)
	p.frame.audit = append(p.frame.audit, line...)
	p.seq++
	return err
}

// keep copies the text of a file that is about to be replaced to _data/lost.
func (s *Store) keep(d *doc, now int64) (string, error) {
	text, _, err := s.readText(d.dir, d.name)
	var alien *errNoDocument
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	unreadable := errors.As(err, &alien)
	rel := ""
	if err == nil || unreadable {
		rel, err = s.lostPlace(d.dir, d.name, now)
	}
	path := filepath.Join(s.root, rel)
	switch {
	case err != nil:
	case unreadable: // as it is, even if it is a symbolic link
		err = os.Link(d.path(s.root), path)
	default:
		err = s.writeWhole(path, text, true)
	}
	if err != nil {
		return "", fmt.Errorf("keep %s: %w", rel, engine.DiskError(err))
	}
	s.logger.Warn("vault: a text that no program had read is replaced; it is kept", "file", d.path(s.root), "kept", path)
	return rel, nil
}

// lostPlace returns where in the vault the text of a file is to be kept, and
// creates the directory.
func (s *Store) lostPlace(dir, name string, now int64) (string, error) {
	ext := filepath.Ext(name)
	dir = path.Join(lostDir, dir)
	return fmt.Sprintf("%s/%s.%d%s", dir, strings.TrimSuffix(name, ext), now, ext), s.who.mkdirAll(s.root, dir)
}

// commit carries out the plan: temporary files, the log, files, audit log,
// state, and finally the end of the log.
func (p *plan) commit() error {
	if err := p.stage(); err != nil {
		return err
	}
	f := &p.frame
	if len(f.changes) == 0 {
		p.s.hub.Publish(p.events...)
		return nil
	}
	s := p.s
	f.seq, f.time, f.auditNo, f.auditAt = p.seq+1, p.time, s.audit.no, s.audit.size
	s.mu.Lock()
	for i := range f.changes {
		if c := &f.changes[i]; c.dir != "" {
			s.busy[c.dir+"/"+c.name] = true
		}
	}
	s.mu.Unlock()
	end, err := s.cur.write(s.at.at, f.encode(), s.opts.Durability == storage.Full)
	if err == nil {
		crashPoint("logged")
		err = p.place()
	}
	if err == nil {
		err = s.audit.append(f.audit)
		crashPoint("audited")
	}
	s.syncing.Lock()
	defer s.syncing.Unlock()
	defer s.endBusy()
	if err != nil {
		return fmt.Errorf("write %s: %w", s.root, engine.DiskError(err))
	}
	f.end = end
	for i := range f.changes {
		f.changes[i].at += s.at.at + frameHead
	}
	if err := s.take(f, true); err != nil {
		return err
	}
	s.hub.Publish(p.events...)
	s.wakeUpkeep()
	return s.writeEnd()
}

// stage adds the changes to the frame, and writes a temporary file for each new
// text.
func (p *plan) stage() error {
	made := map[string]bool{}
	for _, t := range p.order {
		if !t.filed {
			switch {
			case t.seq == t.was.seq:
			case t.seq == 0:
				p.frame.changes = append(p.frame.changes, change{kind: opDeleteRecord, key: t.key, seq: p.seq})
			default:
				p.frame.changes = append(p.frame.changes, change{
					kind: opPutRecord, key: t.key, seq: t.seq, value: engine.Seal(t.key, t.seq, t.value),
				})
			}
			continue
		}
		c := change{key: t.key, dir: t.dir, name: t.name, after: t.digest}
		if t.was.doc != nil {
			c.before = t.was.doc.digest
		}
		switch {
		case !t.changed, !t.exists() && t.was.doc == nil:
			continue
		case !t.exists():
			c.kind = opDeleteDoc
		default:
			c.kind = opPutDoc
			if err := p.s.placeable(t); err != nil {
				return err
			}
			if t.staged == nil {
				temp, st, err := p.s.writeTemp(t.text, !storage.IsDocument(t.key))
				if err != nil {
					return fmt.Errorf("write %s: %w", p.s.root, engine.DiskError(err))
				}
				t.staged = &staged{temp: temp, stat: st, text: t.text, digest: t.digest}
			}
			c.stat, c.value = t.staged.stat, t.text
			c.doc = newDoc(t.key, t.dir, t.name, c.stat, t.digest, t.document, p.fields)
			if !made[t.dir] {
				made[t.dir] = true
				if err := p.s.makeDir(t.dir); err != nil {
					return err
				}
			}
		}
		p.frame.changes = append(p.frame.changes, c)
	}
	return nil
}

// placeable reports whether a file can be put in place, because once it is in
// the log there is no way back.
func (s *Store) placeable(t *target) error {
	bad := t.was.doc != nil && t.was.doc.bad != ""
	if !bad && storage.IsDocument(t.key) { // whose path is never too long
		return nil
	}
	path := filepath.Join(s.root, t.dir, t.name)
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("write %s: there is a directory in the place of the file", path)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("write vault: %w", engine.DiskError(err)) // for example a path that is too long
}

// makeDir creates a directory for files, and its parents.
func (s *Store) makeDir(dir string) error {
	err := s.isDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.who.mkdirAll(s.root, dir)
	}
	if err == errLinked {
		err = errors.New("there is a symbolic link or a file in the place of the directory")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(s.root, dir), engine.DiskError(err))
	}
	return nil
}

// place puts the files in place.
func (p *plan) place() error {
	for i := range p.frame.changes {
		c := &p.frame.changes[i]
		if c.dir == "" {
			continue
		}
		t := p.keys[c.key]
		temp := ""
		if c.kind != opDeleteDoc {
			temp, t.staged.temp = t.staged.temp, ""
		}
		if err := p.s.placeFile(c, temp, t.was.doc); err != nil {
			return err
		}
		if i == 0 && c.kind != opDeleteDoc {
			crashPoint("placed")
		}
	}
	return nil
}

// discard removes temporary files that were not used.
func (p *plan) discard() {
	for _, t := range p.order {
		if t.staged != nil {
			t.staged.remove()
		}
	}
}

// crashPoint is where tests let a process die.
var crashPoint = func(string) {}
