package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/search"
	"github.com/stratamem/strata/storage/vector"
)

// indexedStore makes a store with an index of a layer in two scopes, one of them
// in French.
func indexedStore(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.db")
	store, err := bolt.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	add := func(prefix, language string, docs ...search.Doc) {
		t.Helper()
		scope := storage.Scope(store, prefix)
		ix, err := search.New(&search.Options{Language: language})
		if err != nil {
			t.Fatal(err)
		}
		ops, err := ix.Append(t.Context(), scope, docs...)
		if err == nil {
			err = scope.Apply(t.Context(), ops...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2025, 5, 8, 10, 0, 0, 0, time.UTC)
	add("_layers/semantic-recall/resource/u1/r0", "",
		search.Doc{ID: "a", Session: "t1", Speaker: "Ada", Time: at, Text: "We painted the boat green."},
		search.Doc{ID: "b", Session: "t1", Speaker: "Ben", Time: at.Add(time.Minute), Text: "Lovely \x1b[31mcolour."})
	add("_layers/semantic-recall/resource/u2/r3", "french", search.Doc{ID: "c", Text: "Le bateau est vert."})
	if err := storage.Set(t.Context(), store, "_layers/notes/thread/t1/state", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// runVerb runs one verb and returns what it printed.
func runVerb(t *testing.T, verb func(*tool) *cobra.Command, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := verb(&tool{in: strings.NewReader(""), out: &out, err: &errs, env: func(string) string { return "" }})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestRecallVerb(t *testing.T) {
	db := indexedStore(t)
	out, _, err := runVerb(t, recallCommand, "paint boats", "--db", db)
	if err != nil || !strings.Contains(out, "2025-05-08 10:00 · Ada · t1\n      We painted the boat green.") || !strings.Contains(out, "words ") {
		t.Errorf("recall prints %q, %v", out, err)
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("recall prints an escape: %q", out)
	}
	out, _, err = runVerb(t, recallCommand, "bateau verte", "--db", db, "--json", "--limit", "1")
	var hits []recalledHit
	if e := json.Unmarshal([]byte(out), &hits); err != nil || e != nil || len(hits) != 1 || hits[0].ID != "c" {
		t.Errorf("recall prints %q, %v, %v", out, err, e)
	}
	if out, errs, err := runVerb(t, recallCommand, "insurance of paragliders", "--db", db); out != "" || err != nil || !strings.Contains(errs, "nothing is recalled") {
		t.Errorf("recall prints %q and %q, %v", out, errs, err)
	}
	for _, args := range [][]string{{}, {"a", "b"}, {"a"}, {"a", "--db", db, "--limit", "0"}, {"a", "--db", filepath.Join(t.TempDir(), "none.db")}} {
		if _, _, err := runVerb(t, recallCommand, args...); err == nil {
			t.Errorf("recall %q is accepted", args)
		}
	}
}

func TestIndexVerbs(t *testing.T) {
	db := indexedStore(t)
	out, _, err := runVerb(t, indexCommand, "check", "--db", db)
	if want := "_layers/semantic-recall/resource/u1/r0: ok\n_layers/semantic-recall/resource/u2/r3: ok\n"; err != nil || out != want {
		t.Fatalf("index check prints %q, %v", out, err)
	}
	store, err := bolt.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.Delete(t.Context(), store, "_layers/semantic-recall/resource/u1/r0/d/a"); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if out, _, err := runVerb(t, indexCommand, "check", "--db", db); err == nil || !strings.Contains(out, "r0/d/a: indexed document is gone: run strata index rebuild") {
		t.Errorf("index check prints %q, %v", out, err)
	}
	if out, _, err := runVerb(t, indexCommand, "rebuild", "--db", db); err != nil || !strings.Contains(out, "r0: 1 documents\n") {
		t.Errorf("index rebuild prints %q, %v", out, err)
	}
	if out, _, err := runVerb(t, indexCommand, "check", "--db", db); err != nil {
		t.Errorf("index check prints %q, %v", out, err)
	}
	if _, _, err := runVerb(t, indexCommand, "repair"); err == nil {
		t.Error("an unknown verb is accepted")
	}
}

// A layer whose vectors were dropped makes new ones, and what is damaged among
// them is reported.
func TestIndexVectors(t *testing.T) {
	db := indexedStore(t)
	const name = "_layers/semantic-recall/resource/u1/r0"
	edit := func(f func(store storage.Adapter) error) {
		t.Helper()
		store, err := bolt.Open(t.Context(), db, nil)
		if err == nil {
			err = errors.Join(f(store), store.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit(func(store storage.Adapter) error {
		scope := storage.Scope(store, name+"/v")
		ix, err := vector.New("some model", 2)
		if err != nil {
			return err
		}
		ops, err := ix.Upsert(t.Context(), scope, vector.Point{ID: "a", Vector: []float32{1, 2}})
		if err == nil {
			err = scope.Apply(t.Context(), ops...)
		}
		return err
	})
	if out, _, err := runVerb(t, indexCommand, "check", "--db", db); err != nil {
		t.Errorf("index check prints %q, %v", out, err)
	}
	edit(func(store storage.Adapter) error {
		for key, err := range store.List(t.Context(), name+"/v/s/") {
			if err != nil {
				return err
			}
			return storage.Set(t.Context(), store, key, []byte("x"))
		}
		return nil
	})
	if out, _, err := runVerb(t, indexCommand, "check", "--db", db); err == nil || !strings.Contains(out, "r0/v/s/") {
		t.Errorf("index check prints %q, %v", out, err)
	}
	out, _, err := runVerb(t, indexCommand, "rebuild", "--vectors", "--db", db)
	if err != nil || !strings.Contains(out, "u1/r0: 2 documents wait for vectors\n") || !strings.Contains(out, "u2/r3: 0 documents wait for vectors\n") {
		t.Errorf("index rebuild prints %q, %v", out, err)
	}
	edit(func(store storage.Adapter) error {
		var keys []string
		for _, part := range []string{"/v/", "/w/"} {
			for key, err := range store.List(t.Context(), name+part) {
				if err != nil {
					return err
				}
				keys = append(keys, strings.TrimPrefix(key, name))
			}
		}
		if got := strings.Join(keys, " "); got != "/w/a /w/b" {
			t.Errorf("left are %s", got)
		}
		return nil
	})
}
