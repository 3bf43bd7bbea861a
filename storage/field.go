package storage

import (
	"iter"
	"slices"
	"strings"
)

// Fields yields the values of the named top-level fields of a valid document,
// as [Query] defines them: the name and one value at a time, in the order of
// the document. A value that a list repeats is yielded as often.
func Fields(document []byte, names ...string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		s := scanner{data: document}
		s.space()
		s.pos++ // the opening brace
		for m, ok := s.next(); ok; m, ok = s.next() {
			i := slices.Index(names, string(m.name))
			if i < 0 {
				continue
			}
			if m.value[0] != '[' {
				if text, ok := scalar(m.value); ok && !yield(names[i], text) {
					return
				}
				continue
			}
			list := scanner{data: m.value, pos: 1}
			for e, ok := list.element(); ok; e, ok = list.element() {
				if text, ok := scalar(e); ok && !yield(names[i], text) {
					return
				}
			}
		}
	}
}

// scalar returns the text of a string, number or boolean.
func scalar(value []byte) (string, bool) {
	switch value[0] {
	case '"':
		return string(decode(value)), true
	case '{', '[', 'n':
		return "", false
	}
	return string(value), true
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

// Match tells whether the document under key satisfies q, but for its limit.
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
	for name, value := range Fields(document, q.Fields()...) {
		if want, ok := q.Equal[name]; ok && want == value {
			delete(open, name)
		}
		if q.Range != nil && name == q.Range.Field && q.Range.Contains(value) {
			inRange = true
		}
	}
	return len(open) == 0 && inRange
}

// Contains tells whether value lies in r.
func (r Range) Contains(value string) bool {
	return r.From <= value && (r.To == "" || value < r.To)
}
