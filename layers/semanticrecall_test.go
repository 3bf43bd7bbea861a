package layers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

func TestSemanticRecall(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		c := talk(t, remember(t, store, layers.SemanticRecall(nil)), "monday", "r")
		c.say("My dentist is Dr. Molar, her phone number is 555-0199.", "I noted Dr. Molar's number.")
		c.say("The greenhouse needs a new roof.", "Glass or polycarbonate?")
		c.say("Polycarbonate. Order four sheets.", "Ordered four sheets of polycarbonate.")
		c.end()

		c = talk(t, remember(t, store, layers.SemanticRecall(nil)), "tuesday", "r")
		got := c.ask("What is the phone number of my dentist?")
		if !strings.Contains(got, " user, another conversation] My dentist is Dr. Molar") || strings.Contains(got, "greenhouse") {
			t.Errorf("shown:\n%s", got)
		}
		c.commit("555-0199.")
		for _, ask := range []struct{ query, note string }{
			{"Tell me a joke about penguins.", "no earlier item shares a word"},
			{"And now?", "no words to search for"},
			{"Which number of sheets of paper fit into the yellow printer upstairs?", "below 0.25"},
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
		if !strings.Contains(it.Text(), "Anna, another conversation] The greenhouse") {
			t.Errorf("shown: %s", it.Text())
		}
		if len(it.Refs) != 2 || it.Refs[1] != "item-1" {
			t.Fatalf("refs = %q", it.Refs)
		}
		record, err := store.Get(t.Context(), it.Refs[0])
		if err != nil || !strings.Contains(string(record), "item-1") {
			t.Errorf("record = %s, %v", record, err)
		}
	}
	c.end()
}

// What the prompt shows anyhow is not recalled, what it no longer shows is.
func TestRecallTail(t *testing.T) {
	m := remember(t, openMem(t), layers.SemanticRecall(&layers.SemanticRecallOptions{Tail: 4}))
	c := talk(t, m, "t", "r")
	c.say("The safe code is 7788.", "ok")
	if got := c.ask("safe code"); got != "" {
		t.Errorf("shown: %q while it is in the tail", got)
	}
	c.commit("ok")
	c.say("one", "two")
	if got := c.ask("safe code?"); !strings.Contains(got, "] The safe code is 7788.") {
		t.Errorf("shown: %q after it left the tail", got)
	}
	c.commit("7788")
	c.end()
}

// The ranking is BM25: compared with a plain implementation of the formula over
// all texts, and the counts survive runs that write at once.
func TestRecallMatchesBM25(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		vocabulary := strings.Fields("apple banana cherry damson elder fig grape hazel iris juniper kale lemon mango nettle olive pear quince rose")
		var texts []string
		for i := range 40 {
			var words []string
			for j := range 3 + i%7 {
				words = append(words, vocabulary[(i*i+j*(i+3))%len(vocabulary)])
			}
			texts = append(texts, strings.Join(words, " "))
		}
		layer := layers.SemanticRecall(&layers.SemanticRecallOptions{Tail: -1, MinScore: -1, TopK: 20})
		var wg sync.WaitGroup
		for i := range 4 {
			m := remember(t, store, layer)
			wg.Go(func() {
				c := talk(t, m, fmt.Sprintf("t%d", i), "r")
				for _, text := range texts[10*i : 10*i+10] {
					c.say(text, "")
				}
				c.end()
			})
		}
		wg.Wait()
		c := talk(t, remember(t, store, layer), "last", "r")
		for _, query := range []string{"apple", "cherry fig", "kale kale mango rose", "unseen grape", "pear olive quince apple banana"} {
			var got struct {
				Passages []layers.Snippet
			}
			if err := json.Unmarshal([]byte(c.call("semantic-recall_search", fmt.Sprintf(`{"query":%q,"limit":20}`, query))), &got); err != nil {
				t.Fatal(err)
			}
			var scores []float64
			for _, s := range got.Passages {
				want := bm25(query, s.Text, texts)
				if math.Abs(s.Score-want) > 1e-9 {
					t.Errorf("%q: score of %q = %v, want %v", query, s.Text, s.Score, want)
				}
				scores = append(scores, s.Score)
			}
			if len(scores) == 0 || !slices.IsSortedFunc(scores, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
				t.Errorf("%q: scores %v", query, scores)
			}
		}
		c.end()
	})
}

// bm25 is the formula of Robertson and Zaragoza, by the book, divided by the
// sum of the idf, where terms that no text has count as if one had them.
func bm25(query, text string, all []string) float64 {
	count := func(text, term string) float64 {
		n := 0
		for w := range strings.FieldsSeq(text) {
			if w == term {
				n++
			}
		}
		return float64(n)
	}
	length := func(text string) float64 { return float64(len(strings.Fields(text))) }
	total := 0.0
	for _, t := range all {
		total += length(t)
	}
	sum, norm := 0.0, 0.0
	done := map[string]bool{}
	for term := range strings.FieldsSeq(query) {
		if done[term] {
			continue
		}
		done[term] = true
		n := 0.0
		for _, t := range all {
			if count(t, term) > 0 {
				n++
			}
		}
		n = max(n, 1)
		idf := math.Log(1 + (float64(len(all))-n+0.5)/(n+0.5))
		tf := count(text, term)
		norm += idf
		sum += idf * tf * 2.2 / (tf + 1.2*(1-0.75+0.75*length(text)/(total/float64(len(all)))))
	}
	return sum / norm
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
		Rank: func(_ context.Context, query string, list []layers.Snippet) ([]layers.Snippet, error) {
			if fails != nil {
				return nil, fails
			}
			slices.SortFunc(list, func(a, b layers.Snippet) int { return strings.Compare(a.Text, b.Text) })
			return append([]layers.Snippet{{Text: "made up"}}, list...), nil
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
	var got struct {
		Passages []layers.Snippet
	}
	if err := json.Unmarshal([]byte(c.call("semantic-recall_search", `{"query":"key mat"}`)), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Passages) != 1 || got.Passages[0].Thread != "t1" || got.Passages[0].Speaker != "user" {
		t.Errorf("passages = %+v", got.Passages)
	}
	if diff := cmp.Diff(`{"passages":[]}`, c.call("semantic-recall_search", `{"query":"zebra"}`)); diff != "" {
		t.Error(diff)
	}
	c.end()
}
