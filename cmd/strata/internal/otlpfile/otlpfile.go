// Package otlpfile writes OpenTelemetry spans to a file as OTLP/JSON: on each
// line one object {"resourceSpans": [...]}, as the OTLP file exporter of the
// specification does, for collectors, for jq and for attaching to an issue.
//
// It is not an exporter of its own but the transport for OpenTelemetry's OTLP
// exporter, which makes the messages. It adds only what is special about OTLP's
// JSON: ids in hexadecimal, and enums as numbers.
//
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
package otlpfile

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// New returns an exporter that writes to w, one write per batch. It does not
// close w.
func New(w io.Writer) *otlptrace.Exporter {
	exporter := otlptrace.NewUnstarted(&client{w: w})
	exporter.Start(context.Background()) // cannot fail: our client has nothing to start
	return exporter
}

// client is the transport. Its methods are called concurrently.
type client struct {
	mu      sync.Mutex
	w       io.Writer
	stopped bool
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	return nil
}

// UploadTraces implements otlptrace.Client. It may modify the spans: the
// exporter makes new ones for every call.
func (c *client) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	for _, rs := range spans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				writeInHex(&s.TraceId, &s.SpanId, &s.ParentSpanId)
				for _, l := range s.Links {
					writeInHex(&l.TraceId, &l.SpanId)
				}
			}
		}
	}
	text, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	// protojson adds spaces at random, so that nobody relies on its bytes.
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	line.WriteByte('\n')

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errors.New("write spans: the exporter is shut down")
	}
	if _, err := c.w.Write(line.Bytes()); err != nil {
		return fmt.Errorf("write spans: %w", err)
	}
	return nil
}

// writeInHex replaces each id by the bytes whose base64 form, which protobuf
// writes into JSON, reads as the id in hexadecimal. Hexadecimal digits are
// base64 digits too, and ids of 8 and 16 bytes need no padding.
func writeInHex(ids ...*[]byte) {
	for _, id := range ids {
		if b, err := base64.StdEncoding.DecodeString(hex.EncodeToString(*id)); err == nil {
			*id = b
		}
	}
}
