package memory

import (
	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/memory/thread"
)

// epochHead says how the next projection continues the prefix that the provider
// has. The state of the prefix, which belongs to package projection, follows it
// after a newline. The items that the state refers to are those of the turn's
// view, each once and in that order, followed by Texts.
type epochHead struct {
	V     int              `json:"v"`
	Turn  int              `json:"turn"` // turn that wrote it
	From  thread.Position  `json:"from"` // where history begins
	Pin   *thread.Position `json:"pin,omitempty"`
	Texts []thread.ItemRef `json:"texts,omitempty"`

	state []byte
}

// markTexts marks the items outside the log that the turn's record refers to,
// and captures the state of the prefix. It returns how many of them the view
// shows.
func (r *Run) markTexts() (shown int) {
	if v := r.turn.view; v != nil {
		for i := range v.Segments {
			if s := &v.Segments[i]; s.From < 0 {
				for j := range s.Items {
					size := -1
					if s.Sizes != nil {
						size = s.Sizes[j]
					}
					r.texts.mark(&s.Items[j], size)
				}
			}
		}
	}
	shown = len(r.texts.marked)
	r.writer.stateBytes = r.log.AppendState(r.writer.stateBytes[:0], r.number)
	return shown
}

// appendEpoch appends the state of the prefix after turn n, of which the record
// shows the first texts items. Without a state, the epoch ends.
func (r *Run) appendEpoch(b []byte, n, shown int) []byte {
	b = append(b, `{"v":4`...)
	b = appendjson.Int(b, "turn", n)
	if len(r.writer.stateBytes) == 0 {
		return append(b, '}')
	}
	from, pin := r.log.History()
	b = appendPosition(appendjson.Field(b, "from"), r.log.position(from, n))
	if pin >= 0 {
		b = appendPosition(appendjson.Field(b, "pin"), r.log.position(pin, n))
	}
	if more := r.texts.marked[shown:]; len(more) > 0 {
		b = append(appendjson.Field(b, "texts"), '[')
		for i, x := range more {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.texts.appendRef(b, x, n)
		}
		b = append(b, ']')
	}
	return append(append(b, '}', '\n'), r.writer.stateBytes...)
}
