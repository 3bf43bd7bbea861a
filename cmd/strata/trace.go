package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/stratamem/strata/cmd/strata/internal/otlpfile"
)

// traceFlags say where spans go.
type traceFlags struct {
	endpoint string
	file     string
	add      bool // whether to append to the file instead of truncating it
}

func (f *traceFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.endpoint, "otlp", "", "export spans to this OTLP/HTTP endpoint, such as http://localhost:4318 (also OTEL_EXPORTER_OTLP_ENDPOINT)")
	cmd.Flags().StringVar(&f.file, "trace-file", "", "write spans to this file as OTLP JSON lines")
}

// tracing is where the spans of one invocation go.
type tracing struct {
	provider trace.TracerProvider
	sdk      *sdktrace.TracerProvider // nil if tracing is off
	file     io.Closer
	warn     io.Writer
	where    string

	mu   sync.Mutex
	lost error // the first failed export
}

// flushTime bounds how long an exit waits for a collector.
const flushTime = 5 * time.Second

// startTracing begins exporting as flags and environment say. Whether anybody
// listens becomes known only when spans are sent, and is not an error then.
func startTracing(ctx context.Context, t *tool, f *traceFlags) (*tracing, error) {
	tr := &tracing{provider: noop.NewTracerProvider(), warn: t.err, where: f.endpoint}
	fromEnv := t.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") + t.env("OTEL_EXPORTER_OTLP_ENDPOINT")
	if t.env("OTEL_TRACES_EXPORTER") == "none" || strings.EqualFold(t.env("OTEL_SDK_DISABLED"), "true") {
		fromEnv = ""
	}
	if f.endpoint == "" && f.file == "" && fromEnv == "" {
		return tr, nil
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "strata"), attribute.String("service.version", buildVersion().Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	const queue = 1 << 16 // a fast run makes spans faster than they are sent
	if f.endpoint != "" || fromEnv != "" {
		send := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{})}
		if f.endpoint != "" {
			target, err := endpointURL(f.endpoint)
			if err != nil {
				return nil, &usageError{err}
			}
			send = append(send, otlptracehttp.WithEndpointURL(target))
		} else {
			tr.where = fromEnv
		}
		exporter, err := otlptracehttp.New(ctx, send...)
		if err != nil {
			return nil, fmt.Errorf("start tracing: %w", err)
		}
		opts = append(opts, sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(queue)))
	}
	if f.file != "" {
		mode := os.O_WRONLY | os.O_CREATE | os.O_APPEND
		if !f.add {
			mode |= os.O_TRUNC
		}
		file, err := os.OpenFile(f.file, mode, 0o600) // spans can hold what was said
		if err != nil {
			return nil, fmt.Errorf("open trace file: %w", err)
		}
		tr.file = file
		opts = append(opts, sdktrace.WithBatcher(otlpfile.New(file), sdktrace.WithMaxQueueSize(queue)))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(tr.failed))
	tr.sdk = sdktrace.NewTracerProvider(opts...)
	tr.provider = tr.sdk
	return tr, nil
}

// endpointURL completes an endpoint to the address to which traces are sent.
func endpointURL(endpoint string) (string, error) {
	text := endpoint
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--otlp %q is not an address: use one such as http://localhost:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

func (tr *tracing) tracer() trace.Tracer {
	return tr.provider.Tracer("github.com/stratamem/strata/cmd/strata")
}

func (tr *tracing) failed(err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.lost == nil {
		tr.lost = err
	}
}

// flush sends pending spans.
func (tr *tracing) flush(ctx context.Context) {
	if tr.sdk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if err := tr.sdk.ForceFlush(ctx); err != nil {
		tr.failed(err)
	}
}

// close sends pending spans and stops, within flushTime. Spans that could not
// be sent are a warning.
func (tr *tracing) close() {
	if tr.sdk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	err := tr.sdk.Shutdown(ctx)
	if tr.file != nil {
		err = errors.Join(err, tr.file.Close())
	}
	if err != nil {
		tr.failed(err)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.lost != nil {
		where := tr.where
		if where == "" {
			where = "the trace file"
		}
		fmt.Fprintf(tr.warn, "strata: warning: spans were lost: export to %s: %s\n", where, preview(tr.lost.Error(), 300))
	}
}
