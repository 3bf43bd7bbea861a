package layers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// ObservationsOptions configures [Observations].
type ObservationsOptions struct {
	// Spec overrides: ID "observations", slot [memory.SlotObservations], scope
	// resource, budget 200 to 2,000 tokens, placement live with Observe, else auto.
	Spec memory.Spec
	// ObserveAt is how many tokens of events are collected before they are
	// observed; 0 means 1,000, negative every turn. When an execution ends, the
	// rest is observed.
	ObserveAt int
	// CondenseAt is the size of the notes, in tokens, at which they are condensed
	// to half; 0 means 1,500.
	CondenseAt int
	// Observe writes notes on events. It replaces the default, which keeps the
	// sentences of messages that score high for decisions, dates, numbers, names and
	// preferences, and notes that a tool failed. Results of tools are among the
	// events: notes on them may repeat what a tool returned, and are never anchored.
	Observe func(ctx context.Context, in ObserveInput) ([]Observation, error)
	// Condense returns fewer notes to replace in.Notes, at most in.Target tokens
	// of them. It replaces the default, which merges notes that say the same and
	// drops the least salient, oldest first.
	Condense func(ctx context.Context, in CondenseInput) ([]Observation, error)
}

// Observation is a note on what was said or done.
type Observation struct {
	Time     time.Time `json:"time"`               // of the event
	Text     string    `json:"text"`               // one line of at most 500 bytes
	Salience int       `json:"salience,omitempty"` // how much it matters; by the default scale 1 to 10
	Refs     []string  `json:"refs,omitempty"`     // ids of the items from which it was made
	// Tools says that the note may repeat what a tool returned. The layer sets it, and
	// shows such a note only if it is live.
	Tools bool `json:"tools,omitempty"`
}

// ObserveInput is the input of Observe.
type ObserveInput struct {
	Execution *memory.Execution
	Notes     []Observation // existing notes; must not be modified
	Events    []Event       // oldest first
}

// CondenseInput is the input of Condense.
type CondenseInput struct {
	Execution *memory.Execution
	Notes     []Observation // must not be modified
	Target    int           // tokens
}

// Observations returns the layer that keeps compact notes on what happened:
// events are buffered, then observed, and the notes are condensed as they grow.
//
// Events are messages of the user and the assistant, and tool results, each cut
// to 8 KiB, and those of a turn to 256 KiB. They stay in the layer's records
// until they have been observed. If Observe fails, it receives them again in a
// later turn. If Condense fails, the notes stay as they are, up to twice
// CondenseAt; then the default condenses them.
//
// The prompt has all notes that fit the budget, in order of time; if not all
// do, the most salient.
//
// The state is {"notes": [Observation …], "backlog": …}, the records are
// event/<time>-<digest> → the events of a turn, a list of [Event].
func Observations(opts *ObservationsOptions) memory.Layer {
	var o observations
	if opts != nil {
		o.ObservationsOptions = *opts
	}
	o.ObserveAt = cmp.Or(o.ObserveAt, 1000)
	if o.CondenseAt <= 0 {
		o.CondenseAt = 1500
	}
	placement := projection.Auto
	if o.Observe != nil {
		placement = projection.Live
	}
	o.spec = override(memory.Spec{
		ID: "observations", Slot: memory.SlotObservations, Scope: memory.ScopeResource,
		Budget: projection.Between(200, 2000), Placement: placement, Format: 2,
	}, o.Spec)
	return memory.Define(o.spec, memory.Hooks[observed]{
		Recall: o.recall,
		Store: func(ctx context.Context, in *memory.StoreInput[observed]) (memory.Change[observed], error) {
			return o.store(ctx, in.Execution, in.Records, in.State, events(in.Execution, in.New, true), false), nil
		},
		OnComplete: func(ctx context.Context, in *memory.CompleteInput[observed]) (memory.Change[observed], error) {
			return o.store(ctx, in.Execution, in.Records, in.State, nil, true), nil
		},
		Dispose: func(ctx context.Context, in *memory.DisposeInput[observed]) error {
			return o.calls.wait(ctx, in.Execution)
		},
		Clone:   observed.clone,
		Migrate: o.migrate,
		Delta:   changed,
	})
}

