package layers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// Event is a raw item of a thread, as passed to functions that learn.
type Event struct {
	ID     string          `json:"id"` // of the item
	Thread string          `json:"thread"`
	Kind   projection.Kind `json:"kind"`           // a message or a tool result
	Role   projection.Role `json:"role,omitempty"` // of a message
	Name   string          `json:"name,omitempty"` // the speaker of a message; the tool of a result, where known
	Text   string          `json:"text"`           // valid UTF-8
	Cut    bool            `json:"cut,omitempty"`  // Text is only the first 8 KiB
	Failed bool            `json:"failed,omitempty"`
	Time   time.Time       `json:"time"`

	key string // of the record in which the events of its turn wait
}

// The records of waiting events: event/<microseconds, 16 hex digits>-<digest> →
// the events of one turn, a JSON list. Keys are unique and ordered by time.
const eventPrefix = "event/"

const (
	maxEvent  = 8 << 10   // bytes of an event's text
	maxEvents = 256 << 10 // of the texts of a turn, and of one attempt to learn
)

// Speaker returns the source of the event: the name if there is one, or else
// the role, or "tool".
func (e *Event) Speaker() string {
	switch {
	case e.Name != "":
		return line(e.Name, 60)
	case e.Kind == projection.ToolResult:
		return "tool"
	}
	return string(e.Role)
}

// events returns the user's and assistant's messages among items, and tool
// results if results is set.
func events(x *memory.Execution, items []projection.Item, results bool) []Event {
	var list []Event
	tools := make(map[string]string)
	for i := range items {
		it := &items[i]
		switch {
		case it.Kind == projection.ToolCall:
			tools[it.CallID] = it.Name
			continue
		case it.FromUser(), it.Kind == projection.Message && it.Role == projection.Assistant:
		case it.Kind == projection.ToolResult && results:
		default:
			continue
		}
		text, cut := tidy(it.Text(), maxEvent)
		if text == "" {
			continue
		}
		e := Event{
			ID: it.ID, Thread: x.Identity().Thread, Kind: it.Kind, Role: it.Role, Name: it.Name,
			Text: text, Cut: cut, Failed: it.Failed, Time: it.Time.UTC(),
		}
		if it.Kind == projection.ToolResult && e.Name == "" {
			e.Name = tools[it.CallID]
		}
		if len(list) == 0 {
			e.key = eventPrefix + itemKey(x, it, i)
		} else {
			e.key = list[0].key
		}
		list = append(list, e)
	}
	return within(list, maxEvents)
}

// newest returns the last user message, or the last event if there is none.
func newest(list []Event) *Event {
	best := &list[0]
	for i := range list {
		e := &list[i]
		if user := e.Role == projection.User; user == (best.Role == projection.User) && !e.Time.Before(best.Time) || user && best.Role != projection.User {
			best = e
		}
	}
	return best
}

// within cuts the texts of events, longest first, until they take at most limit
// bytes together.
func within(list []Event, limit int) []Event {
	for most := maxEvent; ; most /= 2 {
		size := 0
		for i := range list {
			if e := &list[i]; len(e.Text) > most {
				e.Text, _ = tidy(e.Text, most)
				e.Cut = true
			}
			size += len(list[i].Text)
		}
		if size <= limit || most < 16 {
			return list
		}
	}
}

// itemKey names an item in records: ordered by time, unique, short and
// independent of the item's text, however long or odd thread and item id are.
// at is the item's index in its turn, for items without an id.
func itemKey(x *memory.Execution, it *projection.Item, at int) string {
	id := it.ID
	if id == "" {
		id = x.ID() + "/" + strconv.Itoa(x.Step()) + "/" + strconv.Itoa(at)
	}
	return timeKey(it.Time) + "-" + digest(x.Identity().Thread, id)
}

// shown is the set of items already in the prompt. It computes the itemKeys of
// items lazily, for all items with the same time at once, when an item of that
// time is first looked up; if a clock stands still, that is all items. It is
// not safe for concurrent use.
type shown struct {
	x      *memory.Execution
	items  []projection.Item
	times  []shownAt // ascending
	oldest string    // the first of times, as timeKey formats it
	stamps map[stamp]bool
}

