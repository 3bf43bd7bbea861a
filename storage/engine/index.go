package engine

import (
	"slices"
	"strings"

	"github.com/stratamem/strata/internal/jsonvalue"
	"github.com/stratamem/strata/storage"
)

// An index entry is one key without a value in an ordered key space that the
// engine sets aside:
//
//	esc(field) 00 01 esc(value) end key
//
// esc writes the byte 00 as 00 FF, which keeps the order of values and lets no
// value reach beyond its end. end is 00 01, or 00 02 where the value was cut
// after its first 256 bytes: entries with 00 02 are candidates whose document
// must be looked at. The key of the document comes last, unescaped, so that the
// entries of one value are in key order.
const (
	maxIndexed = 256
	endWhole   = 1
	endCut     = 2
)

// MaxField is the length of the longest name of a declared field, in bytes.
const MaxField = 256

// ValidateFields returns an error unless the names may be declared with
// EnsureIndex.
func ValidateFields(names ...string) error {
	for _, name := range names {
		if name == "" {
			return &storage.InvalidError{Rule: "field name is empty"}
		}
		if len(name) > MaxField {
			return &storage.InvalidError{Rule: "field name is over 256 bytes"}
		}
	}
	return nil
}

// ValidateQuery returns an error unless all fields of q are declared.
func ValidateQuery(q storage.Query, declared []string) error {
	for _, name := range q.Fields() {
		if !slices.Contains(declared, name) {
			return &storage.InvalidError{Rule: "field " + name + " is not declared: call EnsureIndex first"}
		}
	}
	return nil
}

// Entries returns the index entries of a document for the declared fields,
// sorted and without duplicates; an empty document has none.
func Entries(key string, document []byte, declared []string) []string {
	if len(declared) == 0 || len(document) == 0 {
		return nil
	}
	var entries []string
	for name, value := range jsonvalue.Of(document).Fields(declared...) {
		entry := appendPosting(nil, name, value)
		entries = append(entries, string(append(entry, key...)))
	}
	slices.Sort(entries)
	return slices.Compact(entries)
}

// Diff returns the entries that are only in before and those only in after.
// Both must be sorted.
func Diff(before, after []string) (removed, added []string) {
	for len(before) > 0 && len(after) > 0 {
		switch c := strings.Compare(before[0], after[0]); {
		case c == 0:
			before, after = before[1:], after[1:]
		case c < 0:
			removed, before = append(removed, before[0]), before[1:]
		default:
			added, after = append(added, after[0]), after[1:]
		}
	}
	return append(removed, before...), append(added, after...)
}

// EntryKey returns the document key of an entry, and whether it is an entry.
func EntryKey(entry []byte) (string, bool) {
	_, key, _, ok := splitEntry(entry)
	return string(key), ok
}

// splitEntry splits an entry into its escaped value and its key, and reports
// whether the value was cut.
func splitEntry(entry []byte) (value, key []byte, cut, ok bool) {
	field, _ := escapedEnd(entry)
	if field < 0 {
		return nil, nil, false, false
	}
	rest := entry[field+2:]
	n, end := escapedEnd(rest)
	if n < 0 {
		return nil, nil, false, false
	}
	return rest[:n], rest[n+2:], end == endCut, true
}

// escapedEnd finds the end mark of an escaped text and returns its position and
// second byte.
func escapedEnd(b []byte) (int, byte) {
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			continue
		}
		if b[i+1] != 0xFF {
			return i, b[i+1]
		}
		i++
	}
	return -1, 0
}

// appendField appends the start of all entries of a field.
func appendField(out []byte, field string) []byte {
	return append(appendEscaped(out, field), 0, endWhole)
}

// appendPosting appends the start of all entries of a field with a value.
func appendPosting(out []byte, field, value string) []byte {
	out = appendField(out, field)
	if len(value) > maxIndexed {
		return append(appendEscaped(out, value[:maxIndexed]), 0, endCut)
	}
	return append(appendEscaped(out, value), 0, endWhole)
}

func appendEscaped(out []byte, text string) []byte {
	for i := range len(text) {
		if out = append(out, text[i]); text[i] == 0 {
			out = append(out, 0xFF)
		}
	}
	return out
}

// AddFields returns the declared fields with names added, and those that are
// new, both sorted. It does not change its arguments.
func AddFields(declared, names []string) (all, added []string) {
	for _, name := range names {
		if !slices.Contains(declared, name) && !slices.Contains(added, name) {
			added = append(added, name)
		}
	}
	slices.Sort(added)
	all = append(slices.Clone(declared), added...)
	slices.Sort(all)
	return all, added
}
