// Package engine has what storage engines share: the index entries of documents
// and the plans that answer queries from them, paging for scans, group commit,
// the fan-out of changes, and the framing of stored values.
//
// It is not an engine and is not needed to use one. It is public because
// engines are also written outside this module.
//
// The one decision: an engine hands its database over as small functions and
// cursors, and this package never starts a goroutine or a timer of its own.
package engine