// shownAt is the time of an item, as keyTime returns it, its index, and, in the
// first of a time, whether the stamps of that time are known.
type shownAt struct {
	time  int64
	index int
	known bool
}

func shownIn(in *memory.RecallInput[struct{}]) *shown {
	s := &shown{x: in.Execution, items: in.Shown, times: make([]shownAt, len(in.Shown)), stamps: make(map[stamp]bool)}
	for i := range s.items {
		s.times[i] = shownAt{time: keyTime(s.items[i].Time), index: i}
	}
	slices.SortStableFunc(s.times, func(a, b shownAt) int { return cmp.Compare(a.time, b.time) })
	if len(s.times) > 0 {
		s.oldest = timeKey(time.UnixMicro(s.times[0].time))
	}
	return s
}

// has reports whether an item is shown. Nearly all items looked up are older
// than those shown, and that comparison alone decides.
func (s *shown) has(item stamp) bool {
	at := item.time()
	if len(s.times) == 0 || at < s.times[0].time {
		return false
	}
	i, ok := slices.BinarySearchFunc(s.times, at, func(t shownAt, at int64) int { return cmp.Compare(t.time, at) })
	if !ok {
		return false
	}
	if first := &s.times[i]; !first.known {
		for ; i < len(s.times) && s.times[i].time == at; i++ {
			n := s.times[i].index
			if stamp, ok := stampOf(itemKey(s.x, &s.items[n], n)); ok {
				s.stamps[stamp] = true
			}
		}
		first.known = true
	}
	return s.stamps[item]
}

// hasPassage reports whether the item that contains a passage is shown.
func (s *shown) hasPassage(id string) bool {
	if len(s.times) == 0 || id < s.oldest {
		return false
	}
	item, ok := stampOf(itemOf(id))
	return ok && s.has(item)
}

// timeKey formats t so that keys sort by time, from 1970 on.
func timeKey(t time.Time) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(keyTime(t))))
}

func keyTime(t time.Time) int64 { return max(t.UnixMicro(), 0) }

// digest returns a name of 20 characters for texts of any length.
func digest(texts ...string) string {
	var b []byte
	for _, t := range texts {
		b = append(append(strconv.AppendInt(b, int64(len(t)), 10), ':'), t...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:10])
}

// inOrder returns a change that applies the updates in order, skipping nil
// ones.
func inOrder[S any](updates ...func(S) S) memory.Change[S] {
	updates = slices.DeleteFunc(updates, func(f func(S) S) bool { return f == nil })
	if len(updates) == 0 {
		return memory.Change[S]{}
	}
	return memory.Update(func(s S) S {
		for _, f := range updates {
			s = f(s)
		}
		return s
	})
}

// put returns c with a record in which the events of a turn wait.
func put[S any](c memory.Change[S], list []Event) memory.Change[S] {
	if len(list) == 0 {
		return c
	}
	value, err := json.Marshal(list)
	if err != nil { // strings, bools, and times that package memory has checked
		panic(err)
	}
	return c.Put(list[0].key, pack.Pack(new([]byte), value))
}

// drop returns c without the records of events.
func drop[S any](c memory.Change[S], list []Event) memory.Change[S] {
	for i := range list {
		if i == 0 || list[i].key != list[i-1].key {
			c = c.Delete(list[i].key)
		}
	}
	return c
}

// backlog is the part of a layer's state that records how learning goes when a
// function of the user may fail. The zero value means that nothing waits.
type backlog struct {
	Failures int    `json:"failures,omitempty"` // minus successes since
	Error    string `json:"error,omitempty"`    // of the last one, at most 200 bytes
	After    string `json:"after,omitempty"`    // the record after which the next try begins
}

// maxBatch is how many turns' events are passed to one call of a learning
// function.
const maxBatch = 64

// size is how many turns' events the next try takes. It halves with each
// failure, and each try begins one turn later than the failed one, so events
// that always fail do not hold up others for long.
func (b backlog) size() int { return max(maxBatch>>min(b.Failures, 10), 1) }

// failed returns the backlog after another failure, in a try of list.
func (b backlog) failed(err error, list []Event) backlog {
	b.Failures++
	b.Error = line(err.Error(), 200)
	if len(list) > 0 {
		b.After = list[0].key
	}
	return b
}

// ok reports whether the last call went well.
func (b backlog) ok() bool { return b.Error == "" }

