package storage

import (
	"strings"
	"unicode/utf8"
)

// ValidateKey reports whether key may name a document or a record. Engines call
// it before they read.
//
// A key is at most [MaxKey] bytes of UTF-8: segments joined by "/", none of
// them empty, "." or "..". A document's first segment, its type, matches
// [a-z][a-z0-9-]* and is followed by at least one more; a record's starts with
// "_". [EscapeSegment] makes a segment of any text.
func ValidateKey(key string) error { return Limits{}.ValidateKey(key) }

// ValidateEntry reports whether key may be set to value. Engines call it before
// they write.
//
// A value is at most [MaxValue] bytes. A document's is a JSON object without
// duplicate names, lone surrogates or invalid UTF-8, nested at most 10,000 deep
// (the limit of encoding/json).
func ValidateEntry(key string, value []byte) error { return Limits{}.ValidateEntry(key, value) }

// ValidateOps reports whether ops may be applied as one batch: every op by
// itself, at most [MaxBatch] of them, at most [MaxBatchBytes] together. The one
// exception to the sum is a batch of a single op, which may be as large as a
// Set.
func ValidateOps(ops []Op) error { return Limits{}.ValidateOps(ops) }

// keyRule returns the rule that a key breaks where most bytes are allowed, or "".
func keyRule(key string, most int) string {
	switch {
	case key == "":
		return "key is empty"
	case len(key) > most:
		return "key is over " + bytesText(most)
	case !utf8.ValidString(key):
		return "key is not valid UTF-8"
	}
	first, rest, more := strings.Cut(key, "/")
	if key[0] != '_' {
		if !isType(first) {
			return `type is not [a-z][a-z0-9-]* (records start with "_")`
		}
		if !more {
			return "document key has no id after its type"
		}
	}
	for more {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		switch segment {
		case "":
			return "key has an empty segment"
		case ".", "..":
			return `key has a segment "." or ".."`
		}
	}
	return ""
}

func isType(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return s != ""
}
