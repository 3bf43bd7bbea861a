// Package otlptest receives spans in tests: a real OTLP/HTTP receiver on the
// loopback interface, and a reader of OTLP/JSON lines, which both return the
// spans as a tree.
package otlptest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Span is a finished span with its children.
type Span struct {
	TraceID, ID, ParentID string // hexadecimal; ParentID is empty at a root
	Name                  string
	Kind                  string // internal, client and so on
	Status                string // unset, ok or error
	Message               string // of an error
	Start, End            time.Time
	Attributes            map[string]any // string, bool, int64, float64, or a slice of them
	Resource              map[string]any // attributes of the sender
	Events                []Event
	Children              []*Span // by start
}

// Event is an event of a span.
type Event struct {
	Name       string
	Attributes map[string]any
}

// Receiver is an OTLP receiver. It is safe for concurrent use.
type Receiver struct {
	URL string // to export to, without a path

	mu       sync.Mutex
	spans    []*Span
	requests int
}

// Start starts a receiver that ends with the test.
func Start(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.receive)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	spans, err := decodeRequest(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.spans = append(r.spans, spans...)
	r.requests++
	r.mu.Unlock()
	answer, err := proto.Marshal(&coltracepb.ExportTraceServiceResponse{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(answer)
}

func decodeRequest(req *http.Request) ([]*Span, error) {
	if ct := req.Header.Get("Content-Type"); ct != "application/x-protobuf" {
		return nil, fmt.Errorf("receive spans: content type %q is not application/x-protobuf", ct)
	}
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		zr, err := gzip.NewReader(req.Body)
		if err != nil {
			return nil, fmt.Errorf("receive spans: %w", err)
		}
		body = zr
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("receive spans: %w", err)
	}
	var message coltracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &message); err != nil {
		return nil, fmt.Errorf("receive spans: %w", err)
	}
	return flatten(message.ResourceSpans), nil
}

// Requests returns the number of requests that arrived.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// Tree returns the roots of what was received so far, by start: spans without a
// parent, and those whose parent did not arrive.
func (r *Receiver) Tree() []*Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return tree(r.spans)
}

// ParseLines returns the tree of the spans in OTLP/JSON lines.
func ParseLines(lines []byte) ([]*Span, error) {
	var spans []*Span
	for line := range bytes.Lines(lines) {
		var data tracepb.TracesData
		if err := protojson.Unmarshal(line, &data); err != nil {
			return nil, fmt.Errorf("read spans: %w", err)
		}
		for _, rs := range data.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					if err := fromHex(&s.TraceId, &s.SpanId, &s.ParentSpanId); err != nil {
						return nil, fmt.Errorf("read spans: %w", err)
					}
				}
			}
		}
		spans = append(spans, flatten(data.ResourceSpans)...)
	}
	return tree(spans), nil
}

// fromHex converts ids, which are hexadecimal in OTLP/JSON but base64 in
// protobuf's.
func fromHex(ids ...*[]byte) error {
	for _, id := range ids {
		b, err := hex.DecodeString(base64.StdEncoding.EncodeToString(*id))
		if err != nil {
			return fmt.Errorf("an id that is not hexadecimal: %w", err)
		}
		*id = b
	}
	return nil
}

func flatten(all []*tracepb.ResourceSpans) []*Span {
	var spans []*Span
	for _, rs := range all {
		resource := attributes(rs.GetResource().GetAttributes())
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				span := &Span{
					TraceID: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), ParentID: hex.EncodeToString(s.ParentSpanId),
					Name:    s.Name,
					Kind:    strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")),
					Status:  strings.ToLower(strings.TrimPrefix(s.GetStatus().GetCode().String(), "STATUS_CODE_")),
					Message: s.GetStatus().GetMessage(),
					Start:   time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
					Attributes: attributes(s.Attributes),
					Resource:   resource,
				}
				for _, e := range s.Events {
					span.Events = append(span.Events, Event{Name: e.Name, Attributes: attributes(e.Attributes)})
				}
				spans = append(spans, span)
			}
		}
	}
	return spans
}

func attributes(list []*commonpb.KeyValue) map[string]any {
	m := make(map[string]any, len(list))
	for _, kv := range list {
		m[kv.Key] = value(kv.Value)
	}
	return m
}

func value(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_ArrayValue:
		var list []any
		for _, e := range v.ArrayValue.Values {
			list = append(list, value(e))
		}
		return list
	}
	return nil
}

// tree links copies of the spans.
func tree(spans []*Span) []*Span {
	byID := map[string]*Span{}
	var all, roots []*Span
	for _, s := range spans {
		c := *s
		byID[c.TraceID+c.ID] = &c
		all = append(all, &c)
	}
	slices.SortStableFunc(all, func(a, b *Span) int { return a.Start.Compare(b.Start) })
	for _, s := range all {
		if parent := byID[s.TraceID+s.ParentID]; parent != nil {
			parent.Children = append(parent.Children, s)
		} else {
			roots = append(roots, s)
		}
	}
	return roots
}

// Outline returns the names of a tree, one line per span, indented by depth,
// with the values of the requested attributes.
func Outline(roots []*Span, keys ...string) string {
	var b strings.Builder
	var walk func(s *Span, depth int)
	walk = func(s *Span, depth int) {
		b.WriteString(strings.Repeat("  ", depth) + s.Name)
		for _, key := range keys {
			if v, ok := s.Attributes[key]; ok {
				fmt.Fprintf(&b, " %v", v)
			}
		}
		b.WriteByte('\n')
		for _, c := range s.Children {
			walk(c, depth+1)
		}
	}
	for _, s := range roots {
		walk(s, 0)
	}
	return b.String()
}
