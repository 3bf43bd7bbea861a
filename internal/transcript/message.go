package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/stratamem/strata/projection"
)

// message is an entry of a file of shape Lines or Messages.
type message struct {
	ID         json.RawMessage `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Refusal    string          `json:"refusal"`
	Audio      json.RawMessage `json:"audio"`
	ToolCalls  []toolCall      `json:"tool_calls"`
	Function   *toolCall       `json:"function_call"` // the form before tool_calls, without an id
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
	Time       json.RawMessage `json:"time"`
	Timestamp  json.RawMessage `json:"timestamp"`
	Thread     string          `json:"thread"`
}

// toolCall is a call in OpenAI's format; arguments may also be an object, and
// name and arguments may be given without the enclosing function.
type toolCall struct {
	ID       string `json:"id"`
	Function *struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	Custom *struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// decode turns a record into an entry. It adds what is wrong to r.faults.
func (r *Reader) decode(rec record) Entry {
	r.line, r.faults = rec.line, nil
	r.place++
	if rec.why != "" {
		r.fault("%s", rec.why)
		return Entry{}
	}
	if !utf8.Valid(rec.raw) {
		rec.raw = bytes.ToValidUTF8(rec.raw, []byte("\uFFFD"))
		r.fault("text that is not UTF-8, replaced by U+FFFD")
	}
	e := Entry{Line: rec.line, Offset: r.input.offset}
	var id string // given in the file
	if r.shape == ClaudeCode {
		id = r.session(rec.raw, &e)
	} else {
		id = r.message(rec.raw, rec.document, &e)
	}
	if len(e.Items) > 0 {
		r.begun[e.Thread] = r.begun[e.Thread] || !e.System
		r.identify(&e, id)
	}
	for i := range e.Items {
		e.Items[i].Time = e.Time
	}
	for _, f := range r.faults {
		f.Repaired = len(e.Items) > 0
	}
	return e
}

// message reads one message into e, and returns its id in the file.
func (r *Reader) message(raw []byte, document int, e *Entry) string {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		r.fault("%s", broken(err))
		return ""
	}
	e.Thread = m.Thread
	if e.Thread == "" {
		e.Thread = r.opts.Thread
		if document > 0 {
			e.Thread += "-" + strconv.Itoa(document+1)
		}
	}
	e.Time = r.time(m.Time)
	if e.Time.IsZero() {
		e.Time = r.time(m.Timestamp)
	}
	switch m.Role {
	case "user", "system", "developer":
		e.System = m.Role != "user" && !r.begun[e.Thread]
		e.Items = r.content(e.Thread, projection.Role(m.Role), m.Name, m.Content)
	case "assistant":
		e.Model = true
		e.Items = r.content(e.Thread, projection.Assistant, m.Name, m.Content)
		if m.Refusal != "" {
			e.Items = append(e.Items, projection.Text(projection.Assistant, m.Refusal))
		}
		e.Items = append(e.Items, r.toolCalls(e.Thread, m.calls())...)
		if len(m.Audio) > 0 && string(m.Audio) != "null" {
			r.skipped.Left.Parts++
			r.fault("audio of an answer, which is left out")
		}
	case "tool", "function":
		parts := r.parts(m.Content)
		if it, ok := r.result(e.Thread, m.ToolCallID, parts, false); ok {
			e.Items = []projection.Item{it}
		}
	case "":
		r.fault("an entry without a role")
	default:
		r.fault("unknown role %.40q", m.Role)
	}
	if calls := m.calls(); m.Role != "assistant" && len(calls) > 0 {
		r.skipped.Left.Calls += len(calls)
		r.fault("tool calls in a message that is not the assistant's")
	}
	if m.Role != "assistant" && m.Refusal != "" {
		r.skipped.Left.Refusals++
		r.fault("a refusal in a message that is not the assistant's")
	}
	if len(e.Items) == 0 && len(r.faults) == 0 {
		r.fault("a message without content")
	}
	return string(m.ID)
}

// calls returns the tool calls of a message, in all forms.
func (m *message) calls() []toolCall {
	if m.Function == nil {
		return m.ToolCalls
	}
	return append(slices.Clip(m.ToolCalls), *m.Function)
}

// toolCalls reads the tool calls of a message.
func (r *Reader) toolCalls(thread string, calls []toolCall) []projection.Item {
	var items []projection.Item
	for i, c := range calls {
		if c.Function != nil {
			c.Name, c.Arguments = c.Function.Name, c.Function.Arguments
		}
		if c.Custom != nil { // whose input is a text
			c.Name = c.Custom.Name
			c.Arguments, _ = json.Marshal(map[string]string{"input": c.Custom.Input}) // a text has a JSON form
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("line-%d-%d", r.line, i+1)
		}
		if it, ok := r.call(thread, c.ID, c.Name, c.Arguments); ok {
			items = append(items, it)
		}
	}
	return items
}

// maxWaiting is how many calls of a thread may wait for results: beyond it the
// oldest is given up.
const maxWaiting = 1000

// call reads a tool call and records that it waits for a result.
func (r *Reader) call(thread, id, name string, arguments json.RawMessage) (projection.Item, bool) {
	if name == "" {
		r.skipped.Left.Calls++
		r.fault("a tool call without a name")
		return projection.Item{}, false
	}
	for _, c := range r.calls[thread] {
		if c.id == id {
			r.skipped.Left.Calls++
			r.fault("a second tool call of the same id")
			return projection.Item{}, false
		}
	}
	if waiting := r.calls[thread]; len(waiting) == maxWaiting {
		r.calls[thread] = slices.Delete(waiting, 0, 1)
	}
	r.calls[thread] = append(r.calls[thread], call{id, name})
	text := string(arguments)
	if len(arguments) > 0 && arguments[0] == '"' {
		json.Unmarshal(arguments, &text) // cannot fail: it stood in a decoded object
	}
	if text == "" || text == "null" {
		text = "{}"
	}
	return projection.Call(id, name, text), true
}

// result reads the result of a tool call; one without an id answers the oldest
// call without a result.
func (r *Reader) result(thread, id string, parts []projection.Part, failed bool) (projection.Item, bool) {
	waiting := r.calls[thread]
	for i, c := range waiting {
		if c.id == id || id == "" {
			r.calls[thread] = append(waiting[:i:i], waiting[i+1:]...)
			if parts == nil {
				parts = []projection.Part{{Type: projection.TextPart}}
			}
			return projection.Item{
				Kind: projection.ToolResult, CallID: c.id, Name: c.name, Parts: parts, Failed: failed,
			}, true
		}
	}
	r.skipped.Left.Results++
	r.fault("a tool result without a call that waits for it")
	return projection.Item{}, false
}

// time parses RFC 3339, or seconds or milliseconds since 1970.
func (r *Reader) time(raw json.RawMessage) time.Time {
	if len(raw) == 0 || string(raw) == "null" {
		return time.Time{}
	}
	if raw[0] == '"' {
		var text string
		json.Unmarshal(raw, &text) // cannot fail: it stood in a decoded object
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t
		}
	} else if n, err := strconv.ParseFloat(string(raw), 64); err == nil && math.Abs(n) < 1e14 {
		if math.Abs(n) < 1e11 {
			n *= 1000
		}
		return time.UnixMilli(int64(n)).UTC()
	}
	r.fault("a time that is neither RFC 3339 nor seconds since 1970")
	return time.Time{}
}

// broken says what is wrong with JSON, in terms of a transcript.
func broken(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return "an entry that is no object: " + wrong.Value
		}
		return fmt.Sprintf("field %s is of the wrong type: %s", wrong.Field, wrong.Value)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || err.Error() == "unexpected end of JSON input" {
		return "JSON that breaks off"
	}
	return "no JSON: " + err.Error()
}
