package transcript

import (
	"bytes"
	"encoding/json"
)

// window is how much of a file is examined to recognise it.
const window = 256 << 10

const unknownShape = "of no known shape: want a JSON object with role and content on each line, " +
	"a JSON array of such objects or an object that holds one as messages, or a session of Claude Code"

// recognise returns the shape of a file that begins with head, and the length
// of its byte order mark, or why it has no known shape.
func recognise(head []byte) (shape Shape, bom int, why string) {
	switch {
	case bytes.HasPrefix(head, []byte("\xFF\xFE")), bytes.HasPrefix(head, []byte("\xFE\xFF")):
		return "", 0, "text in UTF-16: convert it to UTF-8"
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		bom = 3
	}
	rest := bytes.TrimLeft(head[bom:], " \t\r\n")
	if len(rest) == 0 {
		return "", 0, "the file is empty"
	}
	if bytes.IndexByte(rest, 0) >= 0 {
		return "", 0, "a binary file, not text"
	}
	if rest[0] == '[' {
		return Messages, bom, ""
	}
	// A broken first line must not hide the shape of the others.
	for n := 0; n < 100 && len(rest) > 0; n++ {
		if shape := shapeOf(rest); shape != "" {
			return shape, bom, ""
		}
		_, rest, _ = bytes.Cut(rest, []byte("\n"))
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	return "", 0, unknownShape
}

// shapeOf examines the names in the JSON object with which text begins, as far
// as it can be read: it may be truncated.
func shapeOf(text []byte) Shape {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	typed, session := false, false
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return ""
		}
		switch name {
		case "role":
			return Lines
		case "type":
			typed = true
		case "sessionId", "uuid", "parentUuid", "leafUuid", "messageId", "isSidechain":
			session = true
		case "messages":
			if t, err := dec.Token(); err == nil && t == json.Delim('[') {
				return Messages
			}
			return ""
		}
		if typed && session {
			return ClaudeCode
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return ""
		}
	}
	return ""
}
