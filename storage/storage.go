// Package storage is the contract between Strata and the engines that keep its
// data: the [Adapter] interface, the optional capabilities of an engine with
// one function each, the rules for keys and values, typed errors, and scoped
// stores.
//
// It is not an engine, knows none, and keeps no registry: package
// storage/open opens an engine by name, storage/engine holds what engines
// share, storage/storagetest proves an engine, and storage/backup carries
// what a store holds elsewhere.
//
// The one decision: what the framework cannot do without is in the interface, and
// all else is a capability, a one- or two-method interface together with a package
// function whose doc says what happens when the engine lacks it. Callers call
// the function and never assert.
//
// There are two key spaces, told apart by the first byte of the key.
// Documents have keys <type>/<id>, are JSON objects, and are found by [Find].
// Records have a first segment that starts with "_", are opaque bytes, and are
// seen by Get, List and Scan only.
package storage

import (
	"context"
	"iter"
	"time"
)

// Adapter is what every engine provides, and all that the framework cannot do
// without. All methods are safe for concurrent use. Values passed in are not kept
// and values returned belong to the caller. An error that is the context's means
// that nothing changed.
//
// Keys and values that break a rule of [ValidateEntry], or one of the engine's own
// [Limits], are refused with an [*InvalidError]. The value of a document may come back as other bytes than
// were stored, as long as they are equal JSON.
type Adapter interface {
	// Get returns the value of key and its version, read together, or an error
	// that is [ErrNotFound]. A key that was deleted and stored again with another
	// value has another version.
	Get(ctx context.Context, key string) ([]byte, Version, error)
	// Apply makes all changes or none; no ops change nothing. All preconditions
	// are tested against the state before the batch, then the changes are made
	// in order, so that of two changes to a key the last one stays. Deleting an
	// absent key is not an error. A failed precondition is a [*ConflictError]
	// that names the key. The ops are those that [ValidateOps] admits, or that
	// the [Limits] of an engine with its own do. A nil
	// error means that the changes are durable at the engine's [Durability].
	Apply(ctx context.Context, ops ...Op) error
	// List yields the keys that start with prefix, in byte order. The loop
	// body may use the store: no transaction or lock is held while it runs.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Close releases the engine and waits for what it started. Calls after
	// Close return [ErrClosed]; closing twice is no error.
	Close() error
}

// Set stores value under key, replacing what was there.
func Set(ctx context.Context, a Adapter, key string, value []byte) error {
	return a.Apply(ctx, Put(key, value))
}

// Delete removes key. Deleting an absent key is not an error.
func Delete(ctx context.Context, a Adapter, key string) error {
	return a.Apply(ctx, Remove(key))
}

// Version identifies a value of one key. Versions are opaque: different values
// of a key have different versions, equal values may share one. The empty
// Version stands for "absent".
type Version string

// Entry is a key with its value and version.
type Entry struct {
	Key     string
	Value   []byte
	Version Version
}

// Op is one change of a batch: a set or a delete, with an optional
// precondition. Make one with [Put] or [Remove].
type Op struct {
	Key    string
	Value  []byte // nil with Delete
	Delete bool
	// Check reports whether If is a precondition of the whole batch.
	Check bool
	// If is the version that Key must have, when Check is set; the empty
	// Version means that Key must be absent.
	If Version
	// Made, unless nil, is where an engine may put the version of the value that
	// the op stored: what Get would give until somebody changes the key
	// again, which it spares. An engine that does not say, and a delete, leave
	// it as it is; after an error it says nothing.
	Made *Version
}

// Put returns an Op that stores value under key.
func Put(key string, value []byte) Op { return Op{Key: key, Value: value} }

// Remove returns an Op that deletes key.
func Remove(key string) Op { return Op{Key: key, Delete: true} }

// IfAbsent returns op with the precondition that its key does not exist.
func (op Op) IfAbsent() Op { return op.IfVersion("") }

// IfVersion returns op with the precondition that its key has version v. The
// empty version means absent.
func (op Op) IfVersion(v Version) Op {
	op.Check, op.If = true, v
	return op
}

// Making returns op with v as the place for the version that it makes, which is
// set to the empty one: unknown.
func (op Op) Making(v *Version) Op {
	*v, op.Made = "", v
	return op
}

