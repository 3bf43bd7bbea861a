package transcript

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/stratamem/strata/projection"
)

// block is a part of a content list, in the format of OpenAI's chat completions
// and responses, and of Anthropic's messages.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`

	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"` // an object with url, or the URL
	File     *struct {
		Data string `json:"file_data"`
		ID   string `json:"file_id"`
		Name string `json:"filename"`
	} `json:"file"`

	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Title     string          `json:"title"`
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
}

// blocks reads a content: a text, or a list of blocks.
func (r *Reader) blocks(content json.RawMessage) []block {
	if len(content) == 0 || string(content) == "null" {
		return nil
	}
	switch content[0] {
	case '"':
		var text string
		json.Unmarshal(content, &text) // cannot fail: it stood in a decoded object
		return []block{{Type: "text", Text: text}}
	case '[':
		var raws []json.RawMessage
		json.Unmarshal(content, &raws) // cannot fail either
		var list []block
		for _, raw := range raws {
			b := block{Type: "text"}
			if raw[0] == '"' {
				json.Unmarshal(raw, &b.Text)
			} else if err := json.Unmarshal(raw, &b); err != nil {
				r.fault("a part of the content: %s", broken(err))
				continue
			}
			list = append(list, b)
		}
		return list
	}
	r.fault("a content that is neither a text nor a list of parts")
	return nil
}

// content reads the content of a message by role. Tool calls, tool results and
// thoughts in it become items of their own, in order.
func (r *Reader) content(thread string, role projection.Role, name string, content json.RawMessage) []projection.Item {
	var items []projection.Item
	var parts []projection.Part
	flush := func() {
		if len(parts) > 0 {
			items = append(items, projection.Item{Kind: projection.Message, Role: role, Name: name, Parts: parts})
			parts = nil
		}
	}
	for _, b := range r.blocks(content) {
		var it projection.Item
		ok := true
		switch b.Type {
		case "thinking":
			it, ok = projection.Thought(b.Thinking), b.Thinking != ""
		case "redacted_thinking":
			ok = false // encrypted: nothing can be read
		case "tool_use":
			it, ok = r.call(thread, b.ID, b.Name, b.Input)
		case "tool_result":
			it, ok = r.result(thread, b.ToolUseID, r.parts(b.Content), b.IsError)
		default:
			if p, ok := r.part(b); ok {
				parts = append(parts, p)
			}
			continue
		}
		if ok {
			flush()
			items = append(items, it)
		}
	}
	flush()
	return items
}

// parts reads a content that cannot contain items, such as that of a tool
// result.
func (r *Reader) parts(content json.RawMessage) []projection.Part {
	var parts []projection.Part
	for _, b := range r.blocks(content) {
		if p, ok := r.part(b); ok {
			parts = append(parts, p)
		}
	}
	return parts
}

// part reads a text, an image or a file, and counts what it cannot use. An
// empty text yields nothing.
func (r *Reader) part(b block) (projection.Part, bool) {
	faults := len(r.faults)
	p, ok := r.readPart(b)
	if len(r.faults) > faults {
		switch b.Type {
		case "image_url", "input_image", "image":
			r.skipped.Left.Images++
		default:
			r.skipped.Left.Parts++
		}
	}
	return p, ok
}

func (r *Reader) readPart(b block) (projection.Part, bool) {
	switch b.Type {
	case "text", "input_text", "output_text":
		return projection.Part{Type: projection.TextPart, Text: b.Text}, b.Text != ""
	case "refusal":
		return projection.Part{Type: projection.TextPart, Text: b.Refusal}, b.Refusal != ""
	case "image_url", "input_image":
		var image struct {
			URL string `json:"url"`
		}
		if len(b.ImageURL) > 0 && b.ImageURL[0] == '"' {
			json.Unmarshal(b.ImageURL, &image.URL)
		} else {
			json.Unmarshal(b.ImageURL, &image) // if it cannot be read, there is no URL
		}
		return r.reference(projection.Part{Type: projection.ImagePart}, image.URL)
	case "file":
		if b.File == nil {
			break
		}
		p := projection.Part{Type: projection.FilePart, Name: b.File.Name}
		if b.File.Data == "" {
			return r.reference(p, b.File.ID)
		}
		return r.reference(p, b.File.Data)
	case "image", "document":
		if b.Source == nil {
			break
		}
		p := projection.Part{Type: projection.ImagePart, MediaType: b.Source.MediaType, Name: b.Title}
		if b.Type == "document" {
			p.Type = projection.FilePart
		}
		switch b.Source.Type {
		case "base64":
			return r.data(p, b.Source.Data)
		case "text":
			p.Data = []byte(b.Source.Data)
			return p, true
		}
		return r.reference(p, b.Source.URL)
	}
	r.fault("a part of unknown type %.40q", b.Type)
	return projection.Part{}, false
}

// reference reads a URL or an id; a data URL yields its data.
func (r *Reader) reference(p projection.Part, url string) (projection.Part, bool) {
	rest, isData := strings.CutPrefix(url, "data:")
	if !isData {
		if url == "" {
			r.fault("a part of type %s with neither URL nor data", p.Type)
		}
		p.URL = url
		return p, url != ""
	}
	head, data, _ := strings.Cut(rest, ",")
	mediaType, ok := strings.CutSuffix(head, ";base64")
	if !ok {
		r.fault("a data URL that is not in base64")
		return p, false
	}
	p.MediaType = mediaType
	return r.data(p, data)
}

// data decodes base64.
func (r *Reader) data(p projection.Part, text string) (projection.Part, bool) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		r.fault("a part of type %s that is not in base64", p.Type)
		return p, false
	}
	p.Data = data
	return p, true
}
