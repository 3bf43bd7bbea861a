package storage

import (
	"slices"
	"strings"

	"github.com/stratamem/strata/internal/jsonvalue"
)

// Query selects documents. All conditions must hold.
//
// The values of a field are its string, its number or boolean as written in
// the JSON, or each of those in a list; null, objects and lists inside lists
// have no value. Values compare as bytes.
type Query struct {
	Prefix string            // key prefix, for example "insight/"
	Equal  map[string]string // declared field → value; a list field matches if one element does
	Range  *Range            // at most one range on a declared string field
	Limit  int               // at most so many documents; 0 means no limit
}

// Range is a half-open interval of a field: From ≤ value < To. An empty bound
// is open. A list field matches if one element lies in it.
type Range struct {
	Field    string
	From, To string
}

// Fields returns the names of the fields that q has conditions on.
func (q Query) Fields() []string {
	names := make([]string, 0, len(q.Equal)+1)
	for name := range q.Equal {
		names = append(names, name)
	}
	if q.Range != nil && !slices.Contains(names, q.Range.Field) {
		names = append(names, q.Range.Field)
	}
	slices.Sort(names)
	return names
}

// Match reports whether the document under key satisfies q, but for its limit.
// Records match nothing.
func (q Query) Match(key string, document []byte) bool {
	if !IsDocument(key) || !strings.HasPrefix(key, q.Prefix) {
		return false
	}
	if len(q.Equal) == 0 && q.Range == nil {
		return true
	}
	open := make(map[string]bool, len(q.Equal)) // conditions not yet met
	for name := range q.Equal {
		open[name] = true
	}
	inRange := q.Range == nil
	for name, value := range jsonvalue.Of(document).Fields(q.Fields()...) {
		if want, ok := q.Equal[name]; ok && want == value {
			delete(open, name)
		}
		if q.Range != nil && name == q.Range.Field && q.Range.Contains(value) {
			inRange = true
		}
	}
	return len(open) == 0 && inRange
}

// Contains reports whether value lies in r.
func (r Range) Contains(value string) bool {
	return r.From <= value && (r.To == "" || value < r.To)
}
