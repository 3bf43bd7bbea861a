package layers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

func TestSemanticRecall(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		c := talk(t, remember(t, store, layers.SemanticRecall(nil)), "monday", "r")
		c.say("My dentist is Dr. Molar, her phone number is 555-0199.", "I noted Dr. Molar's number.")
		c.end()
		c = talk(t, remember(t, store, layers.SemanticRecall(nil)), "sunday", "r")
		c.say("The greenhouse needs a new roof.", "Glass or polycarbonate?")
		c.say("Polycarbonate. Order four sheets.", "Ordered four sheets of polycarbonate.")
		c.end()

		c = talk(t, remember(t, store, layers.SemanticRecall(nil)), "tuesday", "r")
		got := c.ask("What is the phone number of my dentist?")
		if !strings.Contains(got, "]\nuser: My dentist is Dr. Molar") || strings.Contains(got, "greenhouse") {
			t.Errorf("shown:\n%s", got)
		}
		c.commit("555-0199.")
		for _, ask := range []struct{ query, note string }{
			{"Tell me a joke about penguins.", "nothing shares a word"},
			{"And now?", "no words to search for"},
			{"Which number of sheets of paper fit into the yellow printer upstairs?", "below 0.45"},
		} {
			if got := c.ask(ask.query); got != "" || !strings.Contains(c.note("semantic-recall"), ask.note) {
				t.Errorf("%s: shown %q, note %q, want note %q", ask.query, got, c.note("semantic-recall"), ask.note)
			}
			c.commit("Well.")
		}
		c.end()
	})
}

// Every snippet leads to its record and its item.
func TestRecallRefs(t *testing.T) {
	store := openMem(t)
	c := talk(t, remember(t, store, layers.SemanticRecall(nil)), "monday", "r")
	said := projection.Text(projection.User, "The greenhouse needs a roof.")
	said.ID, said.Name = "item-1", "Anna"
	if _, err := c.run.Project(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	c.commit("ok")
	c.end()
	c = talk(t, remember(t, store, layers.SemanticRecall(nil)), "tuesday", "r")
	view, err := c.run.Project(t.Context(), projection.Text(projection.User, "greenhouse roof"))
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range view.All() {
		if it.Layer == "" {
			continue
		}
		if !strings.Contains(it.Text(), "]\nAnna: The greenhouse needs a roof.\nassistant: ok") {
			t.Errorf("shown: %s", it.Text())
		}
		if len(it.Refs) != 4 || it.Refs[1] != "item-1" {
			t.Fatalf("refs = %q", it.Refs)
		}
		record, _, err := store.Get(t.Context(), it.Refs[0])
		if err != nil || !strings.Contains(string(record), "item-1") {
			t.Errorf("record = %s, %v", record, err)
		}
	}
	c.end()
}

// What the prompt shows anyhow is not recalled, what it no longer shows is.
func TestRecallAndHistory(t *testing.T) {
	m, err := memory.New(openMem(t), []memory.Layer{layers.SemanticRecall(nil)}, &memory.Options{
		Policy: projection.Policy{Budget: 4000, Reserve: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := talk(t, m, "t", "r")
	var codes strings.Builder
	for i := range 60 {
		fmt.Fprintf(&codes, " door%d 77%d", i, i)
	}
	c.say("The codes:"+codes.String(), "ok")
	recalled, long := 0, 0
	for i := range 60 {
		view, err := c.run.Project(t.Context(), projection.Text(projection.User, fmt.Sprintf("And door%d?", i)))
		if err != nil {
			t.Fatal(err)
		}
		inHistory, items := false, 0
		for band, it := range view.All() {
			if band == projection.BandHistory {
				inHistory = inHistory || strings.HasPrefix(it.Text(), "The codes:")
				items++
			}
		}
		inRecall := strings.Contains(shown(view), "user: The codes:")
		if inHistory == inRecall {
			t.Errorf("turn %d: in the history of %d items: %v, recalled: %v", i, items, inHistory, inRecall)
		}
		if inRecall {
			recalled++
		}
		if inHistory {
			long = max(long, items)
		}
		c.commit(strings.Repeat("more and more of the same ", 10))
	}
	if recalled == 0 || long <= 20 {
		t.Errorf("recalled in %d turns, in a history of up to %d items", recalled, long)
	}
	c.end()
}

// Executions that write at once, of several memories, lose nothing: each finds
// what all have said, and so does the index as it is in the store.
func TestRecallWritersAtOnce(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		layer := layers.SemanticRecall(nil)
		var wg sync.WaitGroup
		for i := range 4 {
			m := remember(t, store, layer)
			wg.Go(func() {
				c := talk(t, m, fmt.Sprintf("t%d", i), "r")
				for j := range 20 { // enough for merges
					c.say(fmt.Sprintf("The secret of room%dx%d is out.", i, j), "")
				}
				c.end()
			})
		}
		wg.Wait()
		c := talk(t, remember(t, store, layer), "last", "r")
		for i := range 4 {
			for j := range 20 {
				var got found
				c.decode(&got, "semantic-recall_search", fmt.Sprintf(`{"query":"room%dx%d","limit":1}`, i, j))
				if len(got.Passages) != 1 || got.Passages[0].Thread != fmt.Sprintf("t%d", i) {
					t.Errorf("room%dx%d: %+v", i, j, got)
				}
			}
		}
		c.end()
		for fault, err := range search.Check(t.Context(), storage.Scope(store, "_layers/semantic-recall/resource/r/r0")) {
			t.Errorf("the index has a fault: %v, %v", fault, err)
		}
	})
}

// found is what the tool returns.
type found struct {
	Passages []struct{ Text, Speaker, Thread, Item string }
	Note     string
}

func (c *conversation) decode(value any, tool, args string) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.call(tool, args)), value); err != nil {
		c.t.Fatal(err)
	}
}

