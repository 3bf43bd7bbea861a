package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage/search"
)

// talk is data of three turns: an assistant's with one more word than the user's.
func talk() []locomo.Conversation {
	say := func(id, speaker, text string) search.Doc { return search.Doc{ID: id, Speaker: speaker, Text: text} }
	return []locomo.Conversation{{ID: "1", Turns: []search.Doc{
		say("1", "user", "My friend Amalia moved to Zurich with 250 books in 2024."),
		say("2", "assistant", "Then Amalia has 250 books to unpack in Zurich."),
		say("3", "user", "We decided to help her on 14 March."),
		say("4", "assistant", "That is kind. 3 of the boxes are heavy."),
	}}}
}

var lifeMetrics = []string{
	"project_p50", "project_p99", "commit_p50", "commit_p99", "applied", "file_ratio", "heap",
	"text", "ops", "cpu", "allocs", "bytes", "begin", "end",
}

// TestReady pins that every figure comes out, on every engine.
func TestReady(t *testing.T) {
	dir := t.TempDir()
	var said []string
	r, err := bench.Ready(t.Context(), &bench.ReadyOptions{
		Data: talk(), Turns: 10, Window: 4, Live: 4, Dir: dir, Progress: func(name string) { said = append(said, name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	metrics := lifeMetrics
	if runtime.GOOS == "linux" {
		metrics = append(slices.Clone(metrics), "wchar")
	}
	cases := []string{"live/bolt/4"}
	for _, engine := range bench.ReadyEngines {
		for _, n := range []int{4, 8, 10} {
			cases = append(cases, fmt.Sprintf("ready/%s/%d", engine, n))
		}
	}
	for _, name := range cases {
		for _, metric := range metrics {
			v, ok := r.Value(name, metric)
			// The heap may come to nothing, and no thread end in a window.
			if zero := metric == "heap" || metric == "wchar" || metric == "end"; !ok || v < 0 || v == 0 && !zero {
				t.Errorf("%s of %s is %v, %t", metric, name, v, ok)
			}
		}
		// What was applied is that of the layers and of the runtime.
		var parts float64
		for _, row := range r.Rows {
			if strings.HasPrefix(row.Case, name+"/") && row.Unit == "B" {
				parts += row.Value
			}
		}
		if all, _ := r.Value(name, "applied"); all-parts > 1e-6 || parts-all > 1e-6 {
			t.Errorf("%s applied %v bytes a turn, its parts %v", name, all, parts)
		}
		for _, layer := range []string{"working-memory", "entity", "observations", "episodic", "semantic-recall"} {
			for _, phase := range []string{"project", "commit"} {
				if v, ok := r.Value(name+"/"+layer, phase); !ok || v <= 0 {
					t.Errorf("%s of %s/%s is %v, %t", phase, name, layer, v, ok)
				}
			}
		}
		if v, ok := r.Value(name+"/turns", "records"); !ok || v <= 0 {
			t.Errorf("turn records of %s are %v, %t", name, v, ok)
		}
	}
	if v, _ := r.Value("ready/bolt/10", "wchar"); runtime.GOOS == "linux" && v == 0 {
		t.Error("bolt is given to no write call")
	}
	if _, ok := r.Value("turn/mem/200", "p50"); !ok {
		t.Error("there is no case for the speed of the machine")
	}
	want := []string{"turn/mem/200", "ready/mem", "ready/bolt", "ready/badger", "ready/vault", "live/bolt"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files stay behind: %v, %v", left, err)
	}
	var js bytes.Buffer
	if err := r.WriteJSON(&js); err != nil || !json.Valid(js.Bytes()) {
		t.Errorf("JSON: %v", err)
	}
}

// TestReadyOutput compares the tables of windows and shares with golden files.
func TestReadyOutput(t *testing.T) {
	r := &bench.Report{Suite: "turn-ready", Commit: "abc", Go: "go1.26", CPU: "CPU × 2"}
	add := func(name string, values ...any) {
		for i := 0; i < len(values); i += 2 {
			r.Rows = append(r.Rows, bench.Row{Case: name, Metric: values[i].(string), Value: values[i+1].(float64)})
		}
	}
	add("turn/mem/200", "p50", 56.0, "p99", 149.0)
	for _, name := range []string{"ready/mem/1000", "ready/mem/2000", "live/bolt/500"} {
		add(name, "project_p50", 1234.0, "project_p99", 5678.0, "commit_p50", 432.1, "commit_p99", 999.0, "applied", 42000.0,
			"file_ratio", 3.96, "heap", 12.3e6, "cpu", 1700.0, "allocs", 4321.0, "bytes", 654_321.0)
		add(name+"/entity", "project", 0.61, "commit", 0.25, "state", 40.0, "records", 1600.0)
		add(name+"/turns", "records", 18_000.0)
	}
	for name, write := range map[string]func(io.Writer) error{"ready.txt": r.WriteText, "ready.md": r.WriteMarkdown} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
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

func TestReadyRefuses(t *testing.T) {
	for says, o := range map[string]*bench.ReadyOptions{
		`engine "redis" is not known: use some of mem, bolt, badger, vault`: {Engines: []string{"redis"}},
		"no/such/directory":     {Dir: "no/such/directory"},
		"the data has no turns": {Data: []locomo.Conversation{{ID: "1"}}},
	} {
		if _, err := bench.Ready(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error that says %s", o, err, says)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := bench.Ready(ctx, &bench.ReadyOptions{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files stay behind: %v, %v", left, err)
	}
}

// BenchmarkReady is for profiles: an iteration is a turn of a life that begins
// anew. STRATA_DATA names the data; without it the generated agent works.
//
//	STRATA_DATA=chats.json go test -run '^$' -bench Ready/bolt -benchtime 3000x -cpuprofile cpu.out ./bench
func BenchmarkReady(b *testing.B) {
	var data []locomo.Conversation
	if path := os.Getenv("STRATA_DATA"); path != "" {
		var err error
		if data, err = locomo.Load(path); err != nil {
			b.Fatal(err)
		}
	}
	for _, engine := range bench.ReadyEngines {
		b.Run(engine, func(b *testing.B) {
			b.ReportAllocs()
			if err := bench.Play(b.Context(), engine, data, b.N); err != nil {
				b.Fatal(err)
			}
		})
	}
}
