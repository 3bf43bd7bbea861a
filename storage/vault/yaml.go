package vault

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/stratamem/strata/storage"
	"gopkg.in/yaml.v3"
)

// read reads front matter. It reads each field separately, and the lines of our
// own format without a YAML parser, so that each field keeps its source. If
// that fails, because of anchors or a style that needs the whole document, it
// reads a single YAML document.
func (f *file) read(matter []byte) error {
	if f.readFields(matter) {
		return nil
	}
	f.fields, f.tail, f.clean = nil, nil, false
	return f.readWhole(matter)
}

// readFields splits the front matter where lines begin fields, and reads each
// part.
func (f *file) readFields(matter []byte) bool {
	from, begun := 0, false // in the part being collected
	comments := -1          // start of comments that belong to the next field
	flush := func(end int) bool {
		if !begun {
			return true
		}
		part := matter[from:end]
		got, ok := readPart(part)
		if !ok {
			return false
		}
		got.raw = part
		if n := len(part); n == 0 || part[n-1] != '\n' {
			got.raw = append(bytes.Clone(part), '\n')
		}
		f.fields = append(f.fields, got)
		return true
	}
	for at := 0; at < len(matter); {
		line, rest, _ := cutLine(matter[at:])
		next := len(matter) - len(rest)
		if rest == nil {
			next = len(matter)
		}
		switch {
		case len(bytes.TrimRight(line, " \t")) == 0 || line[0] == '#':
			if comments < 0 {
				comments = at
			}
		case strings.IndexByte(" \t-]}", line[0]) >= 0:
			if !begun {
				return false
			}
			comments = -1
		default:
			start := at
			if comments >= 0 {
				start = comments
			}
			if !flush(start) {
				return false
			}
			from, begun, comments = start, true, -1
		}
		at = next
	}
	end := len(matter)
	if comments >= 0 {
		end = comments
		f.tail = matter[comments:]
		if f.tail[len(f.tail)-1] != '\n' {
			f.tail = append(bytes.Clone(f.tail), '\n')
		}
	}
	f.clean = true
	return flush(end)
}

// readPart reads the lines of one field.
func readPart(part []byte) (field, bool) {
	if line, rest, _ := cutLine(part); len(rest) == 0 {
		if name, value, ok := readLine(line); ok {
			return field{name: name, value: value}, true
		}
	}
	var doc yaml.Node
	if yaml.Unmarshal(part, &doc) != nil {
		return field{}, false
	}
	fields, err := fieldsOf(&doc)
	if err != nil || len(fields) != 1 {
		return field{}, false
	}
	return fields[0], true
}

// readLine reads a field as encode writes it, and returns false for anything
// else.
func readLine(line []byte) (name string, value []byte, ok bool) {
	end := 0
	if len(line) > 0 && line[0] == '"' {
		end = quotedEnd(line)
		if end < 0 || !isJSON(line[:end]) {
			return "", nil, false
		}
		name = unquote(line[:end])
	} else {
		end = bytes.IndexByte(line, ':')
		if end < 0 || !plainField(string(line[:end])) {
			return "", nil, false
		}
		name = string(line[:end])
	}
	if !bytes.HasPrefix(line[end:], []byte(": ")) {
		return "", nil, false
	}
	value, ok = readScalar(line[end+2:])
	return name, value, ok
}

// readScalar reads a value as encode writes it.
func readScalar(in []byte) (value []byte, ok bool) {
	if len(in) == 0 {
		return nil, false
	}
	switch in[0] {
	case '"', '{':
		return in, isJSON(in)
	case '[':
		if isJSON(in) {
			return in, true
		}
		return readList(in)
	}
	switch s := string(in); {
	case s == "null", s == "true", s == "false", isNumber(s):
		return in, true
	case plainScalar(s, false):
		return appendQuoted(nil, s), true
	}
	return nil, false
}

