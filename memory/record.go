package memory

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// recordFormat is the version of the records of threads. From 2 on, turns, epochs
// and states may be packed, and from 3 on an epoch is a state of package projection;
// only heads and epochs say so, and heads are what is read first.
const recordFormat = 3

// Turn is the record of one turn: one Commit. The items that it shows are here
// if they were new in it, and otherwise where the references say, so that its
// size does not depend on how long the thread is. [Replay] puts them together.
type Turn struct {
	V         int                        `json:"v"`
	Number    int                        `json:"turn"` // in its lineage, from 1
	Execution string                     `json:"execution"`
	Base      int                        `json:"base,omitempty"` // the lineage's last turn when the execution began
	Step      int                        `json:"step"`           // turns of the execution, this one included
	Time      time.Time                  `json:"time,omitzero"`
	Tokenizer string                     `json:"tokenizer,omitempty"`
	Before    int                        `json:"before,omitempty"` // items in the execution's log before this turn's
	Items     []projection.Item          `json:"items,omitempty"`  // new in the log: from outside first, then the response
	Given     int                        `json:"given,omitempty"`  // of Items, the first ones, which a child was given uncommitted: they are its parent's
	Sizes     []int                      `json:"sizes,omitempty"`  // of Items, in tokens
	View      *ViewRecord                `json:"view,omitempty"`   // nil if nothing was projected
	Layers    []projection.LayerUse      `json:"layers,omitempty"`
	History   *projection.HistoryUse     `json:"history,omitempty"`
	Opened    string                     `json:"opened,omitempty"` // why the view opened an epoch
	Notes     []string                   `json:"notes,omitempty"`
	Hooks     []HookReport               `json:"hooks,omitempty"` // those that failed, were skipped, or had something to note
	Usage     *Usage                     `json:"usage,omitempty"`
	Cost      float64                    `json:"cost,omitempty"`
	Model     string                     `json:"model,omitempty"`
	Texts     map[string]projection.Item `json:"texts,omitempty"` // by digest: items that later turns may refer to
}

// ViewRecord is a view by reference.
type ViewRecord struct {
	Cap          int          `json:"cap"`
	Tokens       int          `json:"tokens"`
	Stable       int          `json:"stable,omitempty"`
	StableTokens int          `json:"stable_tokens,omitempty"`
	Breakpoints  []int        `json:"breakpoints,omitempty"`
	Bands        []BandRecord `json:"bands,omitempty"`
}

// BandRecord is a segment of a view: a stretch of the log, or items by digest.
type BandRecord struct {
	Band  projection.Band `json:"band"`
	Log   *Position       `json:"log,omitempty"`
	Count int             `json:"count,omitempty"` // items of the log from there
	Items []ItemRef       `json:"items,omitempty"`
}

// Position is a place in a log: an item of a turn.
type Position struct {
	Execution string `json:"in,omitempty"` // whose log it is; empty: of the execution itself
	Turn      int    `json:"t"`
	Item      int    `json:"i,omitempty"` // index in Turn.Items
}

// ItemRef refers to an item by its digest: the first 128 bits of the SHA-256 of
// its encoding, in hex.
type ItemRef struct {
	Digest string `json:"d"`
	Turn   int    `json:"t"` // of the same lineage; its Texts have the item
	Layer  string `json:"layer,omitempty"`
	Tokens int    `json:"n,omitempty"`
}

