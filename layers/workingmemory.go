package layers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// WorkingMemoryOptions configures [WorkingMemory].
type WorkingMemoryOptions struct {
	// Spec overrides: ID "working-memory", slot [memory.SlotWorkingMemory],
	// scope resource, budget 200 to 2,000 tokens.
	Spec memory.Spec
	// MaxBytes limits the size of the notes as JSON; 0 means 8 KiB.
	MaxBytes int
	// Extract returns what to merge into the notes after a turn; nil means
	// nothing. It replaces the default, which recognizes some forms of English
	// sentences.
	Extract func(ctx context.Context, in ExtractInput) (patch map[string]any, err error)
}

// ExtractInput is the input of the Extract function of [WorkingMemory].
type ExtractInput struct {
	Execution *memory.Execution
	Notes     map[string]any // the present ones; must not be modified
	Events    []Event        // messages of one turn, or of several that waited after a failure
}

// WorkingMemory returns the layer that keeps structured notes: a JSON object of
// sections, such as {"profile": {"name": "Anna"}}, always in the prompt, as one
// line per value, sorted.
//
// A patch merges deeply: objects merge, null deletes, a list takes in the
// elements that it lacks (equal ones count once, and the oldest are dropped
// beyond 500), and any other value replaces the previous one. A list that
// begins with null replaces the previous list: {"cities": [null, "Rome"]}.
//
// If notes exceed MaxBytes, the entries touched longest ago are dropped first;
// an entry is a value directly below a section. A patch that exceeds the limit
// by itself is refused, and the tool refuses one that would make the notes
// exceed it. Notes that exceed the budget are all kept, but those touched
// longest ago are left out of the prompt, and the layer's note says how many.
//
// Without Extract, user messages are searched for statements such as "my name
// is …", "call me …", "I live in …", "I work at …", "I prefer …", "my favourite
// … is …", "the deadline for … is …", "remember that …" and "forget …"; a later
// statement replaces an earlier one. This works only for English, takes each
// sentence at its word, and misses more than it finds: it prefers noting
// nothing to noting something wrong. If Extract fails, the messages wait in the
// layer's records, and it receives them again in a later turn, where they do
// not replace what was noted since.
//
// Tools: update merges a patch, read returns the notes, forget deletes by path.
// The state is a [Notes].
func WorkingMemory(opts *WorkingMemoryOptions) memory.Layer {
	var w workingMemory
	if opts != nil {
		w.WorkingMemoryOptions = *opts
	}
	if w.MaxBytes <= 0 {
		w.MaxBytes = 8 << 10
	}
	w.spec = override(memory.Spec{
		ID: "working-memory", Slot: memory.SlotWorkingMemory, Scope: memory.ScopeResource,
		Budget: projection.Between(200, 2000), Format: 1,
	}, w.Spec)
	hooks := memory.Hooks[Notes]{
		Recall: w.recall,
		Store:  w.store,
		Clone:  Notes.clone,
		Delta:  changed,
		Tools: []memory.Tool[Notes]{
			memory.NewTool("update", "Merge a patch into the notes that you always see. Objects merge, null deletes, "+
				"a list takes in new elements, or replaces the old list if its first element is null; "+
				"any other value replaces the old one. "+
				`Examples: {"notes": {"profile": {"name": "Anna"}}}; to have Rome as the only city: {"notes": {"trip": {"cities": [null, "Rome"]}}}`, w.update),
			memory.NewTool("read", "Return the notes as JSON, all or one section.", w.read),
			memory.NewTool("forget", `Delete notes by path, for example "profile.name" or "profile".`, w.forget),
		},
	}
	if w.Extract != nil {
		hooks.Dispose = func(ctx context.Context, in *memory.DisposeInput[Notes]) error {
			return w.calls.wait(ctx, in.Execution)
		}
	}
	return memory.Define(w.spec, hooks)
}

type workingMemory struct {
	WorkingMemoryOptions
	spec  memory.Spec
	calls calls
}

