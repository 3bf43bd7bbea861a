package recall

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/search"
)

// Speed measures an index in a bolt file (Durability Process) that holds n
// generated turns of 5 to 40 words, in sessions of 20, for each of sizes; nil
// means 600, 10,000 and 100,000. Cases search/N, metrics: p50 and p99 of 1,000
// questions of 4 to 7 words with 10 hits and their neighbours; append, one turn
// per batch, the mean of 2,000, merging included; open, the first read; index,
// the bytes per turn without its text.
func Speed(ctx context.Context, sizes []int) (*bench.Report, error) {
	if sizes == nil {
		sizes = []int{600, 10_000, 100_000}
	}
	r := bench.NewReport("search")
	for _, n := range sizes {
		if err := speed(ctx, r, n); err != nil {
			return nil, fmt.Errorf("bench search/%d: %w", n, err)
		}
	}
	return r, nil
}

func speed(ctx context.Context, r *bench.Report, n int) (err error) {
	dir, err := os.MkdirTemp("", "strata-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := bolt.Open(ctx, filepath.Join(dir, "search.db"), &bolt.Options{Durability: storage.Process})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	scope := storage.Scope(store, "_search")
	const appends, asked = 2000, 1000
	turns, questions := speech(n+appends, asked)
	ix, err := search.New(nil)
	if err != nil {
		return err
	}
	add := func(docs ...search.Doc) error {
		ops, err := ix.Append(ctx, scope, docs...)
		if err != nil {
			return err
		}
		return scope.Apply(ctx, ops...)
	}
	for part := range slices.Chunk(turns[:n], 300) {
		if err := add(part...); err != nil {
			return err
		}
	}
	start := time.Now()
	if ix, err = search.New(nil); err != nil {
		return err
	}
	if _, err := ix.Len(ctx, scope); err != nil {
		return err
	}
	opened := time.Since(start)
	var took []time.Duration
	for _, q := range questions {
		start := time.Now()
		if _, err := ix.Search(ctx, scope, search.Query{Text: q}); err != nil {
			return err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	start = time.Now()
	for _, d := range turns[n:] {
		if err := add(d); err != nil {
			return err
		}
	}
	appended := time.Since(start) / appends
	bytes := 0
	for e, err := range scope.Scan(ctx, "s/", nil) {
		if err != nil {
			return err
		}
		bytes += len(e.Key) + len(e.Value)
	}
	for _, row := range []struct {
		metric string
		value  float64
		unit   string
	}{
		{"p50", micros(took[len(took)/2]), "us"}, {"p99", micros(took[len(took)*99/100]), "us"},
		{"append", micros(appended), "us"}, {"open", micros(opened) / 1000, "ms"},
		{"index", float64(bytes) / float64(n+appends), "B"},
	} {
		r.Rows = append(r.Rows, bench.Row{Case: fmt.Sprintf("search/%d", n), Metric: row.metric, Value: row.value, Unit: row.unit})
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// speech generates turns and questions from words with the frequencies of a
// natural language.
func speech(turns, questions int) ([]search.Doc, []string) {
	rng := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(rng, 1.07, 8, 40_000)
	say := func(words int) string {
		var b strings.Builder
		for range words {
			for n := zipf.Uint64() + 1; n > 0; n /= 14 {
				b.WriteByte("bcdfgklmnprstv"[n%14])
				b.WriteByte("aeiou"[n%5])
			}
			b.WriteByte(' ')
		}
		return b.String()
	}
	start := time.Date(2025, 1, 1, 9, 0, 0, 0, time.UTC)
	docs := make([]search.Doc, turns)
	for i := range docs {
		docs[i] = search.Doc{
			ID: fmt.Sprintf("turn-%07d", i), Session: fmt.Sprintf("session-%d", i/20), Speaker: []string{"Ada", "Ben"}[i%2],
			Time: start.Add(time.Duration(i) * time.Minute), Text: say(5 + rng.IntN(36)),
		}
	}
	list := make([]string, questions)
	for i := range list {
		list[i] = "When did Ada " + say(4+rng.IntN(4)) + "?"
	}
	return docs, list
}