// RunInfo is the record of an execution. It is written with its first turn;
// when the execution ends, what only Resume needs goes.
type RunInfo struct {
	V         int       `json:"v"`
	ID        string    `json:"execution"`
	Identity  Identity  `json:"identity"`
	Lineage   string    `json:"lineage"` // key prefix of its turns
	Depth     int       `json:"depth,omitempty"`
	Parent    string    `json:"parent,omitempty"`
	Root      int       `json:"root,omitempty"` // of a child: see childLineage
	Fork      *origin   `json:"fork,omitempty"` // the log that it began with, if that was its parent's
	Began     time.Time `json:"began,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Outcome   Outcome   `json:"outcome,omitempty"` // empty while it runs
	Base      int       `json:"base,omitempty"`
	FirstTurn int       `json:"first,omitempty"`
	LastTurn  int       `json:"last,omitempty"`
	Step      int       `json:"step,omitempty"`
	Resumed   string    `json:"resumed,omitempty"` // of the Resume that wrote it; empty: it ran where it began
	Usage     Usage     `json:"usage,omitzero"`
	Cost      float64   `json:"cost,omitempty"`
	Model     string    `json:"model,omitempty"`
}

// origin is a log up to a turn: the turns of a lineage up to Base, those of an
// execution after it, and before all of them the log that it began with.
type origin struct {
	Execution string  `json:"execution"`
	Lineage   string  `json:"lineage"`
	Base      int     `json:"base,omitempty"`
	Turn      int     `json:"turn"` // the last
	Fork      *origin `json:"fork,omitempty"`
}

// append encodes the record by hand: it is written at every turn.
func (x *RunInfo) append(b []byte) []byte {
	b = append(b, `{"v":1`...)
	b = appendjson.Text(b, "execution", x.ID)
	b = append(appendjson.Field(b, "identity"), '{')
	b = appendjson.Text(b, "thread", x.Identity.Thread)
	b = appendjson.Text(b, "resource", x.Identity.Resource)
	b = appendjson.Text(b, "agent", x.Identity.Agent)
	b = appendjson.Text(b, "team", x.Identity.Team)
	b = append(b, '}')
	b = appendjson.Text(b, "lineage", x.Lineage)
	b = appendjson.Int(b, "depth", x.Depth)
	b = appendjson.Text(b, "parent", x.Parent)
	b = appendjson.Int(b, "root", x.Root)
	if x.Fork != nil {
		b = appendjson.Value(appendjson.Field(b, "fork"), x.Fork)
	}
	b = appendjson.Time(b, "began", x.Began)
	b = appendjson.Time(b, "ended", x.Ended)
	b = appendjson.Text(b, "outcome", string(x.Outcome))
	b = appendjson.Int(b, "base", x.Base)
	b = appendjson.Int(b, "first", x.FirstTurn)
	b = appendjson.Int(b, "last", x.LastTurn)
	b = appendjson.Int(b, "step", x.Step)
	b = appendjson.Text(b, "resumed", x.Resumed)
	if x.Usage != (Usage{}) {
		b = appendUsage(appendjson.Field(b, "usage"), &x.Usage)
	}
	if x.Cost != 0 {
		b = appendjson.Value(appendjson.Field(b, "cost"), x.Cost)
	}
	b = appendjson.Text(b, "model", x.Model)
	return append(b, '}')
}

func (x *RunInfo) origin() *origin {
	return &origin{Execution: x.ID, Lineage: x.Lineage, Base: x.Base, Turn: max(x.Base, x.LastTurn), Fork: x.Fork}
}

// sees says whether a turn of its lineage is in the log.
func (o *origin) sees(t *Turn) bool {
	return t.Number <= o.Turn && (t.Number <= o.Base || t.Execution == o.Execution)
}

// decodeRecord reads what is stored under a key.
func decodeRecord[T any](key string, data []byte) (*T, error) {
	var version struct {
		V int `json:"v"`
	}
	var rec T
	data, err := pack.Unpack(data)
	if err != nil {
		return nil, &storage.CorruptError{Key: key, Reason: err.Error()}
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return nil, &storage.CorruptError{Key: key, Reason: err.Error()}
	}
	if json.Unmarshal(data, &version); version.V > recordFormat {
		return nil, &FormatError{Key: key, Have: version.V, Supported: recordFormat}
	}
	return &rec, nil
}

func appendPosition(b []byte, p Position) []byte {
	b = append(b, '{')
	b = appendjson.Text(b, "in", p.Execution)
	b = strconv.AppendInt(appendjson.Field(b, "t"), int64(p.Turn), 10)
	b = appendjson.Int(b, "i", p.Item)
	return append(b, '}')
}

func appendRef(b []byte, r *ItemRef) []byte {
	b = append(b, `{"d":"`...)
	b = append(b, r.Digest...)
	b = append(b, `","t":`...)
	b = strconv.AppendInt(b, int64(r.Turn), 10)
	b = appendjson.Text(b, "layer", r.Layer)
	b = appendjson.Int(b, "n", r.Tokens)
	return append(b, '}')
}

func appendUse(b []byte, u *projection.LayerUse) []byte {
	b = append(b, '{')
	b = appendjson.String(appendjson.Field(b, "layer"), u.Layer)
	b = appendjson.String(appendjson.Field(b, "placement"), string(u.Placement))
	b = strconv.AppendInt(appendjson.Field(b, "allocated"), int64(u.Allocated), 10)
	b = strconv.AppendInt(appendjson.Field(b, "used"), int64(u.Used), 10)
	b = appendjson.Int(b, "carried", u.Carried)
	b = strconv.AppendInt(appendjson.Field(b, "yielded"), int64(u.Yielded), 10)
	b = strconv.AppendInt(appendjson.Field(b, "items"), int64(u.Items), 10)
	b = appendjson.Int(b, "trimmed", u.Trimmed)
	b = appendjson.Int(b, "skipped", u.Skipped)
	b = appendjson.Text(b, "update", u.Update)
	return append(b, '}')
}

// appendHistory appends what became of the log.
func appendHistory(b []byte, u *projection.HistoryUse) []byte {
	b = append(b, '{')
	b = strconv.AppendInt(appendjson.Field(b, "from"), int64(u.From), 10)
	b = strconv.AppendInt(appendjson.Field(b, "items"), int64(u.Items), 10)
	b = strconv.AppendInt(appendjson.Field(b, "tokens"), int64(u.Tokens), 10)
	b = strconv.AppendInt(appendjson.Field(b, "budget"), int64(u.Budget), 10)
	b = appendjson.Int(b, "dropped", u.Dropped)
	b = appendjson.Int(b, "unpaired", u.Unpaired)
	b = appendjson.Bool(b, "cut", u.Cut)
	return append(b, '}')
}
