package docs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// Put stores documents, each replacing the one of the same name. Passages that
// stay the same, lines included, are not written again.
//
// Documents share a batch as long as they fit. A document fits into one batch
// if at most a quarter of the operations of a batch, usually 250, add or remove
// its passages. A larger change takes several steps, removing what the document
// no longer says first, and the document is [File].Partial until the last.
// After an error, the documents of earlier batches are stored.
// [storage.ErrConflict] means that others changed the collection during each of
// ten tries.
func (c *Collection) Put(ctx context.Context, list ...Document) error {
	changes := make([]change, len(list))
	for i := range list {
		d := &list[i]
		if err := d.Validate(); err != nil {
			return fmt.Errorf("put document %d: %w", i, err)
		}
		f := d.File
		f.Passages, f.Partial = len(d.Passages), false
		changes[i] = change{file: f, docs: d.indexed()}
		for j := range changes[i].docs {
			if err := c.checker.Fits(c.index, &changes[i].docs[j]); err != nil {
				return fmt.Errorf("put document %d: passage %d: %w", i, j, err)
			}
		}
	}
	if err := c.write(ctx, changes); err != nil {
		return fmt.Errorf("put documents: %w", err)
	}
	return nil
}

// Remove removes documents by name and returns the names of those that existed,
// sorted. A name without a document is no error. Batches are as in Put.
func (c *Collection) Remove(ctx context.Context, names ...string) ([]string, error) {
	files, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	var gone []string
	var changes []change
	for i := range files {
		if name := files[i].Name; wanted[name] {
			gone = append(gone, name)
			changes = append(changes, change{file: files[i], remove: true})
		}
	}
	if err := c.write(ctx, changes); err != nil {
		return nil, fmt.Errorf("remove documents: %w", err)
	}
	return gone, nil
}

// change is what is to happen to a document.
type change struct {
	file   File
	docs   []search.Doc
	remove bool
}

// step is how many passages come and go in one batch, given the limits of the
// store. A batch holds as many records again, and segments of the index; if
// these make it too large, it is halved.
func step(l storage.Limits) int { return max(l.Ops/4, 1) }

func (c *Collection) write(ctx context.Context, changes []change) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	most := step(storage.LimitsOf(c.store))
	room, conflicts := most, 0
	for len(changes) > 0 {
		done, err := c.try(ctx, changes, room)
		switch {
		case err == nil:
			changes = changes[done:]
			room, conflicts = most, 0
		case errors.Is(err, storage.ErrConflict) && conflicts < 9:
			conflicts++
			pause := time.NewTimer(rand.N(time.Duration(conflicts) * 4 * time.Millisecond))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return ctx.Err()
			}
		case errors.Is(err, errRoom) && room > 1:
			room /= 2
		default:
			return err
		}
	}
	return nil
}

var errRoom = errors.New("the index needs more than a batch of the store holds: cut the document into smaller passages")

// try writes one batch of the first changes, with at most room passages, and
// returns how many of the changes are complete. It reads the version of the
// head first, so that nothing it reads is older than that.
func (c *Collection) try(ctx context.Context, changes []change, room int) (done int, err error) {
	h, version, err := c.read(ctx)
	if err != nil {
		return 0, err
	}
	if h.Format == 0 {
		h.Format, h.Language = headFormat, cmp.Or(c.options.Language, "english")
	}
	if c.writer == nil {
		if c.writer, err = c.newIndex(h.Language); err != nil {
			return 0, err
		}
	}
	p, err := c.plan(ctx, changes, room)
	if err != nil {
		return 0, err
	}
	ops, err := c.indexOps(ctx, p.gone, p.fresh)
	if err != nil {
		return 0, err
	}
	h.Revision++
	value, err := json.Marshal(h)
	if err != nil {
		return 0, err
	}
	ops = append(ops, p.files...)
	ops = append(ops, storage.Put(c.space.Key(headKey), value).IfVersion(version))
	if !storage.LimitsOf(c.store).Fit(ops) {
		return 0, errRoom
	}
	return p.done, c.store.Apply(ctx, ops...)
}

// plan is the content of one batch.
type plan struct {
	done  int          // changes that it completes
	files []storage.Op // records of files
	gone  []string     // ids of passages to remove
	fresh []search.Doc // passages to add
}

// plan takes the first changes that fit. It takes part of a change only if that
// is the first.
func (c *Collection) plan(ctx context.Context, changes []change, room int) (plan, error) {
	var p plan
	for i := range min(len(changes), room) {
		ch := &changes[i]
		stale, added, err := c.difference(ctx, ch)
		if err != nil {
			return p, err
		}
		left := room - len(p.gone) - len(p.fresh)
		whole := len(stale)+len(added) <= left
		if i > 0 && !whole {
			break
		}
		file := ch.file
		if !whole { // remove first what is no longer said
			stale = stale[:min(len(stale), left)]
			added = added[:min(len(added), left-len(stale))]
			file.Partial, file.Digest = true, ""
		}
		op := storage.Remove(c.space.Key(filePrefix + fileID(file.Name)))
		if !ch.remove || !whole {
			value, err := json.Marshal(&file)
			if err != nil {
				return p, err
			}
			op = storage.Put(op.Key, value)
		}
		p.files = append(p.files, op)
		p.gone, p.fresh = append(p.gone, stale...), append(p.fresh, added...)
		if !whole {
			break
		}
		p.done++
	}
	return p, nil
}

// difference returns the ids of the passages that are in the index but no
// longer in the document, and the passages that are not in the index.
func (c *Collection) difference(ctx context.Context, ch *change) (stale []string, added []search.Doc, err error) {
	said := make(map[string]bool, len(ch.docs))
	for i := range ch.docs {
		said[ch.docs[i].ID] = true
	}
	for key, err := range c.index.List(ctx, search.DocKey(fileID(ch.file.Name)+"-")) {
		if err != nil {
			return nil, nil, fmt.Errorf("read document: %w", err)
		}
		id, _ := search.DocID(key)
		if said[id] {
			delete(said, id)
		} else {
			stale = append(stale, id)
		}
	}
	for i := range ch.docs {
		if said[ch.docs[i].ID] {
			added = append(added, ch.docs[i])
		}
	}
	return stale, added, nil
}

// indexOps returns the operations that remove passages from the index and add
// others.
func (c *Collection) indexOps(ctx context.Context, gone []string, fresh []search.Doc) ([]storage.Op, error) {
	ops, err := c.writer.Replace(ctx, c.index, gone, fresh...)
	if err != nil {
		return nil, err
	}
	removed := make(map[string]bool)
	for i := range ops {
		removed[ops[i].Key] = ops[i].Delete
	}
	for _, id := range gone { // those unknown to a damaged index
		if key := search.DocKey(id); !removed[key] {
			ops = append(ops, storage.Remove(key))
		}
	}
	for i := range ops {
		ops[i].Key = c.index.Key(ops[i].Key)
	}
	return ops, nil
}