// readList reads a flow list with plain strings in it, as encode writes it.
func readList(in []byte) ([]byte, bool) {
	if in[len(in)-1] != ']' {
		return nil, false
	}
	out := []byte{'['}
	for in = in[1 : len(in)-1]; len(in) > 0; {
		end := bytes.Index(in, []byte(", "))
		if in[0] == '"' {
			end = quotedEnd(in)
			if end < 0 || end < len(in) && !bytes.HasPrefix(in[end:], []byte(", ")) {
				return nil, false
			}
		} else if end < 0 {
			end = len(in)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		switch s := string(in[:end]); {
		case s == "null", s == "true", s == "false", isNumber(s), s != "" && s[0] == '"' && isJSON(in[:end]):
			out = append(out, s...)
		case plainScalar(s, true):
			out = appendQuoted(out, s)
		default:
			return nil, false
		}
		if end == len(in) {
			break
		}
		if in = in[end+2:]; len(in) == 0 {
			return nil, false
		}
	}
	return append(out, ']'), true
}

func quotedEnd(in []byte) int {
	for i := 1; i < len(in); i++ {
		switch in[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// isJSON reports whether in is a JSON value that a document may contain.
func isJSON(in []byte) bool {
	wrapped := make([]byte, 0, len(in)+8)
	wrapped = append(append(append(wrapped, `{"v":`...), in...), '}')
	if len(wrapped) > storage.MaxValue {
		wrapped = append(append(append(wrapped[:0], `{"v":`...), appendShort(nil, in)...), '}')
	}
	return storage.ValidateEntry("v/v", wrapped) == nil
}

// appendShort appends a value in canonical form, or as it is if it is not JSON.
func appendShort(out, in []byte) []byte {
	if short, err := storage.Canonical(in); err == nil {
		return append(out, short...)
	}
	return append(out, in...)
}

// readWhole reads the front matter as one YAML document.
func (f *file) readWhole(matter []byte) error {
	if isConflict(matter) {
		return noDocument("the front matter has an unresolved merge conflict")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(matter, &doc); err != nil {
		return noDocument("the front matter is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	fields, err := fieldsOf(&doc)
	f.fields = fields
	return err
}

// fieldsOf returns the fields of a YAML document.
func fieldsOf(doc *yaml.Node) ([]field, error) {
	if doc.Kind == 0 {
		return nil, nil // empty
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, noDocument("the front matter is no list of fields")
	}
	c := converter{left: 2 * storage.MaxValue}
	fields := make([]field, 0, len(top.Content)/2)
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, err := nameOf(top.Content[i])
		if err != nil {
			return nil, err
		}
		value, err := c.value(nil, top.Content[i+1], 0)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{name: name, value: value})
	}
	return fields, nil
}

func nameOf(n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.AliasNode:
		return nameOf(n.Alias)
	case n.Kind != yaml.ScalarNode:
		return "", noDocument("the name of a field is no string")
	case n.Tag == "!!merge":
		return "", noDocument("the front matter merges another mapping (<<)")
	}
	return n.Value, nil
}

// converter converts YAML to JSON. left bounds the expansion of aliases.
type converter struct{ left int }

func (c *converter) value(out []byte, n *yaml.Node, depth int) ([]byte, error) {
	if c.left -= len(n.Value) + 1; c.left < 0 || depth > 10_000 {
		return nil, noDocument("the front matter is too large")
	}
	var err error
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(out, n.Alias, depth+1)
	case yaml.ScalarNode:
		return scalar(out, n)
	case yaml.SequenceNode:
		if n.Tag != "!!seq" {
			return nil, noDocument("the front matter has a YAML tag that is not known")
		}
		out = append(out, '[')
		for i, e := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = c.value(out, e, depth+1); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case yaml.MappingNode:
		if n.Tag != "!!map" {
			return nil, noDocument("the front matter has a YAML tag that is not known")
		}
		out = append(out, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, err := nameOf(n.Content[i])
			if err != nil {
				return nil, err
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendQuoted(out, name), ':')
			if out, err = c.value(out, n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	}
	return nil, noDocument("the front matter has something that is no value")
}

// scalar appends what the author of a scalar meant: what is not a JSON number,
// such as a leading zero, infinity or a date, stays the text that was written.
func scalar(out []byte, n *yaml.Node) ([]byte, error) {
	if !utf8.ValidString(n.Value) {
		return nil, noDocument("the front matter is not UTF-8")
	}
	switch n.Tag {
	case "!!null":
		return append(out, "null"...), nil
	case "!!bool":
		return append(out, strings.ToLower(n.Value)...), nil
	case "!!int", "!!float":
		if isNumber(n.Value) {
			return append(out, n.Value...), nil
		}
		if number, ok := plainNumber(n); ok {
			return append(out, number...), nil
		}
		return appendQuoted(out, n.Value), nil
	case "!!str", "!!timestamp":
		return appendQuoted(out, n.Value), nil
	}
	return nil, noDocument("the front matter has a YAML tag that is not known")
}

// plainNumber writes a number that YAML spells differently from JSON.
func plainNumber(n *yaml.Node) (string, bool) {
	text := strings.TrimPrefix(n.Value, "+")
	negative := strings.HasPrefix(text, "-")
	text = strings.TrimPrefix(text, "-")
	switch {
	case len(text) > 2 && text[0] == '0' && strings.IndexByte("xXoObB", text[1]) >= 0:
		var i int64
		if n.Decode(&i) != nil {
			return "", false
		}
		return itoa(i), true
	case len(text) > 1 && text[0] == '0' && text[1] != '.':
		return "", false // more likely a code than an octal number
	}
	text = strings.ReplaceAll(text, "_", "")
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	text = strings.TrimSuffix(text, ".")
	if negative {
		text = "-" + text
	}
	return text, isNumber(text)
}
