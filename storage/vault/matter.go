package vault

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/storage"
)

// A document's file is front matter, a fence, and the body:
//
//	---
//	title: Retries hide the cause
//	status: active
//	tags: [api, "on call"]
//	evidence: [{"run":"r1","turn":4}]
//	---
//	The text of the field body, byte for byte.
//
// The newline at the end of the file belongs to the file, not to the body:
// editors add it if it is missing. Writing adds one and reading removes one; a
// file without it is read whole. If lines end in CR LF, that is the newline.
//
// A field is one line: the name, plain or in double quotes, a colon and a
// space, and the value. Strings are plain, or in double quotes if any version
// of YAML would read them as something else; numbers keep their literal; lists
// of scalars are flow lists; objects, and lists holding lists or objects, are
// JSON. Every line is YAML, and what is in double quotes or brackets is JSON as
// well, except a list with plain strings.
//
// A body that is empty or not a string is in the front matter; no body is no
// field. In a file whose name was cut, the first field is key, the document's
// key, and a field of the document with that name, or with underscores before
// it, gets one more underscore.
//
// An update keeps the order of the fields, and the lines of unchanged fields
// with the comments before them.
const (
	fence    = "---"
	fieldKey = "key"
)

// file is the content of a document's file.
type file struct {
	fields []field // without the body, as named in the document
	body   []byte  // below the fence
	key    string  // of a file whose name was cut
	tail   []byte  // comments after the last field
	clean  bool    // whether the raw source of the fields adds up to the front matter
}

// encode writes a document, which must be valid. prev is the file that it
// replaces, or nil.
func encode(key string, document []byte, cut bool, prev *file) []byte {
	fields := members(document)
	var below []byte
	if i := slices.IndexFunc(fields, func(f field) bool { return f.name == fieldBody }); i >= 0 {
		if body, ok := text(fields[i].value); ok && body != "" {
			below = []byte(body)
			fields = slices.Delete(fields, i, i+1)
		}
	}
	out := make([]byte, 0, len(document)+len(fields)+64)
	out = append(out, fence+"\n"...)
	if cut {
		out = appendField(out, fieldKey, appendQuoted(nil, key))
	}
	if prev != nil {
		out, fields = appendKept(out, prev, fields, cut)
	}
	for _, f := range fields {
		out = appendField(out, stored(f.name, cut), f.value)
	}
	if prev != nil && prev.clean {
		out = append(out, prev.tail...)
	}
	out = append(out, fence+"\n"...)
	if len(below) > 0 {
		out = append(append(out, below...), '\n')
	}
	return out
}

// appendKept appends the fields that the file already had, in its order, and
// returns the new ones.
func appendKept(out []byte, prev *file, fields []field, cut bool) ([]byte, []field) {
	at := make(map[string]int, len(fields))
	for i, f := range fields {
		at[f.name] = i
	}
	done := make([]bool, len(fields))
	for _, old := range prev.fields {
		i, ok := at[old.name]
		if !ok || done[i] {
			continue
		}
		done[i] = true
		if prev.clean && len(old.raw) > 0 && sameJSON(old.value, fields[i].value) {
			out = append(out, old.raw...)
			continue
		}
		out = appendField(out, stored(old.name, cut), fields[i].value)
	}
	var added []field
	for i, f := range fields {
		if !done[i] {
			added = append(added, f)
		}
	}
	return out, added
}

// stored returns the name of a field in a file.
func stored(name string, cut bool) string {
	if cut && strings.TrimLeft(name, "_") == fieldKey {
		return "_" + name
	}
	return name
}

func appendField(out []byte, name string, value []byte) []byte {
	if plainField(name) {
		out = append(out, name...)
	} else {
		out = appendQuoted(out, name)
	}
	out = append(out, ':', ' ')
	return append(appendValue(out, value), '\n')
}

// plainField reports whether a name needs no quotes.
func plainField(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case i > 0 && (c >= '0' && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return name != "" && !word(name)
}

func appendValue(out, value []byte) []byte {
	switch value[0] {
	case '"':
		if s := unquote(value); plainScalar(s, false) {
			return append(out, s...)
		}
		return appendInline(out, value)
	case '[':
		if list, ok := appendList(out, value); ok {
			return list
		}
		return appendInline(out, value)
	case '{':
		return appendInline(out, value)
	}
	return append(out, value...)
}

// appendList appends a list of scalars.
func appendList(out, value []byte) ([]byte, bool) {
	out = append(out, '[')
	for i, first := 1, true; ; first = false {
		i = skipSpace(value, i)
		if value[i] == ',' {
			i = skipSpace(value, i+1)
		}
		if value[i] == ']' {
			return append(out, ']'), true
		}
		if !first {
			out = append(out, ',', ' ')
		}
		end := skipValue(value, i)
		switch e := value[i:end]; e[0] {
		case '{', '[':
			return nil, false
		case '"':
			if s := unquote(e); plainScalar(s, true) {
				out = append(out, s...)
			} else {
				out = appendQuoted(out, s)
			}
		default:
			out = append(out, e...)
		}
		i = end
	}
}

// plainScalar reports whether a string needs no quotes, as a value or, if
// inList, in a flow list. It is stricter than YAML.
func plainScalar(s string, inList bool) bool {
	if s == "" || s[len(s)-1] == ' ' || s[len(s)-1] == ':' || word(s) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(s)
	if !unicode.IsLetter(first) && first != '_' && first != '/' {
		return false
	}
	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
		case r == utf8.RuneError, r != ' ' && !unicode.IsPrint(r), r >= utf8.RuneSelf && unprintable(r):
			return false
		case inList && strings.ContainsRune(`,[]{}:?`, r): // yaml.v3 fails at "a?,"
			return false
		case r == ':' && i+1 < len(s) && s[i+1] == ' ', r == '#' && s[i-1] == ' ':
			return false
		}
	}
	return true
}