// observed is the state: the notes in order of time, and how observing goes.
type observed struct {
	Notes     []Observation `json:"notes,omitempty"`
	Backlog   backlog       `json:"backlog,omitzero"`
	Condenser string        `json:"condenser,omitempty"` // why Condense last failed
	// Seen identifies the waiting records last observed, by the beginnings of
	// their digests, so that executions that observe the same ones at the same
	// moment note them only once.
	Seen []string `json:"seen,omitempty"`
}

func (s observed) clone() observed {
	s.Notes, s.Seen = slices.Clone(s.Notes), slices.Clone(s.Seen)
	return s
}

type observations struct {
	ObservationsOptions
	spec   memory.Spec
	calls  calls
	claims claims
}

const (
	maxObservation = 500          // bytes of a note
	maxNoted       = 4 * maxBatch // notes accepted from one call
	maxSeen        = 2 * maxBatch // records remembered as observed; at least half as many are kept
)

func (o *observations) recall(_ context.Context, in *memory.RecallInput[observed]) (memory.Recalled[observed], error) {
	var notes []string
	if n := in.State.Backlog.note("observe"); n != "" {
		notes = append(notes, n)
	}
	if e := in.State.Condenser; e != "" {
		notes = append(notes, "condense failed: "+e)
	}
	list := in.State.Notes
	if o.spec.Placement != projection.Live && slices.ContainsFunc(list, fromTools) {
		list = slices.DeleteFunc(slices.Clone(list), fromTools)
		notes = append(notes, fmt.Sprintf("%d notes on what tools returned are left out: only a live layer shows them", len(in.State.Notes)-len(list)))
	}
	if len(list) == 0 {
		notes = append(notes, "nothing was observed yet")
		return memory.Recalled[observed]{Note: strings.Join(notes, "; ")}, nil
	}
	text := renderNotes(list)
	if _, ok := in.Execution.Fits(o.spec.ID, text, in.Budget); !ok {
		// Bisect how many of the least salient, oldest first, to drop.
		lo, hi := 1, len(list)
		for lo < hi {
			mid := (lo + hi) / 2
			if _, ok := in.Execution.Fits(o.spec.ID, renderNotes(mostSalient(list, len(list)-mid)), in.Budget); ok {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		list = mostSalient(list, len(list)-lo)
		text = renderNotes(list)
		notes = append(notes, fmt.Sprintf("%d of %d notes are left out: they exceed the budget of %d tokens",
			lo, lo+len(list), in.Budget))
	}
	out := memory.Recalled[observed]{Text: text, Note: strings.Join(notes, "; ")}
	cited := make(map[string]bool)
	for i := range list {
		for _, id := range list[i].Refs {
			if !cited[id] {
				cited[id] = true
				out.Refs = append(out.Refs, id)
			}
		}
	}
	return out, nil
}

func fromTools(n Observation) bool { return n.Tools }

// migrate reads a state of format 1, which did not say what notes repeat. Those of the
// default did repeat what failing tools returned.
func (o *observations) migrate(_ int, data []byte) (observed, error) {
	var s observed
	err := json.Unmarshal(data, &s)
	for i := range s.Notes {
		n := &s.Notes[i]
		if n.Tools = o.Observe != nil; n.Tools {
			continue
		}
		if speaker, text, _ := strings.Cut(n.Text, ": "); strings.HasPrefix(text, "failed: ") {
			n.Text = speaker + ": failed"
		}
	}
	return s, err
}

// renderNotes writes one line for each note, with its day.
func renderNotes(list []Observation) string {
	var b strings.Builder
	for i := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- ")
		if !list[i].Time.IsZero() {
			b.WriteString(list[i].Time.UTC().Format("2006-01-02 15:04 "))
		}
		b.WriteString(list[i].Text)
	}
	return b.String()
}

// mostSalient returns the n most salient notes, preferring newer ones among
// equals, in order.
func mostSalient(list []Observation, n int) []Observation {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(list[b].Salience, list[a].Salience), cmp.Compare(b, a))
	})
	order = order[:max(n, 0)]
	slices.Sort(order)
	kept := make([]Observation, 0, len(order))
	for _, i := range order {
		kept = append(kept, list[i])
	}
	return kept
}

