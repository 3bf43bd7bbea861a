// Package storage is the contract between Strata and the engines that keep its
// data: the [Adapter] interface, the optional capabilities of an engine with a
// function for each, the rules for keys and values, typed errors, and scoped
// stores.
//
// It is not an engine, imports none, and keeps no registry: package
// storage/open opens an engine by name, storage/engine has what engines share,
// storage/storagetest tests an engine, and storage/backup copies what a store
// holds.
//
// The one decision: the interface has only what the framework cannot do
// without. Everything else is a capability: an interface of one or two methods
// and a package function, whose documentation says what happens if the engine
// lacks it. Callers call the function and never use a type assertion.
//
// There are two key spaces, told apart by the first byte of the key. Documents
// have keys <type>/<id>, are JSON objects, and are found by [Find]. Records
// have a first segment that starts with "_", are opaque bytes, and are visible
// only to Get, List and Scan.
package storage

import (
	"context"
	"iter"
	"time"
)

// Adapter is what every engine provides, and all that the framework cannot do
// without. All methods are safe for concurrent use. Values passed in are not
// retained, and values returned belong to the caller. If an error is the
// context's, nothing changed.
//
// Keys and values that break a rule of [ValidateEntry], or exceed the engine's
// own [Limits], are refused with an [*InvalidError]. The value of a document
// may come back as different bytes than were stored, as long as they are equal
// JSON.
type Adapter interface {
	// Get returns the value of key and its version, read together, or an error
	// that is [ErrNotFound]. A key that was deleted and stored again with a
	// different value has a different version.
	Get(ctx context.Context, key string) ([]byte, Version, error)
	// Apply makes all changes or none; no ops change nothing. All preconditions
	// are tested against the state before the batch, then the changes are made in
	// order, so of two changes to a key the last one stays. Deleting an absent key
	// is not an error. A failed precondition is a [*ConflictError] that names the
	// key. The ops must pass [ValidateOps], or [Limits.ValidateOps] if the engine
	// has its own limits. A nil error means that the changes are durable at the
	// engine's [Durability].
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
// of a key have different versions; equal values may share one. The empty
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
	// Made, unless nil, is where an engine may store the version of the value that
	// the op stored, which saves a Get: it is what Get would return until the key
	// changes again. An engine that does not do so, and a delete, leave it
	// unchanged. After an error it is meaningless.
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

// Making returns op with v as the place for the version it makes, and sets v to
// the empty version, which means unknown.
func (op Op) Making(v *Version) Op {
	*v, op.Made = "", v
	return op
}

// ScanOptions narrows a [Scan]. The zero value scans everything, ascending.
type ScanOptions struct {
	After   string // only keys beyond this one, in the direction of the scan
	Limit   int    // maximum number of entries; 0 means no limit
	Reverse bool   // descending byte order
}

// Scanner is the capability behind [Scan].
type Scanner interface {
	// Scan yields the entries whose keys start with prefix. The loop body may use
	// the store: no transaction or lock is held while it runs. Whether Scan sees
	// writes made meanwhile depends on the engine.
	Scan(ctx context.Context, prefix string, opts *ScanOptions) iter.Seq2[Entry, error]
}

// Finder is the capability behind [Find] and [EnsureIndex].
type Finder interface {
	// Find yields the matching documents in key order without reading those that
	// do not match. A condition on a field that is not declared is an
	// [*InvalidError]. What q refers to must not change until the loop ends.
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
	// Watch subscribes before it returns, and delivers the changes made after that
	// to keys with the prefix, in the order in which they were made. The sequence
	// can be ranged over once. It ends with ctx's error when ctx ends and with
	// [ErrClosed] when the store closes; until then, or until a break, the
	// subscription is held.
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
	// Check reads the whole store and yields the damage it finds. An error means
	// that it could not look, not that it found damage.
	Check(ctx context.Context) iter.Seq2[Fault, error]
}

// UnreadableLister is the capability behind [Unreadable].
type UnreadableLister interface {
	// Unreadable yields what is in the place of documents whose keys start with
	// prefix but cannot be read as a document: List, Scan and Find leave it out
	// without an error. A Fault has the key if it is known. What may be in the
	// place of any document, because nothing shows its type, is yielded for every
	// prefix of documents. Sound documents are not read. If an engine keeps
	// records in files as well, unreadable ones are yielded for the prefixes of
	// records; for these, List yields the key, and Get and Scan return an error.
	Unreadable(ctx context.Context, prefix string) iter.Seq2[Fault, error]
}

// Compacter is the capability behind [Compact].
type Compacter interface {
	// Compact reclaims the space of deleted and replaced values.
	Compact(ctx context.Context) error
}

// Snapshotter is the capability behind [Snapshot].
type Snapshotter interface {
	// Snapshot returns the store as it is at one moment, between batches. It is a
	// store of its own, to be read and closed; it does not see later writes and
	// may refuse its own. Closing the engine need not close it.
	Snapshot(ctx context.Context) (Adapter, error)
}

// Durability is what a nil error from a write promises.
type Durability uint8

// The levels of durability, the same in the options of every engine.
const (
	Full    Durability = iota // survives power loss; the default
	Process                   // survives the death of the process (kill -9)
	None                      // promises nothing; for tests
)
