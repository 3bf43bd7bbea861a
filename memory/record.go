package memory

import (
	"strconv"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// The encodings of the records that package thread decodes.

// appendRun appends the record of an execution. It encodes by hand because this
// is written every turn.
func appendRun(b []byte, x *thread.Run) []byte {
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

func appendPosition(b []byte, p thread.Position) []byte {
	b = append(b, '{')
	b = appendjson.Text(b, "in", p.Execution)
	b = strconv.AppendInt(appendjson.Field(b, "t"), int64(p.Turn), 10)
	b = appendjson.Int(b, "i", p.Item)
	return append(b, '}')
}

func appendUse(b []byte, u *projection.LayerUse) []byte {
	b = append(b, '{')
	b = appendjson.String(appendjson.Field(b, "layer"), u.Layer)
	b = appendjson.Text(b, "authority", string(u.Authority))
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

// appendHistory appends what happened to the log.
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

func appendUsage(b []byte, u *Usage) []byte {
	b = append(b, '{')
	b = appendjson.Int(b, "input", u.Input)
	b = appendjson.Int(b, "output", u.Output)
	if u.CacheRead != nil {
		b = strconv.AppendInt(appendjson.Field(b, "cache_read"), int64(*u.CacheRead), 10)
	}
	if u.CacheWrite != nil {
		b = strconv.AppendInt(appendjson.Field(b, "cache_write"), int64(*u.CacheWrite), 10)
	}
	return append(b, '}')
}