// store buffers new events and observes once there are enough of them, or if
// all is set. It does not return an error, which would lose the new events.
func (o *observations) store(ctx context.Context, x *memory.Execution, r *memory.Records, s observed, fresh []Event, all bool) memory.Change[observed] {
	old, err := s.Backlog.waiting(ctx, r)
	if err != nil {
		return put(inOrder(o.postponed(err, nil)), fresh)
	}
	batch, rest := old, fresh
	if s.Backlog.ok() {
		batch, rest = slices.Concat(old, fresh), nil
	}
	tokens := 0
	for i := range batch {
		tokens += x.Count(batch[i].Text)
	}
	enough := all || !s.Backlog.ok() || tokens >= o.ObserveAt || len(batch) >= maxBatch
	if len(batch) == 0 || !enough || !all && s.Backlog.ok() && !o.claims.take(r.Space(), x.ID(), old) {
		return put(inOrder(o.succeeded(s.Backlog, nil)), fresh)
	}
	notes, err := o.observe(ctx, x, s, batch)
	if err != nil {
		return put(inOrder(o.postponed(err, old)), fresh)
	}
	noted := func(s observed) observed { return s.noted(batch, len(old), notes) }
	after := noted(s.clone())
	c := inOrder(noted, o.succeeded(s.Backlog, old), o.condense(ctx, x, after.Notes))
	return put(drop(c, old), rest)
}

// observe passes events to Observe and returns its notes, tidied.
func (o *observations) observe(ctx context.Context, x *memory.Execution, s observed, batch []Event) ([]Observation, error) {
	if o.Observe == nil {
		return observe(batch), nil
	}
	in := ObserveInput{Execution: x, Notes: s.Notes, Events: batch}
	notes, err := attempt(ctx, &o.calls, x, func(ctx context.Context) ([]Observation, error) {
		return o.Observe(ctx, in)
	})
	if err != nil {
		return nil, err
	}
	var refs []string
	tools := false
	for i := range batch {
		refs = append(refs, batch[i].ID)
		tools = tools || batch[i].Kind == projection.ToolResult
	}
	return tidyNotes(notes, batch[len(batch)-1].Time, refs, tools || slices.ContainsFunc(s.Notes, fromTools)), nil
}

// tidyNotes bounds what a user's function returned, and fills in missing fields.
// tools says that something the function was given may repeat what tools returned,
// and so may what it made of it.
func tidyNotes(list []Observation, at time.Time, refs []string, tools bool) []Observation {
	var out []Observation
	for _, n := range list[:min(len(list), maxNoted)] {
		if n.Text = line(n.Text, maxObservation); n.Text == "" {
			continue
		}
		if n.Time.IsZero() || n.Time.Year() > 9999 {
			n.Time = at
		}
		if n.Refs == nil {
			n.Refs = refs
		}
		n.Refs = union(nil, n.Refs)
		n.Tools = tools
		out = append(out, n)
	}
	return out
}

