package bench

import (
	"context"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage"
)

// Play plays so many turns of the ready layers on an engine, and measures them
// once, at their end.
func Play(ctx context.Context, engine string, data []locomo.Conversation, turns int) error {
	l := life{name: "ready/" + engine, engine: engine, script: sessions(readySeed), turns: turns, mark: turns, r: &Report{}}
	if data != nil {
		l.script = chats(data, readySeed)
	}
	return l.play(ctx)
}

// Said is an item of a script: who said what in which thread.
type Said struct{ Thread, Who, Text string }

// Chats returns the first items of data that is played again and again.
func Chats(data []locomo.Conversation, seed uint64, items int) []Said {
	return first(chats(data, seed), items)
}

// Sessions returns the first items of a generated agent's work.
func Sessions(seed uint64, items int) []Said { return first(sessions(seed), items) }

func first(s script, items int) (list []Said) {
	for c := range s {
		for _, x := range c.turns {
			for i, it := range append(x.input[:len(x.input):len(x.input)], x.output...) {
				who := string(it.Role)
				if who == "" {
					who = string(it.Kind)
				}
				if (i < len(x.input)) != (it.Role == "user" || it.Kind == "tool_result") {
					who += " on the wrong side"
				}
				if it.Name != "" {
					who += " " + it.Name
				}
				if list = append(list, Said{c.thread, who, it.Text() + it.Arguments}); len(list) == items {
					return list
				}
			}
		}
	}
	return list
}

// Counted returns what a store counts of ops, by "layer/state" and the like.
func Counted(ops ...storage.Op) (n int, bytes map[string]int) {
	m := &meter{}
	m.count(ops...)
	a := m.take()
	bytes = make(map[string]int)
	for p, b := range a.bytes {
		bytes[p.of+"/"+p.kind] = b
	}
	return a.ops, bytes
}
