package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// event is a line of the JSON output of demo and run. Event determines which
// fields it has.
type event struct {
	Event     string             `json:"event"`
	DB        string             `json:"db,omitempty"`        // start, done
	Layers    []string           `json:"layers,omitempty"`    // start
	Cap       int                `json:"cap,omitempty"`       // start: tokens that a prompt may have
	Thread    string             `json:"thread,omitempty"`    // of all events about one
	Execution string             `json:"execution,omitempty"` // likewise
	Number    int                `json:"number,omitempty"`    // turn: from 1, in the order of the input
	Time      time.Time          `json:"time,omitzero"`       // turn: when it was said
	Input     []said             `json:"input,omitempty"`     // turn
	Output    []said             `json:"output,omitempty"`    // turn
	Report    *memory.TurnReport `json:"report,omitempty"`    // turn
	Bytes     int                `json:"bytes,omitempty"`     // turn: of its prompt
	Reused    int                `json:"reused,omitempty"`    // turn: how many of them were also the start of the thread's previous prompt
	Elsewhere *elsewhere         `json:"elsewhere,omitempty"` // turn: what was recalled from another thread
	Process   int                `json:"process,omitempty"`   // kill
	Acked     int                `json:"acknowledged,omitempty"`
	Found     int                `json:"found,omitempty"` // resume: acknowledged turns that the store has, byte for byte
	Outcome   memory.Outcome     `json:"outcome,omitempty"`
	Totals    *totals            `json:"totals,omitempty"` // done
	Memory    []remembered       `json:"memory,omitempty"` // done
	Commands  []string           `json:"commands,omitempty"`
	Step      string             `json:"step,omitempty"`  // team: what is being done
	Lines     []string           `json:"lines,omitempty"` // team: what there is to see; the first word says what kind
}

// The events.
const (
	eventStart  = "start"
	eventBegin  = "begin"
	eventTurn   = "turn"
	eventFlight = "in-flight" // projected, not committed
	eventKill   = "kill"
	eventResume = "resume"
	eventEnd    = "end"
	eventTeam   = "team"
	eventDone   = "done"
)

// said is an item as a person would quote it.
type said struct {
	Kind projection.Kind `json:"kind"`
	Role projection.Role `json:"role,omitempty"`
	Name string          `json:"name,omitempty"`
	Text string          `json:"text"`
}

// quote quotes items, without their secrets.
func quote(items []projection.Item) []said {
	items, _ = layers.Redact(items)
	list := make([]said, 0, len(items))
	for i := range items {
		it := &items[i]
		list = append(list, said{it.Kind, it.Role, it.Name, it.Text()})
	}
	return list
}

// elsewhere is something that a layer recalled from another thread.
type elsewhere struct {
	Layer  string    `json:"layer"`
	Thread string    `json:"thread"`
	Time   time.Time `json:"time,omitzero"`
	Text   string    `json:"text"`
}

// totals sum up what was replayed.
type totals struct {
	Turns      int   `json:"turns"`
	Executions int   `json:"executions"`
	Tokens     int   `json:"tokens"` // of all prompts
	Bytes      int64 `json:"bytes"`  // of all prompts
	Reused     int64 `json:"reused"` // how many of them were also the start of the thread's previous prompt
	Largest    int   `json:"largest"`
	Degraded   int   `json:"degraded,omitempty"` // turns in which a hook failed
	Items      int   `json:"items"`              // added to the log
	Known      int   `json:"known,omitempty"`    // items of the input that were in the log already
	Other      int   `json:"other,omitempty"`    // entries of the input that are not conversation
	Faults     int   `json:"faults,omitempty"`   // broken or unacceptable parts of the input
	Unanswered int   `json:"unanswered,omitempty"`
	Redacted   int   `json:"redacted,omitempty"` // secrets in the input and in answers

	Left     transcript.Left `json:"left_out,omitzero"` // of the input, each reported with its line
	Replaced transcript.Left `json:"replaced,omitzero"` // of the input, replaced by what the endpoint's model answers
}

// eventWriter prints events as JSON lines.
func eventWriter(w io.Writer) func(*event) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(e *event) error { return enc.Encode(e) }
}
