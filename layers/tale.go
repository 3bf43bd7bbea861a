package layers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// tale collects what an episode is made from. It is told an execution's items,
// newest first, and holds no more of a long execution than of a short one.
type tale struct {
	keep        bool              // size limit of last and of first
	items       int               // number of items told
	last, first []projection.Item // the newest and the oldest items, each newest first
	begun       time.Time
	ended       time.Time
	asked       *projection.Item // the oldest user message with content
	answered    *projection.Item // the newest assistant message
	said        []string         // what users said first, newest first
	size        int              // of said
	tools       []*use
	names       map[string]*use // by tool name
	failed      map[string]int  // failed results by call, until the call is told
}

// use is how often a tool was called.
type use struct {
	name          string
	calls, failed int
	first         int // the number of the item that called it first
}

// read tells the items of the ending execution, from the newest back to the one
// with a key. If there is not enough time, the oldest are left out.
func (t *tale) read(ctx context.Context, in *memory.CompleteInput[episodes], first string) error {
	began, err := strconv.ParseInt(first[:min(16, len(first))], 16, 64)
	if err != nil {
		return errors.New("read where the execution began: the record is damaged")
	}
	told := func(it *projection.Item) bool {
		t.tell(it)
		return keyTime(it.Time) == began && itemKey(in.Execution, it, 0) == first
	}
	for i := range slices.Backward(in.Log) {
		if told(&in.Log[i]) {
			return nil
		}
	}
	reading := ctx
	if deadline, ok := ctx.Deadline(); ok { // the other half is for the summary
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	for it, err := range in.Execution.Earlier(reading) {
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return nil
		case err != nil:
			return err
		case told(&it):
			return nil
		}
	}
	return nil
}

// tell adds an item, which must be older than those before.
func (t *tale) tell(it *projection.Item) {
	t.items++
	switch {
	case !t.keep:
	case len(t.last) < lastEvents:
		t.last = append(t.last, *it)
	default:
		if len(t.first) == firstEvents {
			t.first = slices.Delete(t.first, 0, 1)
		}
		t.first = append(t.first, *it)
	}
	if at := it.Time.UTC(); !at.IsZero() {
		if t.ended.IsZero() {
			t.ended = at
		}
		t.begun = at
	}
	switch {
	case it.Kind == projection.ToolCall:
		name := line(it.Name, 60)
		u := t.names[name]
		if u == nil {
			u = &use{name: name}
			t.names[name] = u
			t.tools = append(t.tools, u)
		}
		u.calls++
		u.failed += t.failed[it.CallID]
		u.first = t.items
		delete(t.failed, it.CallID)
	case it.Kind == projection.ToolResult && it.Failed:
		t.failed[it.CallID]++
	case it.FromUser():
		text := line(it.Text(), 300)
		if text != "" {
			t.asked = it
		}
		t.said, t.size = append(t.said, text), t.size+len(text)+1
		for t.size-len(t.said[0])-1 >= maxSaid {
			t.size -= len(t.said[0]) + 1
			t.said = t.said[1:]
		}
	case it.Kind == projection.Message && it.Role == projection.Assistant && t.answered == nil:
		t.answered = it
	}
}

// ends returns the first and the last of many items.
func (t *tale) ends() []projection.Item {
	items := slices.Concat(t.last, t.first)
	slices.Reverse(items)
	return items
}

// episode returns the episode with the default summary, which is empty if
// nobody said anything, and what users said in it, by which it is found.
func (t *tale) episode(x *memory.Execution, outcome memory.Outcome) (Episode, string) {
	ep := Episode{Execution: x.ID(), Thread: x.Identity().Thread, Outcome: outcome, Begun: t.begun, Ended: t.ended}
	cite := func(it *projection.Item) {
		if it.ID != "" {
			ep.Refs = append(ep.Refs, it.ID)
		}
	}
	var asked, answered string
	if t.asked != nil {
		asked = line(t.asked.Text(), 300)
		cite(t.asked)
	}
	if t.answered != nil {
		if answered = line(t.answered.Text(), 400); answered != "" {
			cite(t.answered)
		}
	}
	if asked == "" && answered == "" {
		return ep, ""
	}
	var parts []string
	if asked != "" {
		parts = append(parts, "Asked: "+asked)
	}
	if len(t.tools) > 0 {
		slices.SortFunc(t.tools, func(a, b *use) int { return b.first - a.first })
		var used []string
		for _, u := range t.tools[:min(len(t.tools), 12)] {
			text := u.name
			if u.failed > 0 {
				text = fmt.Sprintf("%s ×%d (%d failed)", u.name, u.calls, u.failed)
			} else if u.calls > 1 {
				text = fmt.Sprintf("%s ×%d", u.name, u.calls)
			}
			used = append(used, text)
		}
		parts = append(parts, "Used: "+strings.Join(used, ", "))
	}
	if answered != "" {
		parts = append(parts, "Answered: "+answered)
	}
	ep.Summary = line(strings.Join(parts, " | "), maxSummary)
	var said strings.Builder
	for _, text := range slices.Backward(t.said) {
		said.WriteString(text + "\n")
	}
	return ep, said.String()
}
