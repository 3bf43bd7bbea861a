package memory

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/stratamem/strata/storage"
)

// The keys of this package's records. Every text is escaped, so that none can
// reach another's segment; numbers have twelve digits, so that byte order is
// numeric order.
//
//	_threads/<thread>/head                    where the thread stands
//	_threads/<thread>/epoch                   what its next projection goes on from
//	_threads/<thread>/turns/<turn>            one turn
//	_threads/<thread>/runs/<root>/<execution>/head, epoch, turns/<turn>
//	                                          the same of a child; root is the turn of the
//	                                          thread at which its topmost ancestor spawned
//	_runs/<execution>                         an execution: where its turns are, how far it got
//	_layers/<layer>/<kind>/<id>/state         a layer's state in one scope
//	_layers/<layer>/<kind>/<id>/base          what it was, if it is kept as what was added to that
//	_layers/<layer>/<kind>/<id>/r<clears>/…   its records there
//
// What stands before "turns/" is a lineage. A child's lineage lies below its
// thread, beside the thread's turns, so that it goes when the thread forgets
// the turn that it was part of.
const (
	threadSpace = "_threads/"
	runSpace    = "_runs/"
	layerSpace  = "_layers/"
)

func threadLineage(thread string) string { return threadSpace + storage.EscapeSegment(thread) + "/" }

func childLineage(thread string, root int, execution string) string {
	return threadLineage(thread) + "runs/" + pad(root) + "/" + storage.EscapeSegment(execution) + "/"
}

func turnsPrefix(lineage string) string       { return lineage + "turns/" }
func turnKey(lineage string, turn int) string { return lineage + "turns/" + pad(turn) }
func epochKey(lineage string) string          { return lineage + "epoch" }
func headKey(lineage string) string           { return lineage + "head" }
func runKey(execution string) string          { return runSpace + storage.EscapeSegment(execution) }

// scopeKey returns the prefix of a layer's data in the scope kind with an id.
// The global scope has one id; its kind keeps it apart from all others.
func scopeKey(layer string, kind Scope, id string) string {
	return layerSpace + layer + "/" + string(kind) + "/" + storage.EscapeSegment(id) + "/"
}

// scopeID says which kind and id a layer's scope has for an execution. Without
// a resource, a resource-scoped layer keeps to the thread.
func scopeID(s Scope, who *Identity, execution string) (kind Scope, id string) {
	switch {
	case s == ScopeGlobal:
		return ScopeGlobal, "all"
	case s == ScopeExecution:
		return ScopeExecution, execution
	case s == ScopeResource && who.Resource != "":
		return ScopeResource, who.Resource
	}
	return ScopeThread, who.Thread
}

const padded = 12

func pad(n int) string {
	var digits [padded]byte
	return string(appendPadded(digits[:0], n))
}

func appendPadded(b []byte, n int) []byte {
	for limit := 100_000_000_000; limit > max(n, 1) && limit > 1; limit /= 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, int64(n), 10)
}

// validate says whether ids can be used in keys, of most bytes each when escaped.
func (w *Identity) validate(most int) error {
	if w.Thread == "" {
		return &IdentityError{Field: "thread", Reason: "is empty"}
	}
	for _, id := range []struct{ field, text string }{
		{"thread", w.Thread}, {"resource", w.Resource}, {"agent", w.Agent}, {"team", w.Team},
	} {
		if err := validateID(id.field, id.text, most); err != nil {
			return err
		}
	}
	return nil
}

func validateID(field, text string, most int) error {
	if !utf8.ValidString(text) {
		return &IdentityError{Field: field, Reason: "is not valid UTF-8"}
	}
	if n := len(storage.EscapeSegment(text)); n > most {
		return &IdentityError{Field: field, Reason: fmt.Sprintf("has %d bytes when escaped, over %d", n, most)}
	}
	return nil
}
