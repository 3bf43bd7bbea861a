package layers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Notes is the state of [WorkingMemory]: a JSON object of sections.
//
// An entry is a value directly below a section, or a section that is not an
// object. Touched holds when each entry was last changed, in milliseconds since
// 1970, under "section" or "section/key" (with "~1" for "/" and "~0" for "~",
// as in a JSON pointer). Deleted entries keep their time for a while, so that a
// late event does not restore them. Sources holds, under the same names, the id
// of the item from which an entry was last learned.
type Notes struct {
	Sections map[string]any    `json:"sections,omitempty"`
	Touched  map[string]int64  `json:"touched,omitempty"`
	Sources  map[string]string `json:"sources,omitempty"`
	Backlog  backlog           `json:"backlog,omitzero"`
}

const (
	maxNoteDepth = 16  // levels of a patch
	maxTombs     = 256 // times kept of deleted entries
	maxNoteList  = 500 // elements of a list
)

// clone returns a copy that shares no memory with n.
func (n Notes) clone() Notes {
	n.Sections, _ = cloneValue(n.Sections).(map[string]any)
	n.Touched = maps.Clone(n.Touched)
	n.Sources = maps.Clone(n.Sources)
	return n
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = cloneValue(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = cloneValue(e)
		}
		return c
	}
	return v
}

// size returns what the limit bounds: the bytes of the sections as JSON.
func (n *Notes) size() int {
	data, err := json.Marshal(n.Sections)
	if err != nil { // sections came from decoded JSON
		return 0
	}
	return len(data)
}

// checkPatch returns patch as JSON would decode it, with tidied texts, or an
// error that says why it is invalid.
func checkPatch(patch map[string]any, limit int) (map[string]any, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	if len(data) > limit {
		return nil, fmt.Errorf("check patch: %d bytes are over the limit of %d for all notes", len(data), limit)
	}
	var clean map[string]any
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&clean); err != nil {
		return nil, fmt.Errorf("decode patch: %w", err)
	}
	if depth(clean) > maxNoteDepth {
		return nil, fmt.Errorf("check patch: nested over %d levels deep", maxNoteDepth)
	}
	if _, ok := clean[""]; ok {
		return nil, errors.New("check patch: a section has no name")
	}
	return clean, nil
}

func depth(v any) int {
	d := 0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			d = max(d, depth(e))
		}
		return d + 1
	case []any:
		for _, e := range v {
			d = max(d, depth(e))
		}
		return d + 1
	}
	return 0
}

// merge merges patch into n. Objects merge, null deletes, a list takes in the
// elements that it lacks or is replaced by one that begins with null, and any
// other value replaces the previous one. A late patch, learned only after a
// failure, does not replace or delete what was touched since. from is the item
// from which the patch was learned, or nil if it came from a tool.
func (n *Notes) merge(patch map[string]any, from *Event, late bool) {
	var at time.Time
	source := ""
	if from != nil {
		at, source = from.Time, from.ID
	}
	stamp := max(at.UnixMilli(), 0)
	if !late {
		for _, t := range n.Touched {
			stamp = max(stamp, t) // clocks differ, but what is merged now is the newest
		}
	}
	if n.Sections == nil {
		n.Sections = make(map[string]any)
	}
	if n.Touched == nil {
		n.Touched = make(map[string]int64)
	}
	m := merging{n, stamp, source}
	for section, v := range patch {
		old, had := n.Sections[section]
		oldObject, wasObject := old.(map[string]any)
		newObject, isObject := v.(map[string]any)
		if isObject && had && !wasObject {
			path := entryPath(section)
			if stamp < n.Touched[path] {
				continue
			}
			n.Touched[path], had = stamp, false
		}
		switch {
		case isObject && (wasObject || !had):
			if oldObject == nil {
				oldObject = make(map[string]any)
			}
			for key, v := range newObject {
				m.entry(oldObject, key, entryPath(section, key), v)
			}
			if len(oldObject) == 0 {
				delete(n.Sections, section)
			} else {
				n.Sections[section] = oldObject
			}
		case wasObject: // deleted or replaced as a whole
			for key := range oldObject {
				m.entry(oldObject, key, entryPath(section, key), nil)
			}
			if len(oldObject) == 0 {
				delete(n.Sections, section)
				m.entry(n.Sections, section, entryPath(section), v)
			}
		default:
			m.entry(n.Sections, section, entryPath(section), v)
		}
	}
	n.bury()
}

// merging is one call of merge.
type merging struct {
	*Notes
	stamp  int64
	source string
}

// entry sets one entry of in, which is the sections or one of them.
func (n merging) entry(in map[string]any, key, path string, v any) {
	old, had := in[key]
	touched, known := n.Touched[path]
	older := known && n.stamp < touched
	if !had && older {
		return // deleted since
	}
	if v == nil {
		if had && !older {
			delete(in, key)
			n.Touched[path] = n.stamp
		}
		return
	}
	merged := mergeValue(old, v, had && older)
	if merged == nil {
		delete(in, key)
	} else {
		in[key] = merged
	}
	n.Touched[path] = max(n.stamp, touched)
	switch {
	case older:
	case n.source == "":
		delete(n.Sources, path)
	case n.Sources == nil:
		n.Notes.Sources = map[string]string{path: n.source}
	default:
		n.Sources[path] = n.source
	}
}