func (w *workingMemory) recall(_ context.Context, in *memory.RecallInput[Notes]) (memory.Recalled[Notes], error) {
	out := memory.Recalled[Notes]{Note: in.State.Backlog.note("extract")}
	list := in.State.entries()
	all := len(list)
	if all == 0 {
		if out.Note == "" {
			out.Note = "there are no notes yet"
		}
		return out, nil
	}
	text := strings.Join(lines(list), "\n")
	if _, ok := in.Execution.Fits(w.spec.ID, text, in.Budget); !ok {
		list, text = w.newest(in, list)
		note := fmt.Sprintf("%d of %d notes are left out: they exceed the budget of %d tokens", all-len(list), all, in.Budget)
		out.Note = strings.TrimPrefix(out.Note+"; "+note, "; ")
	}
	out.Text = text
	for _, e := range list {
		if id := in.State.Sources[e.path]; id != "" && !slices.Contains(out.Refs, id) {
			out.Refs = append(out.Refs, id)
		}
	}
	return out, nil
}

// newest returns the entries touched last that fit the budget together, in
// order, and their text.
func (w *workingMemory) newest(in *memory.RecallInput[Notes], list []entry) ([]entry, string) {
	byAge := slices.Clone(list)
	in.State.oldestFirst(byAge)
	render := func(drop int) ([]entry, string) {
		gone := make(map[string]bool, drop)
		for _, e := range byAge[:drop] {
			gone[e.path] = true
		}
		kept := slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return gone[e.path] })
		return kept, strings.Join(lines(kept), "\n")
	}
	// Bisect the least number of entries to drop.
	lo, hi := 1, len(list)
	for lo < hi {
		mid := (lo + hi) / 2
		_, text := render(mid)
		if _, ok := in.Execution.Fits(w.spec.ID, text, in.Budget); ok {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return render(lo)
}

func (w *workingMemory) store(ctx context.Context, in *memory.StoreInput[Notes]) (memory.Change[Notes], error) {
	fresh := events(in.Execution, in.New, false)
	if w.Extract == nil {
		var learn []func(Notes) Notes
		for i := range fresh { // one by one, so that each entry has its source
			learn = append(learn, w.learned(extract(fresh[i:i+1], in.State.Sections), fresh[i:i+1], false))
		}
		return inOrder(learn...), nil
	}
	learn, err := w.learn(ctx, in.Execution, in.State, fresh, false)
	if err != nil {
		return put(inOrder(postponed(err, nil)), fresh), nil
	}
	if in.State.Backlog.ok() {
		return inOrder(learn), nil
	}
	// Use the remaining time for what waits from earlier turns.
	old, err := in.State.Backlog.waiting(ctx, in.Records)
	if err != nil {
		return inOrder(learn, postponed(err, nil)), nil
	}
	learnOld, err := w.learn(ctx, in.Execution, in.State, old, true)
	if err != nil {
		return inOrder(learn, postponed(err, old)), nil
	}
	seen := in.State.Backlog
	succeeded := func(n Notes) Notes {
		if n.Backlog == seen { // otherwise another execution has failed meanwhile
			n.Backlog = seen.succeeded(old)
		}
		return n
	}
	return drop(inOrder(learn, learnOld, succeeded), old), nil
}

// learn passes events to Extract and returns the update that merges its patch.
func (w *workingMemory) learn(ctx context.Context, x *memory.Execution, n Notes, list []Event, late bool) (func(Notes) Notes, error) {
	if len(list) == 0 {
		return nil, nil
	}
	in := ExtractInput{Execution: x, Notes: n.Sections, Events: list}
	patch, err := attempt(ctx, &w.calls, x, func(ctx context.Context) (map[string]any, error) {
		return w.Extract(ctx, in)
	})
	if err == nil {
		patch, err = checkPatch(patch, w.MaxBytes)
	}
	if err != nil {
		return nil, err
	}
	return w.learned(patch, list, late), nil
}

// learned returns the update that merges what was learned from events, or nil
// if that is nothing.
func (w *workingMemory) learned(patch map[string]any, list []Event, late bool) func(Notes) Notes {
	if len(patch) == 0 {
		return nil
	}
	from := newest(list)
	return func(n Notes) Notes {
		n.merge(patch, from, late)
		n.shrink(w.MaxBytes)
		return n
	}
}

// postponed returns the update that records that learning from list failed; nil
// stands for events that do not wait yet.
func postponed(err error, list []Event) func(Notes) Notes {
	return func(n Notes) Notes {
		n.Backlog = n.Backlog.failed(err, list)
		return n
	}
}

type updateNotes struct {
	Notes map[string]any `json:"notes" jsonschema:"sections and their values to merge; null deletes"`
}

type notesSize struct {
	Bytes int `json:"bytes" jsonschema:"what the notes take now"`
	Limit int `json:"limit" jsonschema:"what they may take"`
}

func (w *workingMemory) update(_ context.Context, in *memory.ToolInput[Notes], args updateNotes) (notesSize, memory.Change[Notes], error) {
	patch, err := checkPatch(args.Notes, w.MaxBytes)
	if err != nil {
		return notesSize{}, memory.Change[Notes]{}, err
	}
	after := in.State.clone()
	before := after.size()
	after.merge(patch, nil, false)
	size := after.size()
	if size > w.MaxBytes && size > before {
		return notesSize{}, memory.Change[Notes]{}, fmt.Errorf(
			"update notes: they would take %d bytes of %d: forget something first", size, w.MaxBytes)
	}
	return notesSize{size, w.MaxBytes}, memory.Update(func(n Notes) Notes {
		n.merge(patch, nil, false)
		n.shrink(w.MaxBytes) // only if another execution filled the notes meanwhile
		return n
	}), nil
}

type readNotes struct {
	Section string `json:"section,omitempty" jsonschema:"name of the section; empty for all"`
}

type notesRead struct {
	Notes map[string]any `json:"notes"`
}

func (w *workingMemory) read(_ context.Context, in *memory.ToolInput[Notes], args readNotes) (notesRead, memory.Change[Notes], error) {
	sections := in.State.Sections
	if args.Section != "" {
		v, ok := sections[args.Section]
		if !ok {
			return notesRead{}, memory.Change[Notes]{}, fmt.Errorf("read notes: no section %q: there are %s",
				line(args.Section, 80), strings.Join(slices.Sorted(maps.Keys(sections)), ", "))
		}
		sections = map[string]any{args.Section: v}
	}
	if sections == nil {
		sections = map[string]any{}
	}
	return notesRead{sections}, memory.Change[Notes]{}, nil
}

type forgetNotes struct {
	Paths []string `json:"paths" jsonschema:"section or section.key, as the notes show them"`
}

type notesForgotten struct {
	Forgotten []string `json:"forgotten"`
	Unknown   []string `json:"unknown,omitempty" jsonschema:"paths that no note has"`
}

func (w *workingMemory) forget(_ context.Context, in *memory.ToolInput[Notes], args forgetNotes) (notesForgotten, memory.Change[Notes], error) {
	out := notesForgotten{Forgotten: []string{}}
	if len(args.Paths) == 0 {
		return out, memory.Change[Notes]{}, errors.New("forget notes: no paths were given")
	}
	patch := make(map[string]any)
	for _, path := range args.Paths {
		if keys := resolve(in.State.Sections, path); keys != nil {
			remove(patch, keys)
			out.Forgotten = append(out.Forgotten, path)
		} else {
			out.Unknown = append(out.Unknown, path)
		}
	}
	if len(patch) == 0 {
		return out, memory.Change[Notes]{}, nil
	}
	return out, memory.Update(func(n Notes) Notes {
		n.merge(patch, nil, false)
		return n
	}), nil
}

// resolve returns the keys that path stands for, or nil. Keys may contain dots.
func resolve(object map[string]any, path string) []string {
	if _, ok := object[path]; ok {
		return []string{path}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		below, ok := object[key].(map[string]any)
		if !ok || !strings.HasPrefix(path, key+".") {
			continue
		}
		if keys := resolve(below, path[len(key)+1:]); keys != nil {
			return append([]string{key}, keys...)
		}
	}
	return nil
}

// remove makes patch delete what keys lead to. An existing deletion of
// something that contains it takes precedence.
func remove(patch map[string]any, keys []string) {
	for i, key := range keys {
		if i == len(keys)-1 {
			patch[key] = nil
			return
		}
		below, had := patch[key]
		if had && below == nil {
			return
		}
		object, ok := below.(map[string]any)
		if !ok {
			object = make(map[string]any)
			patch[key] = object
		}
		patch = object
	}
}
