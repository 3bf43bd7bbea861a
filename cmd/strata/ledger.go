package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// ledger records which parts of a transcript a store has, so that run adds
// nothing twice, even if it was killed, if the file has grown, if another file
// has part of the same, or if old turns are no longer kept. It is a layer that
// contributes nothing to prompts, so its records are written with the turn or
// not at all.
//
// Its records, below the prefix of each thread:
//
//	<execution>/<step, 12 digits>    marks of the turn's items, 16 bytes each
//
// Their keys are in the order of writing, so that a turn changes a single page
// of a file; a record for each item would change one page each.
type ledger struct {
	store  storage.Adapter
	loaded map[string]*account // by thread
}

const ledgerLayer = "transcript"

// account is what the store had of a thread when it was first asked for. It
// need not include what this process adds: the items of one file have different
// ids.
type account struct {
	marks      map[mark]struct{}
	executions []string // that added them, in the order of their ids
}

// mark is the beginning of the SHA-256 of an item's id.
type mark [16]byte

func markOf(id string) (m mark) {
	sum := sha256.Sum256([]byte(id))
	copy(m[:], sum[:])
	return m
}

func newLedger(store storage.Adapter) *ledger {
	return &ledger{store: store, loaded: make(map[string]*account)}
}

// layer returns the layer that writes the ledger.
func (l *ledger) layer() memory.Layer {
	return memory.Define(memory.Spec{ID: ledgerLayer, Name: "Transcript", Scope: memory.ScopeThread}, memory.Hooks[struct{}]{
		Store: func(_ context.Context, in *memory.StoreInput[struct{}]) (c memory.Change[struct{}], err error) {
			if len(in.New) == 0 {
				return c, nil
			}
			marks := make([]byte, 0, len(in.New)*len(mark{}))
			for i := range in.New {
				m := markOf(in.New[i].ID)
				marks = append(marks, m[:]...)
			}
			return c.Put(fmt.Sprintf("%s/%012d", storage.EscapeSegment(in.Execution.ID()), in.Execution.Step()), marks), nil
		},
	})
}

// had reports whether the store had an item when its thread was first asked for.
func (l *ledger) had(ctx context.Context, thread, id string) (bool, error) {
	a, err := l.account(ctx, thread)
	if err != nil {
		return false, err
	}
	_, ok := a.marks[markOf(id)]
	return ok, nil
}

// addedBy reports whether an execution of a thread added items of transcripts.
func (l *ledger) addedBy(ctx context.Context, thread, execution string) (bool, error) {
	a, err := l.account(ctx, thread)
	if err != nil {
		return false, err
	}
	return slices.Contains(a.executions, execution), nil
}

func (l *ledger) account(ctx context.Context, thread string) (*account, error) {
	if a := l.loaded[thread]; a != nil {
		return a, nil
	}
	a := &account{marks: make(map[mark]struct{})}
	prefix := "_layers/" + ledgerLayer + "/" + string(memory.ScopeThread) + "/" + storage.EscapeSegment(thread) + "/"
	if len(prefix) <= storage.MaxKey { // otherwise no execution can have the thread
		if err := a.load(ctx, l.store, prefix); err != nil {
			return nil, fmt.Errorf("read what is there of a thread: %w", err)
		}
	}
	l.loaded[thread] = a
	return a, nil
}

func (a *account) load(ctx context.Context, store storage.Adapter, prefix string) error {
	for e, err := range storage.Scan(ctx, store, prefix, nil) {
		if err != nil {
			return err
		}
		rest := strings.Split(strings.TrimPrefix(e.Key, prefix), "/") // r<clears>, execution, step
		if len(rest) != 3 {
			continue
		}
		execution, err := storage.UnescapeSegment(rest[1])
		if err != nil {
			return err
		}
		if n := len(a.executions); n == 0 || a.executions[n-1] != execution {
			a.executions = append(a.executions, execution)
		}
		for m := range slices.Chunk(e.Value, len(mark{})) {
			if len(m) != len(mark{}) {
				return &storage.CorruptError{Key: e.Key, Reason: "it is not whole marks"}
			}
			a.marks[mark(m)] = struct{}{}
		}
	}
	return nil
}

// resumeInterrupted resumes the execution that added the last turn of a thread,
// if it has the same identity and has not ended because its process was killed.
// Otherwise it returns nil. It assumes that no other process works on the
// thread.
func (l *loop) resumeInterrupted(ctx context.Context, who memory.Identity) (*memory.Run, error) {
	info, ok := l.stored[who.Thread]
	if l.ledger == nil || !ok {
		return nil, nil
	}
	wrote, err := l.ledger.addedBy(ctx, who.Thread, info.Execution)
	if err != nil || !wrote {
		return nil, err
	}
	run, err := l.memory.Resume(ctx, info.Execution)
	if errors.Is(err, memory.ErrEnded) || errors.Is(err, memory.ErrUnknownExecution) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if run.Execution().Identity() != who {
		return nil, run.End(ctx, memory.Aborted)
	}
	var last []projection.Item
	for t, err := range thread.Turns(ctx, l.store, who.Thread, info.Turns-1) {
		if err != nil {
			return nil, errors.Join(err, run.End(ctx, memory.Failure))
		}
		last = t.Items
	}
	if len(last) > 0 {
		l.last = last[0].Time
	}
	return run, nil
}

// endInterrupted ends the executions that were interrupted after the last item
// that the file has of their threads. No run may be in progress.
func (l *loop) endInterrupted(ctx context.Context) error {
	for _, thread := range slices.Sorted(maps.Keys(l.ledger.loaded)) {
		who := l.identity
		who.Thread = thread
		run, err := l.resumeInterrupted(ctx, who)
		if err == nil && run != nil {
			err = run.End(ctx, memory.Success)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
