// Command rivals judges bleve and SQLite FTS5 as strata bench recall judges
// Strata's own rankings, and prints their scores for its --rivals flag. It is a
// separate module, so that neither is a dependency of Strata.
//
//	go run . --data FILE [--split ID,ID] > rivals.json
//
// With --speed it measures instead, in one run on the same text, the time to
// insert a turn's messages and to search, at 1,500 and at 5,000 turns, and the
// size of the file: for SQLite FTS5, for our index alone, and for a memory with
// the ready-made layers.
//
//	go run . --data FILE --speed [--json]
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	_ "modernc.org/sqlite" // the driver

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/bench/recall"
	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/storage/search"
)

func main() {
	data := flag.String("data", "", "file in the form of LoCoMo")
	split := flag.String("split", "", "only these conversations")
	fast := flag.Bool("speed", false, "measure how fast they insert and search")
	asJSON := flag.Bool("json", false, "with --speed: print JSON")
	flag.Parse()
	err := func(ctx context.Context) error {
		list, err := locomo.Load(*data)
		if err != nil {
			return err
		}
		if !*fast {
			return judge(ctx, list, *split)
		}
		r, err := speed(ctx, list)
		if err != nil {
			return err
		}
		if *asJSON {
			return r.WriteJSON(os.Stdout)
		}
		return r.WriteText(os.Stdout)
	}(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func judge(ctx context.Context, data []locomo.Conversation, split string) error {
	tokens, err := tiktoken.New("o200k_base")
	if err != nil {
		return err
	}
	opts := &recall.Options{Count: tokens.Count, Rankers: []recall.Ranker{
		{Name: "bleve-en", Open: openBleve}, {Name: "fts5", Open: openSQLite},
	}}
	if split != "" {
		opts.Split = strings.Split(split, ",")
	}
	scores, err := recall.Run(ctx, data, opts)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(scores)
}

// line returns what a rival indexes of a turn: speaker and text, as a chat
// shows it.
func line(d *search.Doc) string { return d.Speaker + ": " + d.Text }

// bleveIndex is bleve in memory with its English analyser.
type bleveIndex struct{ index bleve.Index }

func openBleve(_ context.Context, turns []search.Doc) (recall.Searcher, error) {
	mapping := bleve.NewIndexMapping()
	mapping.DefaultAnalyzer = en.AnalyzerName
	index, err := bleve.NewMemOnly(mapping)
	if err != nil {
		return nil, err
	}
	batch := index.NewBatch()
	for i := range turns {
		if err := batch.Index(turns[i].ID, map[string]string{"text": line(&turns[i])}); err != nil {
			return nil, err
		}
	}
	return &bleveIndex{index}, index.Batch(batch)
}

func (b *bleveIndex) Search(ctx context.Context, question string, n int) ([]string, error) {
	q := bleve.NewMatchQuery(question)
	q.SetField("text")
	res, err := b.index.SearchInContext(ctx, bleve.NewSearchRequestOptions(q, n, 0, false))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, hit := range res.Hits {
		ids = append(ids, hit.ID)
	}
	return ids, nil
}

func (b *bleveIndex) Bytes(context.Context) (int64, error) { return 0, nil }
func (b *bleveIndex) Close() error                         { return b.index.Close() }

// sqliteIndex is SQLite FTS5 in memory with its porter tokenizer.
type sqliteIndex struct{ db *sql.DB }

func openSQLite(ctx context.Context, turns []search.Doc) (recall.Searcher, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection has its own memory
	s := &sqliteIndex{db}
	if err := s.fill(ctx, turns); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

const insertTurn = `INSERT INTO turns VALUES (?, ?)`

func (s *sqliteIndex) fill(ctx context.Context, turns []search.Doc) error {
	if _, err := s.db.ExecContext(ctx, `CREATE VIRTUAL TABLE turns USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')`); err != nil {
		return err
	}
	for i := range turns {
		if _, err := s.db.ExecContext(ctx, insertTurn, turns[i].ID, line(&turns[i])); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteIndex) Search(ctx context.Context, question string, n int) (ids []string, err error) {
	var words []string
	for _, w := range strings.FieldsFunc(question, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words = append(words, `"`+w+`"`)
	}
	if len(words) == 0 {
		return nil, nil
	}
	rows, err := s.db.QueryContext(ctx, `SELECT id FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT ?`, strings.Join(words, " OR "), n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (s *sqliteIndex) Bytes(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT sum(length(block)) FROM turns_data`).Scan(&n)
	return n, err
}

func (s *sqliteIndex) Close() error { return s.db.Close() }
