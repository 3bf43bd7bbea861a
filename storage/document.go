package storage

import "github.com/stratamem/strata/internal/jsonvalue"

// IsDocument reports whether key belongs to a document rather than a record. It
// looks at the first byte only: the key is taken to be valid.
func IsDocument(key string) bool { return key != "" && key[0] != '_' }

// Canonical returns the one form of a JSON value that digests are taken of:
// the names of objects sorted by their bytes, no white space, number literals
// as they were written, strings with the fewest escapes (\" \\ \b \f \n \r \t,
// \u00xx for other control characters; no HTML escaping). It refuses with an
// [*InvalidError] what documents may not contain.
func Canonical(json []byte) ([]byte, error) {
	if rule := jsonvalue.Check(json); rule != "" {
		return nil, &InvalidError{Rule: rule}
	}
	return jsonvalue.Canonical(json), nil
}

// documentRule returns the rule that value breaks as a document, or "".
func documentRule(value []byte) string {
	if v := jsonvalue.Of(value); len(v) == 0 || !v.IsObject() {
		return "document is not a JSON object"
	}
	return jsonvalue.Check(value)
}
