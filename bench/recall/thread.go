package recall

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// sitting is one session of a conversation as played: a run of a thread.
type sitting struct {
	thread string
	rounds []round
}

// round is what comes from outside, and the answer.
type round struct{ input, output []projection.Item }

// person is the resource of a conversation's threads.
const person = "person"

// sittings returns the sessions of a conversation in order of time, as items
// with the ids of the turns. Each item is later than the one before; if a file
// gives several sessions the same time, they follow each other.
//
// A speaker without a role is the user if called so or if they speak first, and
// otherwise the assistant, each under their own name.
func sittings(c *locomo.Conversation) []sitting {
	turns := slices.Clone(c.Turns)
	starts := make(map[string]time.Time)
	order := make(map[string]int)
	for _, d := range turns {
		if _, ok := order[d.Session]; !ok {
			order[d.Session], starts[d.Session] = len(order), d.Time
		}
	}
	for i := range turns {
		d := &turns[i]
		d.Time = starts[d.Session]
	}
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(order[a.Session], order[b.Session]))
	})
	var list []sitting
	last, session := time.Time{}, ""
	for i := range turns {
		d := &turns[i]
		act := c.Acts[d.ID]
		if len(list) == 0 || d.Session != session {
			list = append(list, sitting{thread: cmp.Or(act.Thread, "chat")})
			session = d.Session
		}
		if !d.Time.After(last) {
			d.Time = last.Add(time.Second)
		}
		last = d.Time
		s := &list[len(list)-1]
		it, mine := itemOf(d, &act, c.Turns[0].Speaker)
		n := len(s.rounds)
		if n == 0 || !mine && len(s.rounds[n-1].output) > 0 {
			s.rounds = append(s.rounds, round{})
			n++
		}
		r := &s.rounds[n-1]
		if mine {
			r.output = append(r.output, it)
		} else {
			r.input = append(r.input, it)
		}
	}
	return list
}

// itemOf returns a turn as an item, and whether the model made it.
func itemOf(d *turn, act *locomo.Act, first string) (it projection.Item, mine bool) {
	switch act.Role {
	case "call":
		it, mine = projection.Call(d.ID, act.Name, d.Text), true
	case "tool":
		it = projection.Result(act.Call, d.Text)
		it.Name, it.Failed = act.Name, act.Failed
	default:
		role := projection.Role(cmp.Or(act.Role, d.Speaker))
		named := role != projection.User && role != projection.Assistant
		if named {
			if role = projection.Assistant; d.Speaker == first {
				role = projection.User
			}
		}
		it, mine = projection.Text(role, d.Text), role == projection.Assistant
		if named {
			it.Name = d.Speaker
		}
	}
	it.ID, it.Time = d.ID, d.Time
	return it, mine
}

// play lets a memory live through a conversation: it projects and commits every
// round, and ends every session.
func play(ctx context.Context, m *memory.Memory, list []sitting) error {
	for _, s := range list {
		run, err := m.Begin(ctx, memory.Identity{Thread: s.thread, Resource: person})
		if err != nil {
			return fmt.Errorf("play: %w", err)
		}
		for _, r := range s.rounds {
			if _, err := run.Project(ctx, r.input...); err != nil {
				return fmt.Errorf("play: %w", err)
			}
			if err := run.Commit(ctx, memory.Response{Items: r.output}); err != nil {
				return fmt.Errorf("play: %w", err)
			}
		}
		if err := run.End(ctx, memory.Success); err != nil {
			return fmt.Errorf("play: %w", err)
		}
	}
	return nil
}

// end is the time of the last item.
func end(list []sitting) time.Time {
	var at time.Time
	for _, s := range list {
		for _, r := range s.rounds {
			for _, it := range slices.Concat(r.input, r.output) {
				at = it.Time
			}
		}
	}
	return at
}
