package bench_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/bench"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// TestStorage: every case comes out, with its metrics, and nothing stays behind.
func TestStorage(t *testing.T) {
	dir := t.TempDir()
	var said []string
	r, err := bench.Storage(t.Context(), &bench.StorageOptions{
		Sizes: []int{1000}, Dir: dir, Round: time.Millisecond, Rounds: 1, Progress: func(name string) { said = append(said, name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range bench.StorageEngines {
		want := map[string]string{
			"get/1": "p50 p99 rate", "get/16": "p50 p99 rate", "list1000/1": "p50 p99 rate", "scan1000/1": "p50 p99 rate", "find1000/1": "p50 p99 rate",
			"set/1": "p50 p99 rate", "set/16": "p50 p99 rate", "apply10/1": "p50 p99 rate", "apply10/16": "p50 p99 rate",
			"set-indexed/1": "p50 p99 rate ratio", "set-indexed/16": "p50 p99 rate ratio",
		}
		if engine != "mem" {
			for name := range want {
				want[name] = "p50 p99 rate ratio"
			}
			want["set-process/1"], want["set-process/16"] = "p50 p99 rate ratio", "p50 p99 rate ratio"
			want["open/1"], want["disk/1"], want["disk-indexed/1"] = "p50 heap", "size ratio", "size ratio"
		}
		if engine == "vault" {
			want["rebuild/1"] = "p50"
		}
		for name, metrics := range want {
			for metric := range strings.FieldsSeq(metrics) {
				v, ok := r.Value(engine+"/"+name+"/1000", metric)
				if !ok || v <= 0 && metric != "heap" {
					t.Errorf("%s/%s/1000 has the %s %v, %t", engine, name, metric, v, ok)
				}
			}
		}
		if _, ok := r.Value(engine+"-direct/set/1/1000", "rate"); ok != (engine != "mem") {
			t.Errorf("%s has direct use: %t", engine, ok)
		}
	}
	if len(said) < 40 {
		t.Errorf("progress says %v", said)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files stay behind: %v, %v", left, err)
	}
}

func TestStorageRefuses(t *testing.T) {
	for says, o := range map[string]*bench.StorageOptions{
		`engine "redis" is not known: use some of bolt, badger, vault, mem`: {Engines: []string{"redis"}},
		"a store of 10 documents is too small: use 1000 or more":            {Sizes: []int{10}},
		"no/such/directory": {Dir: "no/such/directory"},
	} {
		if _, err := bench.Storage(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error that says %s", o, err, says)
		}
	}
}

// TestStorageStops: who cancels it finds no files of it.
func TestStorageStops(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := bench.Storage(ctx, &bench.StorageOptions{Engines: []string{"bolt"}, Sizes: []int{1000}, Dir: dir, Rounds: 1, Round: time.Millisecond, Progress: func(name string) {
		if strings.Contains(name, "/set/") {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files stay behind: %v, %v", left, err)
	}
}

// report is one with figures that do not change.
func report() *bench.Report {
	r := &bench.Report{Suite: "storage", Commit: "abc", Go: "go1.26", CPU: `A "fast" <CPU> × 2`}
	add := func(name string, values ...any) {
		for i := 0; i < len(values); i += 2 {
			metric := values[i].(string)
			unit := map[string]string{"ratio": "×", "rate": "1/s", "size": "B", "heap": "B", "written": "B"}[metric]
			if unit == "" {
				unit = "µs"
			}
			r.Rows = append(r.Rows, bench.Row{Case: name, Metric: metric, Value: values[i+1].(float64), Unit: unit})
		}
	}
	for _, n := range []int{10_000, 100_000} {
		at := func(name string) string { return fmt.Sprintf("%s/%d", name, n) }
		add(at("bolt/open/1"), "p50", 900.0, "heap", 2e6, "ratio", 1.2)
		add(at("bolt-direct/open/1"), "p50", 750.0, "heap", 1e6)
		add(at("bolt/disk/1"), "size", 1500.0, "ratio", 1.1)
		add(at("bolt-direct/disk/1"), "size", 1400.0)
		add(at("bolt/get/1"), "p50", 1.4, "p99", 9.0, "rate", 512345.0, "ratio", 1.31)
		add(at("bolt-direct/get/1"), "p50", 1.1, "p99", 7.0, "rate", 600000.0)
		add(at("bolt/set/1"), "p50", 210.0, "p99", 900.0, "rate", 4400.0, "ratio", 0.93, "written", 26000.0)
		add(at("bolt-direct/set/1"), "p50", 200.0, "p99", 800.0, "rate", 4700.0, "written", 25000.0)
		add(at("bolt/set-indexed/1"), "p50", 300.0, "p99", 1900.0, "rate", 2400.0, "ratio", 0.6)
		add(at("bolt/set/16"), "p50", 800.0, "p99", 2900.0, "rate", 19000.0, "ratio", 4.4)
		add(at("bolt-direct/set/16"), "p50", 3000.0, "p99", 9000.0, "rate", 4300.0)
		add(at("vault/rebuild/1"), "p50", 1.2e7)
		add(at("mem/get/1"), "p50", 0.7, "p99", 2.0, "rate", 1e6)
	}
	return r
}

// TestStorageOutput compares the tables and the page with golden files.
func TestStorageOutput(t *testing.T) {
	for name, write := range map[string]func(*bench.Report, *bytes.Buffer) error{
		"storage.txt":  func(r *bench.Report, b *bytes.Buffer) error { return r.WriteText(b) },
		"storage.md":   func(r *bench.Report, b *bytes.Buffer) error { return r.WriteMarkdown(b) },
		"storage.html": func(r *bench.Report, b *bytes.Buffer) error { return r.WriteHTML(b) },
	} {
		var got bytes.Buffer
		if err := write(report(), &got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: run with -update if this is right: %s", name, diff)
		}
	}
}

// TestPageStandsAlone: it loads nothing, and what is measured cannot act in it.
func TestPageStandsAlone(t *testing.T) {
	var b bytes.Buffer
	if err := report().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if loads := regexp.MustCompile(`(?i)https?:|src=|<script|<link|@import|url\(`).FindString(text); loads != "" {
		t.Errorf("the page has %q", loads)
	}
	if strings.Contains(text, "<CPU>") {
		t.Error("text is not escaped")
	}
	if n := strings.Count(text, `<svg viewBox=`); n != 12 || n != strings.Count(text, `role="img" aria-label="`) {
		t.Errorf("%d plots with a text", n)
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a coordinate is no number")
	}
}
