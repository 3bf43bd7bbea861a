package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/cmd/strata/internal/otlptest"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// runTree is the tree of a run of one turn; operations on stores are left out.
const runTree = `strata run
  begin
  turn
    project
      append secrets
      recall instructions
      recall working-memory
      recall observations
      recall episodic
      recall semantic-recall
    commit
      store transcript
      store working-memory
      store observations
      store episodic
      store semantic-recall
  end
    on-complete observations
    on-complete episodic
    dispose episodic
    dispose observations
`

// outline writes a tree with siblings that run at once in the order of layers.
func outline(roots []*otlptest.Span) string {
	order := []string{"transcript", "instructions", "working-memory", "observations", "episodic", "semantic-recall"}
	rank := func(s *otlptest.Span) int {
		_, layer, _ := strings.Cut(s.Name, " ")
		return slices.Index(order, layer)
	}
	var tidy func(list []*otlptest.Span) []*otlptest.Span
	tidy = func(list []*otlptest.Span) []*otlptest.Span {
		list = slices.DeleteFunc(slices.Clone(list), func(s *otlptest.Span) bool { return strings.HasSuffix(s.Name, "_memory") })
		for _, s := range list {
			s.Children = tidy(s.Children)
		}
		if len(list) > 0 && (strings.HasPrefix(list[0].Name, "recall ") || strings.HasPrefix(list[0].Name, "store ")) {
			slices.SortStableFunc(list, func(a, b *otlptest.Span) int { return rank(a) - rank(b) })
		}
		return list
	}
	return otlptest.Outline(tidy(roots))
}

func TestRunExportsSpans(t *testing.T) {
	r := otlptest.Start(t)
	status, _, errs := call(t.Context(), nil, "run", transcriptFile(t, "Hello"), "--db", "mem:", "--otlp", r.URL)
	if status != exitOK || errs != "" {
		t.Fatalf("status %d: %s", status, errs)
	}
	roots := r.Tree()
	if len(roots) == 1 && roots[0].Resource["service.name"] != "strata" {
		t.Errorf("resource %v", roots[0].Resource)
	}
	if got := outline(roots); got != runTree {
		t.Errorf("spans:\n%s\nwant:\n%s", got, runTree)
	}
}

func TestEndpointFromEnvironment(t *testing.T) {
	r := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	status, _, errs := call(t.Context(), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL}, "run", transcriptFile(t, "Hello"), "--db", "mem:")
	if status != exitOK || errs != "" || r.Requests() == 0 {
		t.Errorf("status %d, %d requests: %s", status, r.Requests(), errs)
	}
}

func TestTraceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	status, _, errs := call(t.Context(), nil, "run", transcriptFile(t, "Hello"), "--db", "mem:", "--trace-file", path)
	if status != exitOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	lines, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := otlptest.ParseLines(lines)
	if err != nil {
		t.Fatal(err)
	}
	if got := outline(roots); got != runTree {
		t.Errorf("spans:\n%s\nwant:\n%s", got, runTree)
	}
}

// A collector that is not there costs a warning and no more than a moment.
func TestUnreachableCollector(t *testing.T) {
	begun := time.Now()
	status, _, errs := call(t.Context(), nil, "run", transcriptFile(t, "Hello"), "--db", "mem:", "--otlp", "127.0.0.1:1")
	if status != exitOK || !strings.Contains(errs, "warning: spans were lost") {
		t.Errorf("status %d: %q", status, errs)
	}
	if took := time.Since(begun); took > 2*flushTime {
		t.Errorf("the exit took %s", took)
	}
}

func TestInterruptedMidTurn(t *testing.T) {
	e := startEndpoint()
	defer e.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		<-e.hanging
		cancel(errInterrupted)
	}()
	db := filepath.Join(t.TempDir(), "a.db")
	status, _, errs := call(ctx, nil, "run", transcriptFile(t, "Hello"), "--db", db, "--base-url", e.URL+"/v1", "--model", "hang")
	if status != exitInterrupted || !strings.Contains(errs, "interrupted") {
		t.Errorf("status %d: %s", status, errs)
	}
	status, out, errs := call(t.Context(), nil, "show", "runs", "--db", db)
	if status != exitOK || !strings.Contains(out, "aborted") {
		t.Errorf("status %d: %s %s", status, out, errs)
	}
}