// noted returns the state with notes on events, except notes that exist already
// and events that another execution has observed. Only the first events of the
// batch, which have waited in records, can have been.
func (s observed) noted(batch []Event, waited int, notes []Observation) observed {
	seen := make(map[string]bool)
	for i, key := range s.Seen {
		s.Seen[i] = seenKey(key) // older states have the whole keys
		seen[s.Seen[i]] = true
	}
	anew := false
	fresh := make(map[string]bool) // ids of items
	for i := range batch {
		key := seenKey(batch[i].key)
		if seen[key] {
			continue
		}
		anew, fresh[batch[i].ID] = true, true
		if i < waited && !slices.Contains(s.Seen, key) {
			s.Seen = append(s.Seen, key)
		}
	}
	if len(s.Seen) > maxSeen { // rarely, so that the state mostly grows, which is cheap to write
		s.Seen = s.Seen[len(s.Seen)-maxBatch:]
	}
	if !anew {
		return s
	}
	for _, n := range notes {
		known := slices.ContainsFunc(s.Notes, func(o Observation) bool { return o.Text == n.Text && o.Time.Equal(n.Time) })
		if !known && (len(n.Refs) == 0 || slices.ContainsFunc(n.Refs, func(id string) bool { return fresh[id] })) {
			s.Notes = append(s.Notes, n)
		}
	}
	slices.SortStableFunc(s.Notes, func(a, b Observation) int { return a.Time.Compare(b.Time) })
	return s
}

// seenKey returns the first 12 digits of the digest that ends a record's key.
func seenKey(key string) string {
	_, sum, ok := strings.Cut(key, "-")
	if !ok {
		sum = key
	}
	return sum[:min(len(sum), 12)]
}

// condense returns the update that replaces notes by condensed ones, if they
// are too many.
func (o *observations) condense(ctx context.Context, x *memory.Execution, notes []Observation) func(observed) observed {
	tokens := x.Count(renderNotes(notes))
	if tokens <= o.CondenseAt {
		return nil
	}
	var fewer []Observation
	var why string
	if o.Condense != nil {
		in := CondenseInput{Execution: x, Notes: notes, Target: o.CondenseAt / 2}
		var err error
		fewer, err = attempt(ctx, &o.calls, x, func(ctx context.Context) ([]Observation, error) {
			return o.Condense(ctx, in)
		})
		if err == nil {
			fewer = tidyNotes(fewer, notes[len(notes)-1].Time, nil, slices.ContainsFunc(notes, fromTools))
			if x.Count(renderNotes(fewer)) >= tokens {
				err = fmt.Errorf("condense %d notes: they did not get fewer", len(notes))
			}
		}
		if err != nil {
			why = line(err.Error(), 200)
			if tokens <= 2*o.CondenseAt {
				return func(s observed) observed {
					s.Condenser = why
					return s
				}
			}
		}
	}
	if o.Condense == nil || why != "" {
		fewer = condense(notes, o.CondenseAt/2, func(list []Observation) int { return x.Count(renderNotes(list)) })
	}
	return func(s observed) observed {
		s.Condenser = why
		// What others noted meanwhile stays. If others condensed meanwhile, their
		// result stays.
		gone := make(map[string]int, len(notes))
		for i := range notes {
			gone[notes[i].id()]++
		}
		var others []Observation
		for _, n := range s.Notes {
			if id := n.id(); gone[id] > 0 {
				gone[id]--
				continue
			}
			others = append(others, n)
		}
		if len(s.Notes)-len(others) < len(notes) {
			return s
		}
		s.Notes = append(slices.Clone(fewer), others...)
		slices.SortStableFunc(s.Notes, func(a, b Observation) int { return a.Time.Compare(b.Time) })
		return s
	}
}

func (n *Observation) id() string { return timeKey(n.Time) + n.Text }

func (o *observations) postponed(err error, list []Event) func(observed) observed {
	return func(s observed) observed {
		s.Backlog = s.Backlog.failed(err, list)
		return s
	}
}

// succeeded returns the update that records that list was learned from, or nil
// if nothing changes.
func (o *observations) succeeded(seen backlog, list []Event) func(observed) observed {
	if seen.ok() {
		return nil
	}
	now := seen.succeeded(list)
	if now.Failures == 0 {
		now = backlog{} // events wait here anyway
	}
	return func(s observed) observed {
		if s.Backlog == seen { // otherwise another execution has failed meanwhile
			s.Backlog = now
		}
		return s
	}
}
