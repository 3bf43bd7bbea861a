package memory

import (
	"slices"
	"strconv"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/projection"
)

// head says where a lineage stands. Every turn writes it, checked against the
// version before, so that turns follow one another.
type head struct {
	V         int    `json:"v"`
	Turn      int    `json:"turn"`            // the last
	First     int    `json:"first"`           // the first that is kept
	Execution string `json:"execution"`       // that wrote it
	Whole     bool   `json:"whole,omitempty"` // the log of that execution is all turns
}

// epochHead is a projection.Epoch with positions instead of log indexes, and
// references instead of items: what the next projection needs to go on with the
// same prefix.
type epochHead struct {
	V            int         `json:"v"`
	Turn         int         `json:"turn"` // that wrote it
	Number       int         `json:"number"`
	Projections  int         `json:"projections,omitempty"`
	Turns        int         `json:"turns,omitempty"`
	Head         string      `json:"head,omitempty"`
	From         Position    `json:"from"`
	Shown        Position    `json:"shown"`
	Pin          *Position   `json:"pin,omitempty"`
	Hidden       []Position  `json:"hidden,omitempty"`
	Summary      *int        `json:"summary,omitempty"` // index in Texts, as are all below
	Tracks       []trackHead `json:"tracks,omitempty"`
	Ledger       []published `json:"ledger,omitempty"`
	Stable       int         `json:"stable,omitempty"`
	StableTokens int         `json:"stable_tokens,omitempty"`
	Tokens       int         `json:"tokens,omitempty"` // of the last view
	Missed       bool        `json:"missed,omitempty"`
	Misses       int         `json:"misses,omitempty"`
	Texts        []ItemRef   `json:"texts,omitempty"`
}

type trackHead struct {
	Layer   string     `json:"layer"`
	Live    bool       `json:"live,omitempty"`
	Changed uint64     `json:"changed,omitempty"`
	Samples int        `json:"samples,omitempty"`
	Sum     uint32     `json:"sum,omitempty"` // of the latest output
	Pinned  outputHead `json:"pinned,omitzero"`
	Told    outputHead `json:"told,omitzero"`  // empty with Same
	Same    bool       `json:"same,omitempty"` // Told is Pinned
}

type outputHead struct {
	Items []int  `json:"items,omitempty"`
	Sizes []int  `json:"sizes,omitempty"`
	Sum   uint32 `json:"sum,omitempty"`
}

type published struct {
	At   Position `json:"at"`
	Item int      `json:"item"`
	Size int      `json:"size"`
}

// valid says whether all indexes are those of texts.
func (e *epochHead) valid() bool {
	in := func(at int) bool { return at >= 0 && at < len(e.Texts) }
	all := func(o *outputHead) bool {
		return !slices.ContainsFunc(o.Items, func(at int) bool { return !in(at) })
	}
	for i := range e.Tracks {
		if t := &e.Tracks[i]; !all(&t.Pinned) || !all(&t.Told) {
			return false
		}
	}
	for i := range e.Ledger {
		if !in(e.Ledger[i].Item) {
			return false
		}
	}
	return e.Summary == nil || in(*e.Summary)
}

// appendHead appends the lineage's head as turn n leaves it.
func (r *Run) appendHead(b []byte, n, first int) []byte {
	b = append(b, `{"v":2`...)
	b = appendjson.Int(b, "turn", n)
	b = appendjson.Int(b, "first", first)
	b = appendjson.Text(b, "execution", r.id)
	b = appendjson.Bool(b, "whole", !r.gap)
	return append(b, '}')
}

// appendEpochRecord appends the epoch as turn n leaves it, and marks its texts.
// With bare, it is left out, and ends.
func (r *Run) appendEpochRecord(b []byte, n int, bare bool) []byte {
	b = append(b, `{"v":1`...)
	b = appendjson.Int(b, "turn", n)
	if e := r.epoch; e != nil && !bare {
		b = r.appendEpoch(b, e, n)
	}
	return append(b, '}')
}

