package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxArguments is the size in bytes of the largest arguments that a condition
// can read.
const MaxArguments = 512 << 10

// maxDepth is how deep arguments may be nested.
const maxDepth = 100

// Call is a tool call that is about to be made, and what the loop knows of its
// run. Fields that do not apply stay zero.
type Call struct {
	Agent string
	Team  string
	Tool  string
	Node  Node
	// Arguments are the arguments as the model gave them, a JSON object; nil for
	// none. A condition that reads arguments which are no object cannot be
	// evaluated.
	Arguments json.RawMessage
	Time      time.Time // zero: now
	Attempt   int       // 1 is the first; 0 counts as 1
	Cost      float64   // of the run so far, in the currency in which the loop counts
	Tokens    int       // of the run so far
	// Counters are numbers of the loop's own that rules ask for by name. A rule
	// that asks for one that is not here cannot be evaluated.
	Counters map[string]float64
}

// Node is the node of an execution graph that makes the call.
type Node struct {
	ID   string `expr:"id"`
	Type string `expr:"type"`
	Name string `expr:"name"`
}

// Subject says which calls a number is of: those that agree with all of its
// fields that are not empty. The zero Subject is all calls.
type Subject struct {
	Agent string
	Tool  string
	Node  string // id
}

// Tally is what is known of the calls of a subject.
type Tally struct {
	Calls    int // begun
	Finished int // those whose outcome is known
	Failures int // those of Finished that failed
	Streak   int // failures since the last success, of all time
}

// Rates is knowledge of past calls. A [Window] is one for a process; a store of
// executions can be another. Tally returns the calls of a subject in the time
// before now, zero where nothing is known. It is called by Check, by several
// goroutines if Check is, and should answer from memory.
type Rates interface {
	Tally(of Subject, over time.Duration) Tally
}

// scope is what the conditions see of one call.
type scope struct {
	call  *Call
	rates Rates

	args    map[string]any
	argsErr error
	decoded bool

	read []reading // by the rule under evaluation
}

// reading is a number that a condition asked for.
type reading struct {
	text  string // as in the condition
	value float64
}

// env returns the variables of the language that need no computation, by name.
func (s *scope) env() map[string]any {
	if s.call.Time.IsZero() {
		s.call.Time = time.Now()
	}
	s.call.Time = s.call.Time.UTC()
	return map[string]any{
		"agent":   s.call.Agent,
		"team":    s.call.Team,
		"tool":    s.call.Tool,
		"node":    s.call.Node,
		"weekday": strings.ToLower(s.call.Time.Weekday().String()),
		scopeName: s,
	}
}

// why returns a condition that holds, with the numbers it read.
func (s *scope) why(condition string) string {
	var b strings.Builder
	b.WriteString(condition)
	for i, r := range s.read {
		b.WriteString([2]string{", where ", ", "}[min(i, 1)])
		b.WriteString(r.text + " = " + strconv.FormatFloat(r.value, 'g', 6, 64))
	}
	return b.String()
}

// arguments decodes the arguments of the call, once and when first asked for.
func (s *scope) arguments() (map[string]any, error) {
	if !s.decoded {
		s.decoded = true
		s.args, s.argsErr = decode(s.call.Arguments)
	}
	return s.args, s.argsErr
}

func (s *scope) tally(word string, over time.Duration) (Tally, error) {
	if s.rates == nil {
		return Tally{}, errors.New("no rates are given to the guard")
	}
	c := s.call
	var of Subject
	switch word {
	case "agent":
		of = Subject{Agent: c.Agent}
	case "tool":
		of = Subject{Tool: c.Tool}
	case "node":
		of = Subject{Node: c.Node.ID}
	case "call":
		of = Subject{Agent: c.Agent, Tool: c.Tool}
	}
	if of == (Subject{}) && word != "all" {
		return Tally{}, nil // a call of no node is none of the calls of a node
	}
	return s.rates.Tally(of, over), nil
}

func (s *scope) counter(name string) (float64, error) {
	n, ok := s.call.Counters[name]
	if !ok {
		return 0, errors.New("no such counter is given with the call")
	}
	return n, finite(n)
}

func finite(n float64) error {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return errors.New("the value given with the call is not a finite number")
	}
	return nil
}

// decode reads a JSON object more strictly than encoding/json: of two members
// of one name, a tool may obey the other one than the guard has seen.
func decode(raw json.RawMessage) (map[string]any, error) {
	if len(raw) > MaxArguments {
		return nil, fmt.Errorf("the arguments have %d bytes, more than %d", len(raw), MaxArguments)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments are not a JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("the arguments are more than one JSON value")
	}
	return args, nil
}

// errSyntax takes the place of the decoder's errors, which quote the arguments.
var errSyntax = errors.New("the arguments are not valid JSON")

func decodeValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, errSyntax
	}
	open, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("the arguments are nested more than %d deep", maxDepth)
	}
	if open == '{' {
		return decodeObject(d, depth)
	}
	list := []any{}
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if _, err := d.Token(); err != nil { // the closing bracket
		return nil, errSyntax
	}
	return list, nil
}

// decodeObject decodes the rest of an object.
func decodeObject(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, errSyntax
		}
		name := t.(string) // the decoder admits nothing else there
		if _, twice := object[name]; twice {
			return nil, errors.New("the arguments name a member twice")
		}
		if object[name], err = decodeValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, errSyntax
	}
	return object, nil
}
