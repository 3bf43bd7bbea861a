package memory

import (
	"context"
	"time"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// The slots of the ready-made layers. A lower slot comes earlier in its band.
const (
	SlotReminder       = 80
	SlotSteering       = 90
	SlotWorkingMemory  = 100
	SlotEntity         = 150
	SlotObservations   = 200
	SlotProcedural     = 250
	SlotEpisodic       = 300
	SlotRAG            = 350
	SlotSemanticRecall = 400
)

// Scope says who shares a layer's data.
type Scope = thread.Scope

// The scopes of a layer.
const (
	ScopeThread    = thread.ScopeThread    // the executions of one thread; the default
	ScopeResource  = thread.ScopeResource  // all threads of one resource, usually a person
	ScopeGlobal    = thread.ScopeGlobal    // everyone who uses the store
	ScopeExecution = thread.ScopeExecution // one execution only
)

// InitErrorPolicy says how a failing Init affects Begin.
type InitErrorPolicy uint8

// The policies for a failing Init.
const (
	InitFails    InitErrorPolicy = iota // Begin fails; the default
	InitDisables                        // the layer is skipped for the execution
)

// Timeouts limits the time of each hook of a layer. Zero means the hook's
// default, a negative value no limit.
type Timeouts struct {
	Init, Append, Recall, Delta, Store, OnSpawn, OnReturn, OnComplete, Dispose time.Duration
}

// Spec describes a layer.
type Spec struct {
	ID        string // required, unique, [a-z0-9-]+
	Name      string // for people; default the ID
	Slot      int    // order inside a band, ascending; ties keep the order given
	Scope     Scope  // default ScopeThread
	Budget    projection.Budget
	Placement projection.Placement
	// Authority is Data unless set. Instruction is for what the host or a reviewer vouches
	// for, and for nothing else: the model follows it as a system message.
	Authority   projection.Authority
	Required    bool // never cut; if it cannot fit, Project fails with ErrBudget
	Timeouts    Timeouts
	OnInitError InitErrorPolicy
	Format      int // version of the encoded state; raise it with a Migrate hook
}

// Hooks are the functions of a layer with state S. A nil hook is not called.
// Hooks read state and must not modify it: they return a [Change]. Recall and
// Store of different layers run concurrently.
//
// The Log that hooks receive is the end of the execution's log, without a gap:
// what [Memory.Begin] would read, which is at least what fits a prompt, and
// what was committed since, up to as much again. It is shared and must not be
// modified. [Execution.Earlier] reads what comes before it.
type Hooks[S any] struct {
	// Init returns the state with which an execution begins, given what is stored.
	// Without Init, that is the stored state, or the zero S.
	Init func(ctx context.Context, in *InitInput[S]) (S, error)
	// Append may replace or add to items that enter the log from outside.
	Append func(ctx context.Context, in *AppendInput[S]) ([]projection.Item, error)
	// Recall returns what the layer contributes to the prompt.
	Recall func(ctx context.Context, in *RecallInput[S]) (Recalled[S], error)
	// Delta describes the change from old to new output in fewer words, or returns
	// false to send the whole new output, which also happens if Delta fails. It is
	// called after Recall if the prompt keeps the old output in its stable prefix.
	Delta func(old, new string) (delta string, ok bool)
	// Store learns from a turn.
	Store func(ctx context.Context, in *StoreInput[S]) (Change[S], error)
	// OnSpawn decides what crosses into a child.
	OnSpawn func(ctx context.Context, in *SpawnInput[S]) (Spawned[S], error)
	// OnReturn merges a child's state and may change its result.
	OnReturn func(ctx context.Context, in *ReturnInput[S]) (Returned[S], error)
	// OnComplete learns from an execution that ends, whatever the outcome.
	OnComplete func(ctx context.Context, in *CompleteInput[S]) (Change[S], error)
	// Dispose releases what Init acquired.
	Dispose func(ctx context.Context, in *DisposeInput[S]) error

	// Clone copies a state for an update. Without Clone, a JSON round trip makes
	// the copy.
	Clone func(S) S
	// Migrate decodes a state of an older Format.
	Migrate func(format int, data []byte) (S, error)
	// Tools are functions that the model may call, made by [NewTool].
	Tools []Tool[S]
}

// InitInput is the input of Init.
type InitInput[S any] struct {
	Execution *Execution
	Records   *Records // the layer's records in this scope
	State     S        // as stored; the zero S if Found is false
	Found     bool
}

// AppendInput is the input of Append.
type AppendInput[S any] struct {
	Execution *Execution
	Records   *Records
	State     S
	Items     []projection.Item // as earlier layers left them; must not be modified

	note string
}

// Note puts a text into the turn report, with the call of this hook; the last
// Note counts. It is stored with the turn, so it must not quote the items.
func (in *AppendInput[S]) Note(text string) { in.note = text }

// RecallInput is the input of Recall.
type RecallInput[S any] struct {
	Execution *Execution
	Records   *Records
	State     S
	Log       []projection.Item // the end of the log, oldest first; see Hooks
	// Shown is what the prompt shows of the log: the end of Log, without
	// incomplete tool exchanges, preceded by the newest user message if that is
	// older. It is computed before layers recall, assuming that they contribute as
	// much as in the last prompt: in a turn that cuts history, or nearly does, the
	// prompt may show slightly more or less.
	Shown  []projection.Item
	Query  string // text of the newest user message
	Budget int    // tokens that the output may fill, wrappers included
}

// Recalled is what Recall contributes. Text is shorthand for one item. An empty
// output contributes nothing; Note may say why.
type Recalled[S any] struct {
	Text string
	// Of Items only the text, Refs and Remembered are used; the report notes other
	// fields. A Remembered item is data even if the layer's authority is Instruction.
	Items  []projection.Item
	Refs   []string // with Text: record keys or item ids it was made from
	Note   string   // for the turn report
	Change Change[S]
}

// StoreInput is the input of Store.
type StoreInput[S any] struct {
	Execution *Execution
	Records   *Records
	State     S
	New       []projection.Item // items of this turn: those from outside, then the response; in a child, its own
	Log       []projection.Item // the end of the log, New included; see Hooks
	Response  *Response         // shared by the layers, must not be modified
}

// SpawnInput is the input of OnSpawn.
type SpawnInput[S any] struct {
	Execution *Execution // of the parent
	Child     *Execution
	Records   *Records // of the parent
	State     S        // of the parent
}

// Spawned is what crosses into a child.
type Spawned[S any] struct {
	State *S                // the child's initial state; nil: none crosses
	Items []projection.Item // appended to the child's log
}

// ReturnInput is the input of OnReturn.
type ReturnInput[S any] struct {
	Execution  *Execution // of the parent
	Child      *Execution
	Records    *Records // of the parent
	State      S        // of the parent
	ChildState S
	ChildLog   []projection.Item // the end of it, as in Log for the child's own hooks
	Result     Result            // as earlier layers left it
}

// Returned is the output of OnReturn.
type Returned[S any] struct {
	Change Change[S] // of the parent's state
	Result Result
}

// CompleteInput is the input of OnComplete.
type CompleteInput[S any] struct {
	Execution *Execution
	Records   *Records
	State     S
	Log       []projection.Item // the end of the log; see Hooks
	Outcome   Outcome
}

// DisposeInput is the input of Dispose.
type DisposeInput[S any] struct {
	Execution *Execution
	State     S
}

// Change is a change that a hook wants. The zero Change changes nothing. All
// changes of a turn become durable in one atomic batch.
type Change[S any] struct {
	update func(S) S
	clear  bool
	writes []write
}

type write struct {
	key    string
	value  []byte
	delete bool
}

// Update returns a change of the state. f receives a copy of its own. It must
// be pure and quick, and may run more than once: if another execution changed
// the same state, the updates of the turn run again on the new one.
func Update[S any](f func(S) S) Change[S] { return Change[S]{update: f} }

// Clear returns a change that deletes the layer's stored state and records in
// this scope. The layer stays active, with the zero S as its state until
// something changes that; its next Init starts from nothing.
func Clear[S any]() Change[S] { return Change[S]{clear: true} }

// Put returns c with a write to the layer's records. key is relative to the
// layer's scope. value is retained until the turn is committed and must not be
// modified before. If the store does not accept the key or value, the whole
// change fails.
func (c Change[S]) Put(key string, value []byte) Change[S] {
	c.writes = append(c.writes[:len(c.writes):len(c.writes)], write{key: key, value: value})
	return c
}

// Delete returns c with the deletion of one of the layer's records.
func (c Change[S]) Delete(key string) Change[S] {
	c.writes = append(c.writes[:len(c.writes):len(c.writes)], write{key: key, delete: true})
	return c
}
