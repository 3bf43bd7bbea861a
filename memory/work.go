package memory

import "github.com/stratamem/strata/projection"

// work is what the operations of a run work on. Whoever holds its token owns it:
// see [Run.occupy].
type work struct {
	token

	lineage  lineage
	log      heldLog
	texts    *texts
	number   func(it *projection.Item, size int) int // of a text, as they are marked
	ending   ending
	contribs []projection.Contribution // of the active layers that recall, in slot order

	turn *turn // nil between turns

	// Reused memory.
	room  turn              // of the turn
	taken []projection.Item // of the items that it is given
	calls callRoom          // of Recall and Store

	untraced untraced
}

func newWork(m *Memory) work {
	w := work{
		token: newToken(), log: heldLog{Prefix: m.frame.NewPrefix(0)}, texts: newTexts(m.frame.Tokenizer(), m.opts.KeepTurns),
	}
	texts := w.texts
	w.number = func(it *projection.Item, size int) int { return texts.mark(it, size).index }
	return w
}

// turn is the current turn as far as it has got.
type turn struct {
	view     *projection.View
	encoded  []byte    // its items as JSON, with commas
	given    int       // number of its first items, which come from the parent's current turn
	response *Response // as passed to Commit
	fromUser bool      // whether it has a user message
	learned  bool      // whether its Store hooks have run
}

// idle reports whether the current turn has nothing to store: what began it
// failed, or a child was given it and did nothing.
func (w *work) idle() bool {
	t := w.turn
	return t.view == nil && t.response == nil && w.log.Len() == w.log.start+t.given
}
