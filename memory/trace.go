package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/projection"
)

const scopeName = "github.com/stratamem/strata/memory"

// Names of spans, attributes and instruments. A phase's span is called begin,
// project, commit, spawn, return or end. Below it, a hook's span is called
// "<hook> <layer>", for example "recall working-memory", and a store
// operation's span has the name in its gen_ai.operation.name.
const (
	attrExecution = attribute.Key("strata.execution")
	attrDepth     = attribute.Key("strata.depth")
	attrTurn      = attribute.Key("strata.turn")
	attrTokens    = attribute.Key("strata.tokens")
	attrLayer     = attribute.Key("strata.layer")
	attrHook      = attribute.Key("strata.hook")
	attrStatus    = attribute.Key("strata.status")
	attrSlot      = attribute.Key("strata.slot")
	attrScope     = attribute.Key("strata.scope")
	attrItems     = attribute.Key("strata.items")
	attrAllocated = attribute.Key("strata.budget.allocated")
	attrUsed      = attribute.Key("strata.budget.used")
	attrYielded   = attribute.Key("strata.budget.yielded")
	attrError     = attribute.Key("error.type")
	attrStack     = attribute.Key("exception.stacktrace")

	attrConversation = attribute.Key("gen_ai.conversation.id")
	attrOperation    = attribute.Key("gen_ai.operation.name")
	attrStore        = attribute.Key("gen_ai.memory.store.id")
	attrRecord       = attribute.Key("gen_ai.memory.record.id")
	attrCount        = attribute.Key("gen_ai.memory.record.count")
	attrQuery        = attribute.Key("gen_ai.memory.query.text")
)

// tracing makes the spans and metrics of one memory.
type tracing struct {
	provider  trace.TracerProvider // nil: whatever the global one is
	tracer    trace.Tracer
	content   bool // whether error texts, stacks and queries may be recorded
	tokens    metric.Int64Histogram
	hookTime  metric.Float64Histogram
	dropped   metric.Int64Counter
	conflicts metric.Int64Counter
}

func newTracing(tp trace.TracerProvider, mp metric.MeterProvider) (*tracing, error) {
	t := &tracing{provider: tp}
	t.tracer = t.current().Tracer(scopeName)
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	switch strings.ToLower(os.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")) {
	case "true", "1", "span_only", "span_and_event":
		t.content = true
	}
	meter := mp.Meter(scopeName)
	var errs [4]error
	t.tokens, errs[0] = meter.Int64Histogram("strata.projection.tokens",
		metric.WithUnit("{token}"), metric.WithDescription("Tokens of a projected view."))
	t.hookTime, errs[1] = meter.Float64Histogram("strata.hook.duration",
		metric.WithUnit("s"), metric.WithDescription("Time of one hook call."))
	t.dropped, errs[2] = meter.Int64Counter("strata.items.dropped",
		metric.WithUnit("{item}"), metric.WithDescription("Items that left history or did not fit a view."))
	t.conflicts, errs[3] = meter.Int64Counter("strata.commit.conflicts",
		metric.WithUnit("{conflict}"), metric.WithDescription("Commits tried again because another execution came first."))
	return t, errors.Join(errs[:]...)
}

// current returns the provider to which spans go at present.
func (t *tracing) current() trace.TracerProvider {
	if t.provider != nil {
		return t.provider
	}
	return otel.GetTracerProvider()
}

// phase begins the span of a phase. recording is false if tracing is off; then
// nothing below it is traced either.
func (t *tracing) phase(ctx context.Context, name string, r *Run) (_ context.Context, span trace.Span, recording bool) {
	provider := t.current()
	if r.untraced.is(provider) {
		return ctx, noSpan, false
	}
	ctx, span = t.tracer.Start(ctx, name)
	r.untraced.note(provider, span)
	if recording = span.IsRecording(); recording {
		span.SetAttributes(attrExecution.String(r.id), attrDepth.Int(r.family.depth), attrConversation.String(r.who.Thread))
	}
	return ctx, span, recording
}

// untraced is the provider that makes no spans for a run, if that is known. It is
// not asked again, which saves three allocations each time.
type untraced struct{ provider trace.TracerProvider }

func (u *untraced) is(p trace.TracerProvider) bool { return u.provider != nil && u.provider == p }

