package bench

import (
	"context"
	"fmt"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// prefixTurns is how many turns a prefix case has.
const prefixTurns = 40

// prefixCase is one way in which layers change.
type prefixCase struct {
	name   string
	every  []int // layer i changes every so many turns; 0 and beyond the end: never
	filled int   // messages in the log before
	policy projection.Policy
}

// Prefix measures how much of each prompt a provider's cache holds, over 40
// turns of two messages of 400 characters, with five layers of 1,200
// characters. Metrics: reuse, the share of a prompt's characters that were the
// start of the previous prompt (mean over all prompts but the first); billed,
// uncached × 1.25 + cached × 0.1 characters per turn, including the first;
// history, the smallest share of its budget that history had after it first
// exceeded it. Cases:
//
//	prefix/none      no layer changes
//	prefix/lowest    the layer of the lowest slot changes every turn
//	prefix/mixed     one changes every turn, one every 5, one every 10
//	prefix/all       all five change every turn
//	prefix/overflow  no layer changes; 1,000 messages came before, the policy
//	                 allows 8,000 tokens
//
// Each also exists as …/unanchored, with every layer rendered live.
func Prefix(ctx context.Context, r *Report) error {
	for _, c := range []prefixCase{
		{name: "none"},
		{name: "lowest", every: []int{1}},
		{name: "mixed", every: []int{1, 5, 10}},
		{name: "all", every: []int{1, 1, 1, 1, 1}},
		{name: "overflow", filled: 1000, policy: projection.Policy{Budget: 8000, Reserve: -1}},
	} {
		c.name = "prefix/" + c.name
		if err := c.run(ctx, r); err != nil {
			return fmt.Errorf("bench %s: %w", c.name, err)
		}
		c.name += "/unanchored"
		c.policy.NoAnchors = true
		if err := c.run(ctx, r); err != nil {
			return fmt.Errorf("bench %s: %w", c.name, err)
		}
	}
	return nil
}

func (c *prefixCase) run(ctx context.Context, r *Report) error {
	store := mem.New()
	defer store.Close()
	changes := func(layer, turn int) bool {
		turn -= c.filled / 2
		return turn > 0 && layer < len(c.every) && c.every[layer] > 0 && turn%c.every[layer] == 0
	}
	m, err := memory.New(store, noteLayers(5, changes), &memory.Options{Policy: c.policy})
	if err != nil {
		return err
	}
	run, err := m.Begin(ctx, memory.Identity{Thread: "prefix"})
	if err != nil {
		return err
	}
	for i := range c.filled / 2 {
		if err := turn(ctx, run, 0, i); err != nil {
			return err
		}
	}
	var reuse, billed float64
	history := 1.0
	var previous []byte
	for i := range prefixTurns {
		view, err := run.Project(ctx, message(projection.User, 1, i))
		if err != nil {
			return err
		}
		prompt := view.AppendText(nil)
		same := common(previous, prompt)
		billed += 1.25*float64(len(prompt)-same) + 0.1*float64(same)
		if i > 0 {
			reuse += float64(same) / float64(len(prompt))
		}
		if view.History.Dropped > 0 {
			history = min(history, float64(view.History.Tokens)/float64(view.History.Budget))
		}
		previous = prompt
		if err := run.Commit(ctx, memory.Response{Items: []projection.Item{message(projection.Assistant, 1, i)}}); err != nil {
			return err
		}
	}
	r.add(c.name, "reuse", reuse/(prefixTurns-1), "share")
	r.add(c.name, "billed", billed/prefixTurns, "chars")
	if c.filled > 0 {
		r.add(c.name, "history", history, "share")
	}
	if err := run.End(ctx, memory.Success); err != nil {
		return err
	}
	return m.Close(ctx)
}

// common returns the length of the longest common start.
func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