func TestRecallRank(t *testing.T) {
	store := openMem(t)
	c := talk(t, remember(t, store, layers.SemanticRecall(nil)), "t1", "r")
	for i := range 10 {
		c.say(fmt.Sprintf("Lighthouse number %d stands on a rock.", i), "ok")
	}
	c.end()
	var fails error
	layer := layers.SemanticRecall(&layers.SemanticRecallOptions{
		TopK: 2,
		Rank: func(_ context.Context, query string, list []search.Hit) ([]search.Hit, error) {
			if fails != nil {
				return nil, fails
			}
			slices.SortFunc(list, func(a, b search.Hit) int { return strings.Compare(a.Text, b.Text) })
			return append([]search.Hit{{Doc: search.Doc{Text: "made up"}}}, list...), nil
		},
	})
	c = talk(t, remember(t, store, layer), "t2", "r")
	got := c.say("lighthouse on the rock", "ok")
	if strings.Contains(got, "made up") || strings.Count(got, "Lighthouse") != 2 || !strings.Contains(got, "number 1") {
		t.Errorf("shown:\n%s", got)
	}
	fails = errors.New("model is down")
	got = c.say("lighthouse of the rock", "ok")
	if strings.Count(got, "Lighthouse") != 2 || !strings.Contains(c.note("semantic-recall"), "rank failed: model is down") {
		t.Errorf("shown:\n%s\nnote %q", got, c.note("semantic-recall"))
	}
	c.end()
}

// A turn writes a bounded number of records, however long its texts are, and
// each of its passages can be found.
func TestRecallBounds(t *testing.T) {
	store := openMem(t)
	c := talk(t, remember(t, store, layers.SemanticRecall(nil)), "t1", "r")
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "word%d ", i)
	}
	result := projection.Result("1", b.String())
	if _, err := c.run.Project(t.Context(), projection.Text(projection.User, "needle "+b.String()), result, result, result); err != nil {
		t.Fatal(err)
	}
	c.commit("The thimble is in the basket.")
	records := 0
	for _, err := range store.List(t.Context(), "_layers/semantic-recall/resource/r/r0/") {
		if err != nil {
			t.Fatal(err)
		}
		records++
	}
	if records == 0 || records > 400 {
		t.Errorf("%d records, want 400 at most", records)
	}
	c.end()
	c = talk(t, remember(t, store, layers.SemanticRecall(nil)), "t2", "r")
	if got := c.say("Where is the thimble basket?", "There."); !strings.Contains(got, "thimble is in the basket") {
		t.Errorf("shown: %.200q", got)
	}
	c.end()
}

func TestRecallLanguages(t *testing.T) {
	store := openMem(t)
	c := talk(t, remember(t, store, layers.SemanticRecall(nil)), "t1", "r")
	for _, text := range []string{"Die Brücke über die Donau ist gesperrt.", "東京の天気は晴れです。", "Мой пароль лежит в сейфе.", "Anna's bicycles are blue."} {
		c.say(text, "")
	}
	c.end()
	c = talk(t, remember(t, store, layers.SemanticRecall(nil)), "t2", "r")
	for query, want := range map[string]string{
		"BRÜCKE donau": "Donau", "天気は？": "東京", "пароль сейфе": "сейфе", "the bicycle of anna": "blue",
	} {
		if got := c.say(query, ""); !strings.Contains(got, want) {
			t.Errorf("%s: shown %q", query, got)
		}
	}
	c.end()
}

func TestSearchTool(t *testing.T) {
	store := openMem(t)
	c := talk(t, remember(t, store, layers.SemanticRecall(nil)), "t1", "r")
	c.say("The key is under the mat.", "ok")
	var got found
	c.decode(&got, "semantic-recall_search", `{"query":"key mat"}`)
	if len(got.Passages) == 0 || got.Passages[0].Text != "The key is under the mat." || got.Passages[0].Thread != "t1" || got.Passages[0].Speaker != "user" {
		t.Errorf("passages = %+v", got.Passages)
	}
	for args, want := range map[string]string{
		`{"query":"zebra"}`:                         `{"passages":[],"note":"nothing shares a word with the query"}`,
		`{"query":"key","speaker":"Anna"}`:          `{"passages":[],"note":"nothing shares a word with the query"}`,
		`{"query":"key","until":"2020-01-31"}`:      `{"passages":[],"note":"nothing shares a word with the query"}`,
		`{"query":"key","from":"yesterday"}`:        `search: "yesterday" is no day like 2026-01-31`,
		`{"query":"and so on","from":"2020-01-31"}`: `{"passages":[],"note":"the query has no words to search for"}`,
	} {
		if got := c.call("semantic-recall_search", args); !strings.Contains(got, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
	c.decode(&got, "semantic-recall_search", `{"query":"key","from":"2020-01-31","speaker":"user","limit":1}`)
	if len(got.Passages) != 1 {
		t.Errorf("passages = %+v", got.Passages)
	}
	c.end()
}