// ScanOptions narrows a [Scan]. The zero value scans everything, ascending.
type ScanOptions struct {
	After   string // only keys beyond this one, in the direction of the scan
	Limit   int    // at most so many entries; 0 means no limit
	Reverse bool   // descending byte order
}

// Scanner is the capability behind [Scan].
type Scanner interface {
	// Scan yields the entries whose keys start with prefix. The loop body may
	// use the store: no transaction or lock is held while it runs. Whether it
	// sees writes made meanwhile is up to the engine.
	Scan(ctx context.Context, prefix string, opts *ScanOptions) iter.Seq2[Entry, error]
}

// Finder is the capability behind [Find] and [EnsureIndex].
type Finder interface {
	// Find yields the matching documents in key order without reading those
	// that do not match. A condition on a field that is not declared is an
	// [*InvalidError]. What q refers to must not change before the loop ends.
	Find(ctx context.Context, q Query) iter.Seq2[Entry, error]
	// EnsureIndex declares top-level fields for Find, also on a store that
	// already holds documents. Declared fields stay declared.
	EnsureIndex(ctx context.Context, fields ...string) error
}

// EventKind says what happened to a key.
type EventKind uint8

// The kinds of event.
const (
	EventSet      EventKind = iota + 1 // Key has a new value
	EventDelete                        // Key is gone
	EventOverflow                      // the reader was too slow and events were dropped: read again
)

// Event is one change seen by [Watch].
type Event struct {
	Kind EventKind
	Key  string // empty for EventOverflow
}

// Watcher is the capability behind [Watch].
type Watcher interface {
	// Watch subscribes before it returns, and delivers changes to keys with
	// the prefix that happen after that, in the order in which they were
	// made. The sequence may be ranged over once. It ends with ctx's error
	// when ctx ends and with [ErrClosed] when the store closes; until one of
	// these, or a break, the subscription is held.
	Watch(ctx context.Context, prefix string) (iter.Seq2[Event, error], error)
}

// Stats describes a store at one moment.
type Stats struct {
	Engine    string    `json:"engine"`
	Documents int64     `json:"documents"`
	Records   int64     `json:"records"`
	Bytes     int64     `json:"bytes"` // on disk, or held in memory
	Indexes   []string  `json:"indexes,omitempty"`
	Opened    time.Time `json:"opened"`
}

// Statter is the capability behind [StatsOf].
type Statter interface {
	// Stats counts without reading the store.
	Stats(ctx context.Context) (Stats, error)
}

// Fault is a piece of damage found by [Check].
type Fault struct {
	Key    string `json:"key,omitempty"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
	Repair string `json:"repair,omitempty"` // what to do about it
}

// Checker is the capability behind [Check].
type Checker interface {
	// Check reads the whole store and yields the damage it finds. An error
	// means that it could not look, not that it found something.
	Check(ctx context.Context) iter.Seq2[Fault, error]
}

// UnreadableLister is the capability behind [Unreadable].
type UnreadableLister interface {
	// Unreadable yields what stands in the place of documents whose keys start
	// with prefix and cannot be read as one: List, Scan and Find leave it out, and
	// do so without an error. A Fault has the key where one is known. What
	// may be in the place of any document, since nothing tells its type, is
	// yielded for every prefix of documents. What is sound is not read. Where an
	// engine keeps records in files as well, those that cannot be read are
	// yielded for the prefixes of records; List has their keys, and Get and Scan
	// an error.
	Unreadable(ctx context.Context, prefix string) iter.Seq2[Fault, error]
}

// Compacter is the capability behind [Compact].
type Compacter interface {
	// Compact gives back space that deleted and replaced values held.
	Compact(ctx context.Context) error
}

// Snapshotter is the capability behind [Snapshot].
type Snapshotter interface {
	// Snapshot returns the store as it is at one moment, between batches. It
	// is a store of its own, to be read and closed; writes do not reach it
	// and it may refuse its own. Closing the engine need not close it.
	Snapshot(ctx context.Context) (Adapter, error)
}

// Durability is what a nil error from a write promises.
type Durability uint8

// The levels of durability; the same in the options of every engine.
const (
	Full    Durability = iota // survives power loss; the default
	Process                   // survives the death of the process (kill -9)
	None                      // promises nothing; for tests
)
