package otlpfile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/cmd/strata/internal/otlpfile"
	"github.com/stratamem/strata/cmd/strata/internal/otlptest"
)

// record makes three spans.
func record(t *testing.T, exporters ...sdktrace.SpanExporter) {
	t.Helper()
	ctx := context.Background()
	var opts []sdktrace.TracerProviderOption
	for _, e := range exporters {
		opts = append(opts, sdktrace.WithSyncer(e))
	}
	provider := sdktrace.NewTracerProvider(opts...)
	tracer := provider.Tracer("test")
	ctx, project := tracer.Start(ctx, "project", trace.WithAttributes(attribute.Int("strata.turn", 7)))
	_, notes := tracer.Start(ctx, "recall", trace.WithAttributes(
		attribute.String("strata.layer", "notes"),
		attribute.StringSlice("refs", []string{"a", "b"}),
		attribute.Float64("share", 0.5),
		attribute.Bool("cut", true)))
	notes.AddEvent("trimmed", trace.WithAttributes(attribute.Int("items", 2)))
	notes.End()
	_, facts := tracer.Start(ctx, "recall", trace.WithAttributes(attribute.String("strata.layer", "facts")),
		trace.WithLinks(trace.Link{SpanContext: notes.SpanContext()}))
	facts.SetStatus(codes.Error, "timeout")
	facts.End()
	project.End()
	if err := provider.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

// The file holds the spans that a receiver is sent.
func TestFileAndReceiverAgree(t *testing.T) {
	receiver := otlptest.Start(t)
	remote, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(receiver.URL+"/v1/traces"),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	record(t, otlpfile.New(&lines), remote)
	written, err := otlptest.ParseLines(lines.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(receiver.Tree(), written); diff != "" {
		t.Errorf("the file differs from what was sent (-sent +written):\n%s", diff)
	}
	want := "project 7\n  recall notes\n  recall facts\n"
	if got := otlptest.Outline(written, "strata.turn", "strata.layer"); got != want {
		t.Errorf("tree:\n%swant:\n%s", got, want)
	}
	facts := written[0].Children[1]
	if facts.Kind != "internal" || facts.Status != "error" || facts.Message != "timeout" {
		t.Errorf("span %+v", facts)
	}
	if receiver.Requests() != 3 {
		t.Errorf("%d requests, want one for each span", receiver.Requests())
	}
}

// The specification's own: lowerCamelCase, hexadecimal ids, enums as numbers,
// 64-bit integers as strings; one object a line.
func TestEncoding(t *testing.T) {
	var out bytes.Buffer
	record(t, otlpfile.New(&out))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3", len(lines))
	}
	for _, name := range []string{"resourceSpans", "scopeSpans", "traceId", "parentSpanId", "startTimeUnixNano"} {
		if !strings.Contains(lines[1], `"`+name+`":`) {
			t.Errorf("no %s in %s", name, lines[1])
		}
	}
	var line struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID string
					Kind                          int
					StartTimeUnixNano             string
					Status                        struct{ Code int }
					Links                         []struct{ TraceID, SpanID string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(lines[1]), &line); err != nil {
		t.Fatal(err)
	}
	s := line.ResourceSpans[0].ScopeSpans[0].Spans[0]
	for _, id := range []struct {
		name, value string
		length      int
	}{
		{"traceId", s.TraceID, 32}, {"spanId", s.SpanID, 16}, {"parentSpanId", s.ParentSpanID, 16},
		{"links.traceId", s.Links[0].TraceID, 32}, {"links.spanId", s.Links[0].SpanID, 16},
	} {
		if len(id.value) != id.length || strings.Trim(id.value, "0123456789abcdef") != "" {
			t.Errorf("%s is %q, want %d hexadecimal digits", id.name, id.value, id.length)
		}
	}
	if s.Kind != 1 || s.Status.Code != 2 || s.StartTimeUnixNano == "" {
		t.Errorf("kind %d, status %d, start %q", s.Kind, s.Status.Code, s.StartTimeUnixNano)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestErrors(t *testing.T) {
	ctx := context.Background()
	spans := sdktrace.NewTracerProvider()
	_, span := spans.Tracer("test").Start(ctx, "project")
	ended := []sdktrace.ReadOnlySpan{span.(sdktrace.ReadOnlySpan)}
	if err := otlpfile.New(fullDisk{}).ExportSpans(ctx, ended); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a full disk: error %v", err)
	}
	exporter := otlpfile.New(&bytes.Buffer{})
	if err := exporter.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := exporter.ExportSpans(ctx, ended); err == nil || !strings.Contains(err.Error(), "shut down") {
		t.Errorf("after the end: error %v", err)
	}
}