// word reports whether some version of YAML reads a plain word as something
// other than a string.
func word(s string) bool {
	if len(s) > 5 {
		return false
	}
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf":
		return true
	}
	return false
}

// errNoDocument says why a file is not a document; the text is for people.
type errNoDocument struct{ reason string }

func (e *errNoDocument) Error() string { return e.reason }

func noDocument(format string, args ...any) error {
	return &errNoDocument{fmt.Sprintf(format, args...)}
}

// decode reads a file written by encode, by a person or by another tool. If it
// cannot read something as its author meant it, it returns an error. cut says
// that the key is in the front matter.
func decode(content []byte, cut bool) (*file, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if !utf8.Valid(content) {
		return nil, noDocument("the file is not UTF-8")
	}
	matter, body, ok, err := cutMatter(content)
	if err != nil {
		return nil, err
	}
	f := &file{body: body}
	if ok {
		err = f.read(matter)
	}
	if (!ok || err != nil && !isConflict(matter)) && isConflict(content) { // over the fence, or around it
		err = noDocument("the file has an unresolved merge conflict")
	}
	if err != nil {
		return nil, err
	}
	if err := f.settle(cut); err != nil {
		return nil, err
	}
	return f, nil
}

// document returns the JSON of a file.
func (f *file) document(key string) ([]byte, error) {
	fields := f.fields
	if len(f.body) > 0 {
		fields = append(slices.Clip(fields), field{name: fieldBody, value: appendQuoted(nil, string(f.body))})
	}
	out := object(fields)
	err := storage.ValidateEntry(key, out)
	if err != nil && len(out) > storage.MaxValue {
		// The spelling of strings that YAML needs is longer than others.
		if short, canonErr := storage.Canonical(out); canonErr == nil {
			out, err = short, storage.ValidateEntry(key, short)
		}
	}
	var invalid *storage.InvalidError
	if errors.As(err, &invalid) {
		return nil, noDocument("%s", invalid.Rule)
	}
	return out, err
}

// settle undoes what a cut name does to the fields, and rejects duplicate
// fields.
func (f *file) settle(cut bool) error {
	if cut {
		i := slices.IndexFunc(f.fields, func(f field) bool { return f.name == fieldKey })
		if i < 0 {
			return noDocument("the name of the file was cut and its front matter has no key")
		}
		key, ok := text(f.fields[i].value)
		if !ok {
			return noDocument("the key in the front matter is not a string")
		}
		f.key = key
		f.fields = slices.Delete(f.fields, i, i+1)
		for i := range f.fields {
			if name := f.fields[i].name; name[:min(1, len(name))] == "_" && strings.TrimLeft(name, "_") == fieldKey {
				f.fields[i].name = name[1:]
			}
		}
	}
	seen := make(map[string]bool, len(f.fields))
	empty := -1
	for i := range f.fields {
		name := f.fields[i].name
		if seen[name] {
			return noDocument("the front matter has a field twice")
		}
		seen[name] = true
		if name != fieldBody || len(f.body) == 0 {
			continue
		}
		if string(f.fields[i].value) != `""` {
			return noDocument("there is a body in the front matter and another below it")
		}
		empty = i // someone wrote the missing body
	}
	if empty >= 0 {
		f.fields = slices.Delete(f.fields, empty, empty+1)
	}
	return nil
}

// cutMatter splits a file into its front matter and what follows.
func cutMatter(content []byte) (matter, body []byte, ok bool, err error) {
	line, rest, more := cutLine(content)
	if !more || !isFence(line) {
		return nil, cutNewline(content, true), false, nil
	}
	for start, at := len(content)-len(rest), len(content)-len(rest); more; at = len(content) - len(rest) {
		if line, rest, more = cutLine(content[at:]); isFence(line) {
			windows := bytes.HasSuffix(content[:len(content)-len(rest)], []byte("\r\n"))
			return content[start:at], cutNewline(rest, windows), true, nil
		}
	}
	return nil, nil, false, noDocument("the front matter has no end: a line with --- is missing")
}

// cutNewline removes the newline at the end of a file.
func cutNewline(body []byte, windows bool) []byte {
	body, ok := bytes.CutSuffix(body, []byte("\n"))
	if ok && windows {
		body = bytes.TrimSuffix(body, []byte("\r"))
	}
	return body
}

// cutLine returns the first line without its end, and whether one follows.
func cutLine(text []byte) (line, rest []byte, more bool) {
	before, after, ok := bytes.Cut(text, []byte{'\n'})
	if !ok {
		return text, nil, false
	}
	return bytes.TrimSuffix(before, []byte("\r")), after, true
}

func isFence(line []byte) bool {
	return bytes.HasPrefix(line, []byte(fence)) && len(bytes.TrimRight(line[len(fence):], " \t\r")) == 0
}

// isConflict reports whether a text has the conflict markers of version
// control.
func isConflict(content []byte) bool {
	state := 0
	for more := true; more; {
		var line []byte
		line, content, more = cutLine(content)
		marks := []string{"<<<<<<< ", "=======", ">>>>>>> "}
		if bytes.HasPrefix(line, []byte(marks[state])) {
			if state++; state == len(marks) {
				return true
			}
		}
	}
	return false
}
