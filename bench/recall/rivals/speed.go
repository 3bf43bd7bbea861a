package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/search"
)

// sizes are the numbers of turns played before measuring, multiples of window:
// the inserts of the last turns are measured, and then questions are asked,
// which are what the user says in the next turns.
var sizes = []int{1500, 5000}

const window, questions = 500, 100

// store is something into which messages are inserted and in which they are
// searched.
type store interface {
	insert(ctx context.Context, turn []search.Doc) error // a turn's, in one transaction
	search(ctx context.Context, question string) error   // for ten messages
	close() error
}

// speed plays the same text, chats as bench turn --layers ready plays them,
// into SQLite FTS5, into our index alone, and into a memory with the ready-made
// layers, in one run. A turn is a message of the user and its answer. Cases:
// fts5/N, search/N, and ready/bolt/N, where insert is Commit and search is
// Project, which do much more; metrics: insert_p50, insert_p99, search_p50 and
// search_p99 in µs, and file_ratio, the file by the text in it. Both databases
// survive the death of the process, not power loss. The queries are what the
// user says next.
func speed(ctx context.Context, data []locomo.Conversation) (*bench.Report, error) {
	r := bench.NewReport("rivals")
	turns := played(data, slices.Max(sizes)+questions)
	for _, c := range []struct {
		name string
		open func(ctx context.Context, dir string) (store, error)
	}{{"fts5", openTable}, {"search", openIndex}} {
		if err := measure(ctx, r, c.name, c.open, turns); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	ready, err := bench.Ready(ctx, &bench.ReadyOptions{Data: data, Engines: []string{"bolt"}, Turns: slices.Max(sizes), Window: window, Live: -1})
	if err != nil {
		return nil, err
	}
	for _, n := range sizes {
		name := fmt.Sprint("ready/bolt/", n)
		for _, m := range [][2]string{
			{"insert_p50", "commit_p50"}, {"insert_p99", "commit_p99"}, {"search_p50", "project_p50"}, {"search_p99", "project_p99"}, {"file_ratio", "file_ratio"},
		} {
			v, _ := ready.Value(name, m[1])
			r.Rows = append(r.Rows, bench.Row{Case: name, Metric: m[0], Value: v, Unit: unit(m[0])})
		}
	}
	return r, nil
}

func unit(metric string) string {
	if metric == "file_ratio" {
		return "×"
	}
	return "µs"
}

// played returns turns, each with a user's messages and the answers to them.
func played(data []locomo.Conversation, n int) (turns [][]search.Doc) {
	for c := range locomo.Rounds(data, 1) { // the seed of bench turn
		for i, d := range c.Turns {
			if len(turns) == n && d.Speaker == c.Turns[0].Speaker {
				return turns
			}
			d.ID, d.Session = c.ID+"/"+d.ID, c.ID
			if i == 0 || d.Speaker == c.Turns[0].Speaker && c.Turns[i-1].Speaker != d.Speaker {
				turns = append(turns, nil)
			}
			turns[len(turns)-1] = append(turns[len(turns)-1], d)
		}
	}
	return turns
}

func measure(ctx context.Context, r *bench.Report, name string, open func(context.Context, string) (store, error), turns [][]search.Doc) (err error) {
	dir, err := os.MkdirTemp("", "strata-rivals-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	text := 0
	var inserts []time.Duration
	for i, turn := range turns[:slices.Max(sizes)] {
		began := time.Now()
		if err := s.insert(ctx, turn); err != nil {
			return err
		}
		inserts = append(inserts, time.Since(began))
		for _, d := range turn {
			text += len(d.Text)
		}
		if n := i + 1; slices.Contains(sizes, n) {
			var searches []time.Duration
			for _, turn := range turns[n : n+questions] {
				began := time.Now()
				if err := s.search(ctx, turn[0].Text); err != nil {
					return err
				}
				searches = append(searches, time.Since(began))
			}
			size, err := sizeOf(dir)
			if err != nil {
				return err
			}
			add := func(metric string, v float64) {
				r.Rows = append(r.Rows, bench.Row{Case: fmt.Sprint(name, "/", n), Metric: metric, Value: v, Unit: unit(metric)})
			}
			for _, m := range []struct {
				name  string
				times []time.Duration
			}{{"insert", inserts[n-window:]}, {"search", searches}} {
				times := slices.Sorted(slices.Values(m.times))
				add(m.name+"_p50", float64(times[len(times)/2])/float64(time.Microsecond))
				add(m.name+"_p99", float64(times[len(times)*99/100])/float64(time.Microsecond))
			}
			add("file_ratio", float64(size)/float64(text))
		}
	}
	return nil
}

// sizeOf returns the total size of the files in a directory.
func sizeOf(dir string) (n int64, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, err
}

// table is SQLite FTS5 in a file, in its fast configuration: a write-ahead log,
// and no sync.
type table struct{ *sqliteIndex }

func openTable(ctx context.Context, dir string) (store, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "fts.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	if err != nil {
		return nil, err
	}
	s := &sqliteIndex{db}
	if err := s.fill(ctx, nil); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return table{s}, nil
}

func (t table) insert(ctx context.Context, turn []search.Doc) (err error) {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for i := range turn {
		if _, err := tx.ExecContext(ctx, insertTurn, turn[i].ID, line(&turn[i])); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// search uses each word once: unlike a question, a message repeats words.
func (t table) search(ctx context.Context, question string) error {
	words := strings.Fields(strings.ToLower(question))
	slices.Sort(words)
	_, err := t.Search(ctx, strings.Join(slices.Compact(words), " "), 10)
	return err
}

func (t table) close() error { return t.Close() }

// index is ours, in a bolt file.
type index struct {
	db    *bolt.Store
	scope storage.Scoped
	ix    *search.Index
}

func openIndex(ctx context.Context, dir string) (store, error) {
	db, err := bolt.Open(ctx, filepath.Join(dir, "search.db"), &bolt.Options{Durability: storage.Process})
	if err != nil {
		return nil, err
	}
	ix, err := search.New(nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &index{db, storage.Scope(db, "_search"), ix}, nil
}

func (x *index) insert(ctx context.Context, turn []search.Doc) error {
	ops, err := x.ix.Append(ctx, x.scope, turn...)
	if err != nil {
		return err
	}
	return x.scope.Apply(ctx, ops...)
}

func (x *index) search(ctx context.Context, question string) error {
	_, err := x.ix.Search(ctx, x.scope, search.Query{Text: question})
	return err
}

func (x *index) close() error { return x.db.Close() }
