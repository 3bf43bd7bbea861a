package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"go.opentelemetry.io/otel/attribute"

	"github.com/stratamem/strata/internal/appendjson"
)

// Tool is a function of a layer with state S that the model may call. Make one
// with [NewTool].
type Tool[S any] struct {
	tool
}

// tool is a [Tool] without its types.
type tool struct {
	name        string
	description string
	input       *jsonschema.Resolved
	output      *jsonschema.Resolved
	err         error
	call        func(ctx context.Context, c *toolCall) (result json.RawMessage, ch change, err error)
}

// toolCall is the input of a tool.
type toolCall struct {
	tool    *tool
	name    string // with the layer's prefix
	x       *Execution
	records *Records
	state   any
	args    json.RawMessage
}

// ToolInput is what a tool receives besides its arguments.
type ToolInput[S any] struct {
	Execution *Execution
	Records   *Records
	State     S
}

// NewTool makes a tool from a function. In and Out are structs. Their JSON
// Schemas are inferred (a `jsonschema` tag describes a field); arguments are
// validated against In's before the call, and the result against Out's after
// it. The model knows the tool as <layer id>_<name>.
//
// f runs on the caller's goroutine, concurrently with other tools and hooks.
// Its change is visible to whatever runs next and becomes durable with the next
// Commit. An error of f is addressed to the model.
func NewTool[S, In, Out any](name, description string, f func(ctx context.Context, in *ToolInput[S], args In) (Out, Change[S], error)) Tool[S] {
	t := tool{name: name, description: description}
	var errs [2]error
	t.input, errs[0] = schemaOf[In]()
	t.output, errs[1] = schemaOf[Out]()
	t.err = errors.Join(errs[:]...)
	if f == nil {
		t.err = errors.Join(t.err, errors.New("no function"))
	}
	t.call = func(ctx context.Context, c *toolCall) (json.RawMessage, change, error) {
		var args In
		if err := c.tool.decode(c.args, &args); err != nil {
			return nil, change{}, &ArgumentsError{Tool: c.name, Err: err}
		}
		out, ch, err := f(ctx, &ToolInput[S]{Execution: c.x, Records: c.records, State: as[S](c.state)}, args)
		if err != nil {
			return nil, change{}, err
		}
		data, err := json.Marshal(out)
		if err == nil {
			err = validate(c.tool.output, data)
		}
		if err != nil {
			return nil, change{}, fmt.Errorf("call %s: result: %w", c.name, err)
		}
		return data, forget(ch), nil
	}
	return Tool[S]{t}
}

func schemaOf[T any]() (*jsonschema.Resolved, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	if s.Type != "object" {
		var zero T
		return nil, fmt.Errorf("%T is no JSON object", zero)
	}
	return s.Resolve(nil)
}

func validate(schema *jsonschema.Resolved, data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return schema.Validate(v)
}

// decode validates arguments and decodes them.
func (t *tool) decode(data json.RawMessage, args any) error {
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	if err := validate(t.input, data); err != nil {
		return err
	}
	return json.Unmarshal(data, args)
}

const maxToolName = 64

// fault returns what is wrong with the tool of a layer.
func (t *tool) fault(layer string) error {
	full := layer + "_" + t.name
	if t.call == nil {
		return errors.New("not made by NewTool")
	}
	if t.name == "" {
		return errors.New("name is empty")
	}
	if len(full) > maxToolName {
		return fmt.Errorf("name %q has over %d bytes", full, maxToolName)
	}
	for i := range len(full) {
		if c := full[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("name %q is not of [A-Za-z0-9_-]", full)
		}
	}
	return t.err
}

// toolAt is a tool with the index of its layer.
type toolAt struct {
	layer int
	tool  *tool
}

// addTools registers the tools of a layer.
func (m *Memory) addTools(i int, fault func(error)) {
	l := &m.layers[i]
	for j := range l.tools {
		name := l.spec.ID + "_" + l.tools[j].name
		if first, ok := m.tools[name]; ok {
			fault(fmt.Errorf("layer %s: tool %q is also one of layer %s", l.spec.ID, name, m.layers[first.layer].spec.ID))
			continue
		}
		m.tools[name] = toolAt{i, &l.tools[j]}
	}
}

// toolText is the text of the tools on which a prefix epoch depends.
func (m *Memory) toolText() string {
	var b strings.Builder
	b.WriteString(m.opts.Tools)
	for i := range m.layers {
		for j := range m.layers[i].tools {
			t := &m.layers[i].tools[j]
			b.WriteString("\n" + m.layers[i].spec.ID + "_" + t.name + " " + t.description + " ")
			b.Write(appendjson.Value(nil, t.input.Schema()))
		}
	}
	return b.String()
}

// ToolInfo describes a tool to a model.
type ToolInfo struct {
	Name         string
	Description  string
	InputSchema  *jsonschema.Schema // not to be changed
	OutputSchema *jsonschema.Schema // not to be changed
}

// Tools returns the tools of the active layers, in the order of the layers.
func (r *Run) Tools() []ToolInfo {
	var infos []ToolInfo
	for i := range r.m.layers {
		if r.cells[i].absent != "" {
			continue
		}
		l := &r.m.layers[i]
		for j := range l.tools {
			t := &l.tools[j]
			infos = append(infos, ToolInfo{l.spec.ID + "_" + t.name, t.description, t.input.Schema(), t.output.Schema()})
		}
	}
	return infos
}

// Call calls a tool by its full name with JSON arguments and returns its JSON
// result. It may be called concurrently with itself and with other operations
// of the run. Arguments that do not match the tool's schema are an
// [*ArgumentsError], and a panic is a [*PanicError]; both are addressed to the
// model, and change nothing.
func (r *Run) Call(ctx context.Context, name string, args json.RawMessage) (_ json.RawMessage, err error) {
	at, ok := r.m.tools[name]
	if !ok || r.cells[at.layer].absent != "" {
		return nil, fmt.Errorf("call %q: %w", name, ErrUnknownTool)
	}
	if r.account.now().over {
		return nil, fmt.Errorf("call %s: %w", name, ErrEnded)
	}
	x := r.Execution()
	ctx, span := r.m.tracing.tracer.Start(ctx, "execute_tool "+name)
	if span.IsRecording() {
		span.SetAttributes(attrOperation.String("execute_tool"), attribute.String("gen_ai.tool.name", name),
			attrLayer.String(r.m.layers[at.layer].spec.ID), attrExecution.String(r.id))
		x.span = span
	}
	defer endSpan(r, span, &err)
	return r.callTool(ctx, at, name, x, args)
}

func (r *Run) callTool(ctx context.Context, at toolAt, name string, x *Execution, args json.RawMessage) (result json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("call %s: %w", name, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	c := r.cells[at.layer]
	call := &toolCall{tool: at.tool, name: name, x: x, args: args}
	r.mu.Lock()
	call.state, call.records = c.state, c.records
	r.mu.Unlock()
	result, ch, err := at.tool.call(ctx, call)
	if err != nil {
		return nil, err
	}
	if err := c.amend(ch); err != nil {
		return nil, fmt.Errorf("call %s: change: %w", name, err)
	}
	return result, nil
}
