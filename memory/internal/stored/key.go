// Package stored defines how threads, executions and the states of layers are
// stored: keys, heads, envelopes, and the decoding of any record. It is what
// package memory, which writes them, and package thread, which reads them, have
// in common; the records themselves are types of package thread.
package stored

import (
	"strconv"

	"github.com/stratamem/strata/storage"
)

// The keys in a store. Every text is escaped, so that none can reach into
// another segment; numbers have twelve digits, so that byte order is numeric
// order.
//
//	_threads/<thread>/head                    the thread's last turn, and where its next
//	                                          projection continues
//	_threads/<thread>/turns/<turn>            one turn
//	_threads/<thread>/runs/<root>/<execution>/head, turns/<turn>
//	                                          the same of a child; root is the turn of the
//	                                          thread at which its topmost ancestor spawned
//	_runs/<execution>                         an execution: where its turns are, how far it got
//	_layers/<layer>/<kind>/<id>/state         a layer's state in one scope
//	_layers/<layer>/<kind>/<id>/base          its base, if it is stored as an addition
//	_layers/<layer>/<kind>/<id>/r<clears>/…   its records there
//
// Before format 4, where the next projection continues was a separate record,
// <lineage>/epoch. The lineage's next turn deletes it.
//
// What precedes "turns/" is a lineage. A child's lineage is below its thread,
// next to the thread's turns, so that it is deleted when the thread forgets the
// turn to which it belongs.
const (
	ThreadSpace = "_threads/"
	RunSpace    = "_runs/"
	LayerSpace  = "_layers/"
)

// ThreadLineage returns the lineage of a thread.
func ThreadLineage(thread string) string { return ThreadSpace + storage.EscapeSegment(thread) + "/" }

// ChildLineage returns the lineage of a child; see root above.
func ChildLineage(thread string, root int, execution string) string {
	return ChildrenPrefix(ThreadLineage(thread)) + Pad(root) + "/" + storage.EscapeSegment(execution) + "/"
}

// ChildrenPrefix returns the prefix of the keys of all children of a thread.
func ChildrenPrefix(lineage string) string { return lineage + "runs/" }

// TurnsPrefix returns the prefix of the keys of a lineage's turns.
func TurnsPrefix(lineage string) string { return lineage + "turns/" }

// TurnKey returns the key of a turn.
func TurnKey(lineage string, turn int) string { return lineage + "turns/" + Pad(turn) }

// EpochKey returns the key of the state with which a lineage's next projection
// continues, if that is not part of its head.
func EpochKey(lineage string) string { return lineage + "epoch" }

// HeadKey returns the key of a lineage's [Head].
func HeadKey(lineage string) string { return lineage + "head" }

// RunKey returns the key of an execution.
func RunKey(execution string) string { return RunSpace + storage.EscapeSegment(execution) }

// ScopeKey returns the prefix of a layer's data in the scope kind with an id.
// The global scope has one id; its kind distinguishes it from all others.
func ScopeKey(layer string, kind, id string) string {
	return LayerSpace + layer + "/" + kind + "/" + storage.EscapeSegment(id) + "/"
}

// StateKey returns the key of the [Envelope] in a layer's scope.
func StateKey(scope string) string { return scope + "state" }

// RecordsPrefix returns the prefix of the keys of a layer's records in a scope
// that was cleared that many times.
func RecordsPrefix(scope string, clears int) string {
	return scope + "r" + strconv.Itoa(clears) + "/"
}

const padded = 12

// Pad returns a number with leading zeros, so that keys sort by it.
func Pad(n int) string {
	var digits [padded]byte
	return string(appendPadded(digits[:0], n))
}

func appendPadded(b []byte, n int) []byte {
	for limit := 100_000_000_000; limit > max(n, 1) && limit > 1; limit /= 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, int64(n), 10)
}
