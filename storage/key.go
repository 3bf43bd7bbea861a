package storage

import (
	"strings"
	"unicode/utf8"
)

// The limits of every engine. Larger things are refused with an
// [*InvalidError] that names the limit.
const (
	MaxKey        = 1 << 10 // bytes of a key
	MaxValue      = 8 << 20 // bytes of a value
	MaxBatch      = 1000    // ops of one Apply
	MaxBatchBytes = 8 << 20 // bytes of all keys and values of one Apply
)

// ValidateKey tells whether key may name a document or a record. Engines call
// it before they read.
//
// A key is at most [MaxKey] bytes of UTF-8: segments joined by "/", none of
// them empty, "." or "..". A document's first segment, its type, matches
// [a-z][a-z0-9-]* and is followed by at least one more; a record's starts with
// "_". [EscapeSegment] makes a segment of any text.
func ValidateKey(key string) error {
	if rule := keyRule(key); rule != "" {
		return &InvalidError{Key: key, Rule: rule}
	}
	return nil
}

// ValidateEntry tells whether key may be set to value. Engines call it before
// they write.
//
// A value is at most [MaxValue] bytes. A document's is a JSON object without
// duplicate names, lone surrogates or invalid UTF-8, nested at most 10,000 deep
// (the limit of encoding/json).
func ValidateEntry(key string, value []byte) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return &InvalidError{Key: key, Rule: "value is over 8 MiB"}
	}
	if !IsDocument(key) {
		return nil
	}
	if rule := documentRule(value); rule != "" {
		return &InvalidError{Key: key, Rule: rule}
	}
	return nil
}

// ValidateOps tells whether ops may be applied as one batch: every op by
// itself, at most [MaxBatch] of them, at most [MaxBatchBytes] together. The one
// exception to the sum is a batch of a single op, which may be as large as a
// Set.
func ValidateOps(ops []Op) error {
	if len(ops) > MaxBatch {
		return &InvalidError{Rule: "batch has over 1,000 ops"}
	}
	size := 0
	for i := range ops {
		op := &ops[i]
		if op.Delete {
			if err := ValidateKey(op.Key); err != nil {
				return err
			}
		} else if err := ValidateEntry(op.Key, op.Value); err != nil {
			return err
		}
		size += len(op.Key) + len(op.Value)
	}
	if size > MaxBatchBytes && len(ops) > 1 {
		return &InvalidError{Rule: "batch is over 8 MiB"}
	}
	return nil
}

func keyRule(key string) string {
	switch {
	case key == "":
		return "key is empty"
	case len(key) > MaxKey:
		return "key is over 1 KiB"
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
