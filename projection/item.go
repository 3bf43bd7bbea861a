package projection

import (
	"strings"
	"time"
)

// Kind says what an [Item] is.
type Kind string

// The kinds of item.
const (
	Message    Kind = "message"     // text, images and files by one Role
	ToolCall   Kind = "tool_call"   // the model asks for Name with Arguments
	ToolResult Kind = "tool_result" // what the call with the same CallID returned
	Reasoning  Kind = "reasoning"   // the model's own thoughts, where a provider gives them back
)

// Role is the author of a [Message].
type Role string

// The roles of a message.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Item is one entry of a log or a view. Items are values that must not be
// modified once they are in a log, because views share them.
type Item struct {
	ID        string    `json:"id,omitempty"`
	Kind      Kind      `json:"kind"`
	Role      Role      `json:"role,omitempty"`      // of a Message
	Name      string    `json:"name,omitempty"`      // speaker of a Message, or name of a tool
	Parts     []Part    `json:"parts,omitempty"`     // of everything but tool calls
	CallID    string    `json:"call_id,omitempty"`   // of a ToolCall and its ToolResult
	Arguments string    `json:"arguments,omitempty"` // of a ToolCall, JSON
	Failed    bool      `json:"failed,omitempty"`    // of a ToolResult that reports an error
	Time      time.Time `json:"time,omitzero"`       // when it happened; set by the runtime
	Layer     string    `json:"layer,omitempty"`     // the layer it came from, if any
	// Remembered says that the item is [Data] that a layer remembered. Its role is
	// User, because models read data there, but no user said it now: it is never a
	// query.
	Remembered bool     `json:"remembered,omitempty"`
	Action     Action   `json:"action,omitempty"` // if the item is an update: what it does to the layer's earlier text
	Refs       []string `json:"refs,omitempty"`   // record keys or item ids from which it was made
}

// Action says what an update does to the text of its layer that is earlier in
// the prompt.
type Action string

// The actions of an update.
const (
	Replace Action = "replace" // forget the earlier text, this one replaces it
	Retract Action = "retract" // forget the earlier text, nothing replaces it
	Add     Action = "add"     // the earlier text holds, and so does this one
)

// PartType says what a [Part] is.
type PartType string

// The types of part.
const (
	TextPart  PartType = "text"
	ImagePart PartType = "image"
	FilePart  PartType = "file"
)

// Part is a piece of an item: text, or an image or a file by URL or by value.
type Part struct {
	Type      PartType `json:"type"`
	Text      string   `json:"text,omitempty"`
	URL       string   `json:"url,omitempty"`
	Data      []byte   `json:"data,omitempty"`
	MediaType string   `json:"media_type,omitempty"`
	Name      string   `json:"name,omitempty"`
}

// Text returns a message of role with one text part.
func Text(role Role, text string) Item {
	return Item{Kind: Message, Role: role, Parts: []Part{{Type: TextPart, Text: text}}}
}

// Call returns a tool call.
func Call(id, name, arguments string) Item {
	return Item{Kind: ToolCall, CallID: id, Name: name, Arguments: arguments}
}

// Result returns the result of the call with the given id.
func Result(id, text string) Item {
	return Item{Kind: ToolResult, CallID: id, Parts: []Part{{Type: TextPart, Text: text}}}
}

// Thought returns a reasoning item.
func Thought(text string) Item {
	return Item{Kind: Reasoning, Parts: []Part{{Type: TextPart, Text: text}}}
}

// Text returns what a model reads of the item: its text parts joined by
// newlines, or a call as name(arguments). Tokenizers count this text.
func (it *Item) Text() string {
	if it.Kind == ToolCall {
		return it.Name + "(" + it.Arguments + ")"
	}
	var first string
	n := 0
	for i := range it.Parts {
		if it.Parts[i].Type == TextPart {
			if n == 0 {
				first = it.Parts[i].Text
			}
			n++
		}
	}
	if n < 2 {
		return first
	}
	var b strings.Builder
	for i := range it.Parts {
		if it.Parts[i].Type != TextPart {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(it.Parts[i].Text)
	}
	return b.String()
}

// AppendText appends the canonical bytes of the item: a byte for its author,
// its text and other parts, and a newline.
func (it *Item) AppendText(dst []byte) []byte {
	dst = append(dst, it.marker())
	dst = append(dst, it.Text()...)
	for i := range it.Parts {
		if p := &it.Parts[i]; p.Type != TextPart {
			dst = append(dst, '\n')
			dst = append(dst, p.Type...)
			dst = append(dst, p.URL...)
			dst = append(dst, p.Data...)
		}
	}
	return append(dst, '\n')
}

// FromUser reports whether a user said it: it is a message of that role, and nothing
// that was remembered.
func (it *Item) FromUser() bool { return it.Kind == Message && it.Role == User && !it.Remembered }

// outside reports whether the item comes from outside rather than from the model.
func (it *Item) outside() bool {
	return it.Kind == ToolResult || it.Kind == Message && it.Role != Assistant
}

// marker is the byte that stands for the item's author in its canonical bytes.
func (it *Item) marker() byte {
	switch it.Kind {
	case ToolCall:
		return 'c'
	case ToolResult:
		return 'r'
	case Reasoning:
		return 't'
	}
	switch it.Role {
	case System:
		return 's'
	case Developer:
		return 'd'
	case Assistant:
		return 'a'
	}
	if it.Remembered {
		return 'm'
	}
	return 'u'
}
