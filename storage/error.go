package storage

import (
	"errors"
	"fmt"
	"time"
)

// The errors that callers branch on; test with [errors.Is]. Those with a struct
// type carry more: see there.
var (
	// ErrNotFound says that a key does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a precondition failed and nothing changed; see
	// [*ConflictError].
	ErrConflict = errors.New("precondition failed")
	// ErrInvalid says that a key, value, batch or query breaks a rule; see
	// [*InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported says that the engine lacks a capability.
	ErrUnsupported = errors.ErrUnsupported
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly says that the store or its directory cannot be written.
	ErrReadOnly = errors.New("store is read-only")
	// ErrDiskFull says that a write had no room and nothing changed.
	ErrDiskFull = errors.New("disk is full")
	// ErrLocked says that another process holds the store; see [*LockedError].
	ErrLocked = errors.New("store is locked")
	// ErrCorrupt says that stored bytes are not what was written; see
	// [*CorruptError].
	ErrCorrupt = errors.New("data is corrupt")
	// ErrFormat says that a file or directory is not this engine's; see
	// [*FormatError].
	ErrFormat = errors.New("unknown format")
	// ErrNewer says that a store or backup was written by a newer version of
	// Strata; see [*FormatError].
	ErrNewer = errors.New("format is newer than this program")
)

// KeyError adds the operation and the key to the cause of a failure.
type KeyError struct {
	Op  string // for example "get"
	Key string
	Err error
}

func (e *KeyError) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, shorten(e.Key), e.Err) }

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }

// ConflictError is an [ErrConflict] with the key whose precondition failed.
type ConflictError struct {
	Key string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("apply %q: %v", shorten(e.Key), ErrConflict)
}

// Is makes the error an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// InvalidError is an [ErrInvalid] that names the rule that was broken.
type InvalidError struct {
	Key  string // the key concerned; empty where no single key is
	Rule string // for example "value is over 8 MiB"
}

func (e *InvalidError) Error() string {
	if e.Key == "" {
		return "validate: " + e.Rule
	}
	return fmt.Sprintf("validate %q: %s", shorten(e.Key), e.Rule)
}

// Is makes the error an [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// LockedError is an [ErrLocked] that names the file and, where the system
// tells, its holder.
type LockedError struct {
	Path   string
	Holder string        // for example "process 4711 (strata)"; empty if unknown
	Waited time.Duration // how long the store was waited for
}

func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("lock %s: held by %s after waiting %s: close it there or open another file",
		e.Path, holder, e.Waited.Round(time.Millisecond))
}

// Is makes the error an [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// CorruptError is an [ErrCorrupt] that says where the damage is and what to do.
type CorruptError struct {
	Path   string // the file; empty where there is none
	Key    string // the key concerned; empty if the damage is not in one value
	Reason string
	Repair string // what to run or do; may be empty
}

func (e *CorruptError) Error() string {
	text := "read"
	if e.Path != "" {
		text += " " + e.Path
	}
	if e.Key != "" {
		text += fmt.Sprintf(" %q", shorten(e.Key))
	}
	text += ": " + ErrCorrupt.Error() + ": " + e.Reason
	if e.Repair != "" {
		text += ": " + e.Repair
	}
	return text
}

// Is makes the error an [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// FormatError is an [ErrFormat], or an [ErrNewer] if Newer is set: a file,
// directory or stream that this engine or version cannot read.
type FormatError struct {
	Path   string
	Reason string // what was found, and what to do
	Newer  bool   // written by a newer version
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return "open: " + e.Reason
	}
	return "open " + e.Path + ": " + e.Reason
}

// Is makes the error an [ErrFormat] or an [ErrNewer].
func (e *FormatError) Is(target error) bool {
	if e.Newer {
		return target == ErrNewer
	}
	return target == ErrFormat
}

// shorten keeps a refused key of any length from filling a log.
func shorten(key string) string {
	const most = 200
	if len(key) <= most {
		return key
	}
	return key[:most] + "…"
}