// succeeded returns the backlog after list was learned from; an empty list
// means that nothing waits any more.
func (b backlog) succeeded(list []Event) backlog {
	if b.ok() || len(list) == 0 {
		return backlog{}
	}
	b.Failures = max(b.Failures-1, 0)
	b.After = list[len(list)-1].key
	return b
}

// note says what is wrong, or is "".
func (b backlog) note(function string) string {
	if b.ok() {
		return ""
	}
	return "events wait for the next turn, " + function + " failed: " + b.Error
}

// waiting returns, from records, the events that the next try takes.
func (b backlog) waiting(ctx context.Context, r *memory.Records) ([]Event, error) {
	n := b.size()
	list, err := readEvents(ctx, r, b.After, n)
	if err == nil && len(list) == 0 && b.After != "" {
		list, err = readEvents(ctx, r, "", n)
	}
	return list, err
}

func readEvents(ctx context.Context, r *memory.Records, after string, turns int) ([]Event, error) {
	var list []Event
	size := 0
	for entry, err := range r.Scan(ctx, eventPrefix, scanAfter(after, turns)) {
		if err != nil {
			return nil, err
		}
		if size += len(entry.Value); size > maxEvents && len(list) > 0 {
			break
		}
		var turn []Event
		value, err := pack.Unpack(entry.Value)
		if err == nil {
			err = json.Unmarshal(value, &turn)
		}
		if err != nil || len(turn) == 0 {
			// Damaged: learn at least from what is readable.
			text, cut := tidy(string(value), maxEvent)
			turn = []Event{{Kind: projection.Message, Text: text, Cut: cut}}
		}
		for i := range turn {
			turn[i].key = entry.Key
		}
		list = append(list, turn...)
	}
	return list, nil
}

// claims records which execution of a Memory is working on waiting events, so
// that the others leave them alone. Events that several executions learn from
// at once are still learned once, but each would pay for it.
type claims struct {
	mu sync.Mutex
	by map[memory.Space]claim
}

type claim struct {
	execution string
	last      string // record key
	until     time.Time
}

// claimed is how long a claim holds. By then its holder has committed, or will
// not.
const claimed = 10 * time.Second

// take claims events for an execution, unless another has claimed them.
func (c *claims) take(space memory.Space, execution string, list []Event) bool {
	if len(list) == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if had := c.by[space]; had.execution != execution && had.last >= list[0].key && now.Before(had.until) {
		return false
	}
	maps.DeleteFunc(c.by, func(_ memory.Space, had claim) bool { return !now.Before(had.until) })
	if c.by == nil {
		c.by = make(map[memory.Space]claim)
	}
	c.by[space] = claim{execution, list[len(list)-1].key, now.Add(claimed)}
	return true
}

// calls are the user's functions that a layer has left behind because they
// continued after their context ended. Dispose waits for them.
type calls struct {
	mu   sync.Mutex
	left map[string][]<-chan struct{} // execution id → closed when the function is over
}

// attempt calls f and turns each of its failures into an error: a panic, with
// its stack, and ignoring the end of ctx. It ends slightly before ctx does,
// which leaves time to keep what f was to learn from.
func attempt[T any](ctx context.Context, c *calls, x *memory.Execution, f func(context.Context) (T, error)) (result T, failure error) {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(left/10, time.Second)))
		defer cancel()
	}
	var value T
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		value, err = f(ctx)
	}()
	defer func() {
		if failure != nil {
			x.Event("the layer's function failed")
		}
	}()
	select {
	case <-over:
		return value, err
	case <-ctx.Done():
	}
	select {
	case <-over:
		return value, err
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == nil {
		c.left = make(map[string][]<-chan struct{})
	}
	c.left[x.ID()] = append(c.left[x.ID()], over)
	return result, context.Cause(ctx)
}

// wait waits for the functions that an execution left behind.
func (c *calls) wait(ctx context.Context, x *memory.Execution) error {
	c.mu.Lock()
	left := c.left[x.ID()]
	delete(c.left, x.ID())
	c.mu.Unlock()
	for _, over := range left {
		select {
		case <-over:
		case <-ctx.Done():
			return fmt.Errorf("wait for the layer's function: it does not heed its context: %w", context.Cause(ctx))
		}
	}
	return nil
}
