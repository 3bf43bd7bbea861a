package memory

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/stratamem/strata/projection"
)

// A turn is encoded at every commit, so its records are written by appending.
// What is written decodes with encoding/json to the same values; a test checks
// that against encoding/json's own output.

// appendString appends text as a JSON string. Text that is not valid UTF-8 gets
// replacement characters.
func appendString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := plainPrefix(text); i < len(text); i += plainPrefix(text[i:]) {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, text[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		b = append(b, text[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(b, text[from:]...), '"')
}

// plainPrefix returns how many bytes of text, from its start, stand for
// themselves in a JSON string. It looks at eight at once.
func plainPrefix(text string) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := uint64(text[i]) | uint64(text[i+1])<<8 | uint64(text[i+2])<<16 | uint64(text[i+3])<<24 |
			uint64(text[i+4])<<32 | uint64(text[i+5])<<40 | uint64(text[i+6])<<48 | uint64(text[i+7])<<56
		quote, slash := w^'"'*ones, w^'\\'*ones
		if (w|(w-' '*ones)|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			break
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// field appends a name and a colon, after a comma unless an object just began.
func field(b []byte, name string) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func textField(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendString(field(b, name), text)
}

func intField(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(field(b, name), int64(n), 10)
}

func boolField(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(field(b, name), "true"...)
}

func timeField(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = append(field(b, name), '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func textsField(b []byte, name string, texts []string) []byte {
	if len(texts) == 0 {
		return b
	}
	b = append(field(b, name), '[')
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, t)
	}
	return append(b, ']')
}

func intsField(b []byte, name string, ns []int) []byte {
	if len(ns) == 0 {
		return b
	}
	b = append(field(b, name), '[')
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// appendItem appends an item whose time is in UTC.
func appendItem(b []byte, it *projection.Item) []byte {
	b = append(b, '{')
	b = textField(b, "id", it.ID)
	b = appendString(field(b, "kind"), string(it.Kind))
	b = textField(b, "role", string(it.Role))
	b = textField(b, "name", it.Name)
	if len(it.Parts) > 0 {
		b = append(field(b, "parts"), '[')
		for i := range it.Parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendPart(b, &it.Parts[i])
		}
		b = append(b, ']')
	}
	b = textField(b, "call_id", it.CallID)
	b = textField(b, "arguments", it.Arguments)
	b = boolField(b, "failed", it.Failed)
	b = timeField(b, "time", it.Time)
	b = textField(b, "layer", it.Layer)
	b = textField(b, "action", string(it.Action))
	b = textsField(b, "refs", it.Refs)
	return append(b, '}')
}

func appendPart(b []byte, p *projection.Part) []byte {
	b = append(b, '{')
	b = appendString(field(b, "type"), string(p.Type))
	b = textField(b, "text", p.Text)
	b = textField(b, "url", p.URL)
	if len(p.Data) > 0 {
		b = append(field(b, "data"), '"')
		b = base64.StdEncoding.AppendEncode(b, p.Data)
		b = append(b, '"')
	}
	b = textField(b, "media_type", p.MediaType)
	b = textField(b, "name", p.Name)
	return append(b, '}')
}

// appendJSON appends what encoding/json makes of a value that it can encode.
func appendJSON(b []byte, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, data...)
}

// checkTime says whether a time can be encoded.
func checkTime(t time.Time) error {
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("time has the year %d", y)
	}
	return nil
}