// mergeValue merges v into old; a nil result means that it is deleted. If older
// is set, old wins any conflict.
func mergeValue(old, v any, older bool) any {
	switch v := v.(type) {
	case map[string]any:
		o, ok := old.(map[string]any)
		switch {
		case !ok && old != nil && older:
			return old
		case !ok:
			o = make(map[string]any, len(v))
		}
		for key, e := range v {
			if e == nil {
				if !older {
					delete(o, key)
				}
			} else if m := mergeValue(o[key], e, older); m != nil {
				o[key] = m
			} else {
				delete(o, key)
			}
		}
		if len(o) == 0 {
			return nil
		}
		return o
	case []any:
		o, ok := old.([]any)
		if !ok && old != nil && older {
			return old
		}
		if len(v) > 0 && v[0] == nil && !older {
			o = nil
		}
		for _, e := range v {
			if e != nil && !slices.ContainsFunc(o, func(x any) bool { return reflect.DeepEqual(x, e) }) {
				o = append(o, e)
			}
		}
		if len(o) == 0 {
			return nil
		}
		return o[max(len(o)-maxNoteList, 0):]
	}
	if old != nil && older {
		return old
	}
	return v
}

// entryPath returns the path of an entry in Touched.
func entryPath(names ...string) string {
	for i, name := range names {
		if strings.ContainsAny(name, "~/") {
			names[i] = pointer.Replace(name)
		}
	}
	return strings.Join(names, "/")
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// bury forgets the times of deleted entries, except the newest.
func (n *Notes) bury() {
	there := make(map[string]bool)
	for _, e := range n.entries() {
		there[e.path] = true
	}
	var tombs []string
	for path := range n.Touched {
		if !there[path] {
			tombs = append(tombs, path)
		}
	}
	for path := range n.Sources {
		if !there[path] {
			delete(n.Sources, path)
		}
	}
	if len(tombs) <= maxTombs {
		return
	}
	slices.SortFunc(tombs, func(a, b string) int {
		return cmp.Or(cmp.Compare(n.Touched[b], n.Touched[a]), cmp.Compare(a, b))
	})
	for _, path := range tombs[maxTombs:] {
		delete(n.Touched, path)
	}
}

// entry is one entry of notes; key is empty for a section that is not an
// object.
type entry struct {
	section, key, path string
	value              any
}

// entries returns all entries, sorted by section and key.
func (n *Notes) entries() []entry {
	var list []entry
	for _, section := range slices.Sorted(maps.Keys(n.Sections)) {
		object, ok := n.Sections[section].(map[string]any)
		if !ok {
			list = append(list, entry{section: section, path: entryPath(section), value: n.Sections[section]})
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			list = append(list, entry{section, key, entryPath(section, key), object[key]})
		}
	}
	return list
}

// oldestFirst sorts entries by when they were touched.
func (n *Notes) oldestFirst(list []entry) {
	slices.SortStableFunc(list, func(a, b entry) int {
		return cmp.Compare(n.Touched[a.path], n.Touched[b.path])
	})
}

// shrink drops entries, those touched longest ago first, until n is within the
// limit. If one list alone exceeds it, the list loses its first elements.
func (n *Notes) shrink(limit int) {
	size := n.size()
	if size <= limit {
		return
	}
	list := n.entries()
	n.oldestFirst(list)
	for _, e := range list[:len(list)-1] {
		if size = n.size(); size <= limit {
			return
		}
		n.remove(e)
	}
	last := list[len(list)-1]
	for n.size() > limit {
		elements, ok := last.value.([]any)
		n.remove(last)
		if !ok || len(elements) < 2 {
			return
		}
		last.value = elements[(len(elements)+7)/8:]
		n.mergeOne(last)
	}
}

// remove deletes an entry and, if it was the last one, its section.
func (n *Notes) remove(e entry) {
	if object, ok := n.Sections[e.section].(map[string]any); ok && e.key != "" {
		if delete(object, e.key); len(object) > 0 {
			return
		}
	}
	delete(n.Sections, e.section)
}

// mergeOne restores an entry.
func (n *Notes) mergeOne(e entry) {
	if e.key == "" {
		n.Sections[e.section] = e.value
		return
	}
	n.Sections[e.section] = map[string]any{e.key: e.value}
}

// lines formats entries: one line for each value, as path: value, so that each
// line makes sense by itself.
func lines(list []entry) []string {
	var out []string
	for _, e := range list {
		path := line(e.section, 80)
		if e.key != "" {
			path += "." + line(e.key, 120)
		}
		out = appendLines(out, path, e.value)
	}
	return out
}

func appendLines(out []string, path string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = appendLines(out, path+"."+line(key, 120), v[key])
		}
		return out
	case []any:
		for _, e := range v {
			out = appendLines(out, path, e)
		}
		return out
	case string:
		return append(out, path+": "+line(v, 2000))
	}
	data, err := json.Marshal(v)
	if err != nil {
		return out
	}
	return append(out, path+": "+string(data))
}