func (r *Run) appendEpoch(b []byte, e *projection.Epoch, n int) []byte {
	b = strconv.AppendInt(appendjson.Field(b, "number"), int64(e.Number), 10)
	b = appendjson.Int(b, "projections", e.Projections)
	b = appendjson.Int(b, "turns", e.Turns)
	b = appendjson.Text(b, "head", e.Head)
	b = appendPosition(appendjson.Field(b, "from"), r.position(e.From, n))
	b = appendPosition(appendjson.Field(b, "shown"), r.position(e.Shown, n))
	if e.Pin >= 0 {
		b = appendPosition(appendjson.Field(b, "pin"), r.position(e.Pin, n))
	}
	if len(e.Hidden) > 0 {
		b = append(appendjson.Field(b, "hidden"), '[')
		for i, at := range e.Hidden {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendPosition(b, r.position(at, n))
		}
		b = append(b, ']')
	}
	if e.Summary != nil {
		b = strconv.AppendInt(appendjson.Field(b, "summary"), int64(r.texts.mark(e.Summary, -1).index), 10)
	}
	b = append(appendjson.Field(b, "tracks"), '[')
	for i := range e.Tracks {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.appendTrack(b, &e.Tracks[i])
	}
	b = append(b, ']')
	if len(e.Ledger) > 0 {
		b = append(appendjson.Field(b, "ledger"), '[')
		for i := range e.Ledger {
			if i > 0 {
				b = append(b, ',')
			}
			p := &e.Ledger[i]
			b = append(b, '{')
			b = appendPosition(appendjson.Field(b, "at"), r.position(p.At, n))
			b = strconv.AppendInt(appendjson.Field(b, "item"), int64(r.texts.mark(&p.Item, p.Size).index), 10)
			b = strconv.AppendInt(appendjson.Field(b, "size"), int64(p.Size), 10)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	b = appendjson.Int(b, "stable", e.Stable)
	b = appendjson.Int(b, "stable_tokens", e.StableTokens)
	b = appendjson.Int(b, "tokens", e.Tokens)
	b = appendjson.Bool(b, "missed", e.Missed)
	b = appendjson.Int(b, "misses", e.Misses)
	b = append(appendjson.Field(b, "texts"), '[')
	for i, x := range r.texts.marked {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.texts.appendRef(b, x, n)
	}
	return append(b, ']')
}

func (r *Run) appendTrack(b []byte, t *projection.Track) []byte {
	b = append(b, '{')
	b = appendjson.String(appendjson.Field(b, "layer"), t.Layer)
	b = appendjson.Bool(b, "live", t.Live)
	if t.Changed != 0 {
		b = strconv.AppendUint(appendjson.Field(b, "changed"), t.Changed, 10)
	}
	b = appendjson.Int(b, "samples", t.Samples)
	if t.Sum != 0 {
		b = strconv.AppendUint(appendjson.Field(b, "sum"), uint64(t.Sum), 10)
	}
	b = r.appendOutput(b, "pinned", &t.Pinned)
	if sameOutput(&t.Pinned, &t.Told) {
		return append(appendjson.Bool(b, "same", true), '}')
	}
	return append(r.appendOutput(b, "told", &t.Told), '}')
}

// sameOutput says whether two outputs have the same items.
func sameOutput(a, b *projection.Output) bool {
	if len(a.Items) != len(b.Items) {
		return false
	}
	if len(a.Items) > 0 && &a.Items[0] == &b.Items[0] {
		return true
	}
	for i := range a.Items {
		if !a.Items[i].Equal(&b.Items[i]) {
			return false
		}
	}
	return true
}

func (r *Run) appendOutput(b []byte, name string, o *projection.Output) []byte {
	if len(o.Items) == 0 {
		return b
	}
	b = append(appendjson.Field(b, name), `{"items":[`...)
	for i := range o.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r.texts.mark(&o.Items[i], o.Sizes[i]).index), 10)
	}
	b = append(b, ']')
	b = appendjson.Ints(b, "sizes", o.Sizes)
	b = strconv.AppendUint(appendjson.Field(b, "sum"), uint64(o.Sum), 10)
	return append(b, '}')
}