// note takes a span without a context to show that its provider makes none.
func (u *untraced) note(p trace.TracerProvider, span trace.Span) {
	if !span.SpanContext().IsValid() && reflect.TypeOf(p).Comparable() {
		u.provider = p
	}
}

// noSpan is a span that nobody sees.
var noSpan = trace.SpanFromContext(context.Background())

// endPhase ends a phase's span.
func (t *tracing) endPhase(span trace.Span, err error) {
	if span.IsRecording() {
		t.fail(span, err)
	}
	span.End()
}

// hook begins the span of a hook call. endHook ends it, when the effect of the
// hook's output is known.
func (t *tracing) hook(ctx context.Context, h hook, c *cell, now time.Time) (context.Context, trace.Span) {
	s := &c.layer.spec
	return t.tracer.Start(ctx, hooks[h].name+" "+s.ID, trace.WithTimestamp(now), trace.WithAttributes(
		attrLayer.String(s.ID), attrHook.String(hooks[h].name), attrSlot.Int(s.Slot), attrScope.String(string(c.kind))))
}

func (t *tracing) endHook(span trace.Span, end time.Time, rep *HookReport, use *projection.LayerUse) {
	span.SetAttributes(attrStatus.String(string(rep.Status)), attrItems.Int(rep.Items))
	if use != nil {
		span.SetAttributes(attrAllocated.Int(use.Allocated), attrUsed.Int(use.Used), attrYielded.Int(use.Yielded))
	}
	t.fail(span, rep.Err)
	span.End(trace.WithTimestamp(end))
}

// fail marks a span as failed. Unless content may be recorded, it gives only
// the type of the error.
func (t *tracing) fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	span.SetAttributes(attrError.String(errorType(err)))
	if !t.content {
		span.SetStatus(codes.Error, "")
		return
	}
	span.SetStatus(codes.Error, err.Error())
	var p *PanicError
	if errors.As(err, &p) {
		span.SetAttributes(attrStack.String(string(p.Stack)))
	}
}

// errorType names an error: a sentinel or typed error in the chain by its
// meaning, any other by its Go type.
func errorType(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, ErrConflict):
		return "conflict"
	case errors.Is(err, ErrBudget):
		return "budget"
	}
	var p *PanicError
	var d *TimeoutError
	switch {
	case errors.As(err, &p):
		return "panic"
	case errors.As(err, &d):
		return "timeout"
	}
	return fmt.Sprintf("%T", err)
}

// operation is the span of a store operation, or empty.
type operation struct {
	t    *tracing
	span trace.Span
}

// search begins the span of a read, if its caller is being traced.
func (t *tracing) search(ctx context.Context, store, record string) (context.Context, operation) {
	return t.operation(ctx, "search_memory", store, record)
}

func (t *tracing) operation(ctx context.Context, name, store, record string) (context.Context, operation) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, operation{}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		attrOperation.String(name), attrStore.String(strings.TrimSuffix(store, "/"))))
	if record != "" {
		span.SetAttributes(attrRecord.String(record))
	}
	return ctx, operation{t, span}
}

// end ends the span of an operation that concerned n records.
func (o operation) end(n int, err error) {
	if o.span == nil {
		return
	}
	o.span.SetAttributes(attrCount.Int(n))
	o.t.fail(o.span, err)
	o.span.End()
}

// measureHook records how long a hook took.
func (t *tracing) measureHook(ctx context.Context, rep *HookReport) {
	t.hookTime.Record(ctx, rep.Took.Seconds(), metric.WithAttributes(
		attrLayer.String(rep.Layer), attrHook.String(rep.Hook), attrStatus.String(string(rep.Status))))
}

// measureView records the size of a view and what was left out of it.
func (t *tracing) measureView(ctx context.Context, v *projection.View, from int) {
	if t.tokens.Enabled(ctx) {
		t.tokens.Record(ctx, int64(v.Tokens))
	}
	if !t.dropped.Enabled(ctx) {
		return
	}
	if n := v.History.From - from; n > 0 {
		t.dropped.Add(ctx, int64(n))
	}
	for i := range v.Layers {
		if n := v.Layers[i].Trimmed + v.Layers[i].Skipped; n > 0 {
			t.dropped.Add(ctx, int64(n), metric.WithAttributes(attrLayer.String(v.Layers[i].Layer)))
		}
	}
}
