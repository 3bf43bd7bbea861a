package storage

import "github.com/stratamem/strata/internal/jsonvalue"

// IsDocument reports whether key, which must be valid, belongs to a document
// rather than a record. It looks only at the first byte.
func IsDocument(key string) bool { return key != "" && key[0] != '_' }

// Canonical returns the form of a JSON value from which digests are computed:
// the names of objects sorted bytewise, no white space, number literals as
// written, strings with the fewest escapes (\" \\ \b \f \n \r \t, \u00xx for
// other control characters; no HTML escaping). If the value is not allowed in a
// document, the error is an [*InvalidError].
func Canonical(json []byte) ([]byte, error) {
	if rule := jsonvalue.Check(json); rule != "" {
		return nil, &InvalidError{Rule: rule}
	}
	return jsonvalue.Canonical(json), nil
}

// documentRule returns the rule for documents that value breaks, or "".
func documentRule(value []byte) string {
	if v := jsonvalue.Of(value); len(v) == 0 || !v.IsObject() {
		return "document is not a JSON object"
	}
	return jsonvalue.Check(value)
}
