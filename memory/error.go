package memory

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// The errors that callers branch on; test with [errors.Is]. Some have a struct
// type that carries more.
var (
	// ErrBudget means that what a view must show exceeds its cap; see
	// [projection.BudgetError].
	ErrBudget = projection.ErrBudget
	// ErrConflict means that other executions changed the same data during all
	// tries of a commit. Nothing was written; commit again.
	ErrConflict = storage.ErrConflict
	// ErrEnded means that the run has ended, or that a resumed execution had.
	ErrEnded = errors.New("execution has ended")
	// ErrUnknownExecution means that the store has nothing of an execution: it
	// never committed, or was pruned.
	ErrUnknownExecution = thread.ErrUnknownExecution
	// ErrPruned means that a turn, or one that it refers to, is no longer kept.
	ErrPruned = thread.ErrPruned
	// ErrClosed means that the memory was closed.
	ErrClosed = errors.New("memory is closed")
	// ErrUnknownTool means that no active layer has a tool of that name.
	ErrUnknownTool = errors.New("unknown tool")
	// ErrStateModified means that a hook modified a state that it may only read;
	// see Options.VerifyStates.
	ErrStateModified = errors.New("hook modified its state")
)

// PanicError is the error of a hook that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// TimeoutError is the error of a hook that did not return in time. What it
// returns later is discarded.
type TimeoutError struct {
	Timeout time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("timeout after %s", e.Timeout) }

// HookError adds the layer and the hook to the cause of a failure.
type HookError struct {
	Layer string
	Hook  string
	Err   error
}

func (e *HookError) Error() string { return fmt.Sprintf("%s %s: %v", e.Hook, e.Layer, e.Err) }

// Unwrap returns the cause.
func (e *HookError) Unwrap() error { return e.Err }

// IdentityError says which part of an [Identity] cannot be used.
type IdentityError struct {
	Field  string
	Reason string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("begin execution: %s %s", e.Field, e.Reason)
}

// ItemError says which of the given items cannot be accepted. None was.
type ItemError struct {
	Index  int
	Reason string
}

func (e *ItemError) Error() string { return fmt.Sprintf("take item %d: %s", e.Index, e.Reason) }

// FormatError means that a record was written by a newer version of the layer
// or of this package. The record is left unchanged.
type FormatError = thread.FormatError

// ArgumentsError says that the arguments of a tool call do not match its schema,
// in words that a model can act on.
type ArgumentsError struct {
	Tool string
	Err  error
}

func (e *ArgumentsError) Error() string { return fmt.Sprintf("call %s: arguments: %v", e.Tool, e.Err) }

// Unwrap returns the cause.
func (e *ArgumentsError) Unwrap() error { return e.Err }
