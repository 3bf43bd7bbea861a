package search_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
)

func ids(res search.Result) []string {
	var list []string
	for _, h := range res.Hits {
		list = append(list, h.ID)
	}
	return list
}

func find(t *testing.T, ix *search.Index, r storage.Reader, q search.Query) search.Result {
	t.Helper()
	return must(ix.Search(t.Context(), r, q))(t)
}

var day = time.Date(2025, 5, 8, 10, 0, 0, 0, time.UTC)

// chat is two sessions in which the answer shares no word with the question.
func chat() []search.Doc {
	turn := func(n int, session, speaker, text string) search.Doc {
		start := day
		if session == "s2" {
			start = day.AddDate(0, 2, 0)
		}
		return search.Doc{ID: fmt.Sprintf("t%02d", n), Session: session, Speaker: speaker, Text: text, Type: "message", Time: start.Add(time.Duration(n) * time.Second)}
	}
	return []search.Doc{
		turn(1, "s1", "Ada", "I went to the harbour with my sister yesterday."),
		turn(2, "s1", "Ben", "Which colour did you paint the boat in the end?"),
		turn(3, "s1", "Ada", "A deep green, we mixed it twice."),
		turn(4, "s1", "Ben", "Sounds lovely."),
		turn(5, "s2", "Ben", "My boat needs a new sail."),
		turn(6, "s2", "Ada", "The sailmaker is closed on Mondays."),
		turn(7, "s2", "Ben", "I bought de-stress tea for the roadtrip."),
		turn(8, "s2", "Ada", "We met at a café in Tokyo, 東京タワー was closed."),
	}
}

func open(t *testing.T, opts *search.Options, docs ...search.Doc) (*search.Index, storage.Scoped) {
	t.Helper()
	store := mem.New()
	t.Cleanup(func() { _ = store.Close() })
	scope := storage.Scope(store, "_search/a")
	ix := must(search.New(opts))(t)
	if len(docs) > 0 {
		add(t, ix, scope, docs...)
	}
	return ix, scope
}

func TestSearch(t *testing.T) {
	words := &search.Ranking{Session: -1, Previous: -1, Next: -1, Speaker: -1, Date: -1, When: -1, Answer: -1, Far: -1, Floor: -1}
	for _, c := range []struct {
		name    string
		ranking search.Ranking
		query   search.Query
		want    string // ids of the first hits
	}{
		{"words meet by stem", *words, search.Query{Text: "painting boats"}, "t02 t05"},
		{"irregular verbs meet", *words, search.Query{Text: "Did he buy tea?"}, "t07"},
		{"hyphens", *words, search.Query{Text: "destress"}, "t07"},
		{"compounds", *words, search.Query{Text: "the road trip"}, "t07"},
		{"pairs of a script without spaces", *words, search.Query{Text: "東京"}, "t08"},
		{"accents are letters", *words, search.Query{Text: "CAFÉ"}, "t08"},
		{"the answer stands beside the question", search.Ranking{Floor: -1}, search.Query{Text: "Which colour did Ada paint the boat?", Limit: 2}, "t03 t02"},
		{"the speaker", search.Ranking{Floor: -1, Session: -1, Previous: -1, Next: -1, Answer: -1, Far: -1}, search.Query{Text: "When is Ada's sailmaker closed?", Limit: 1}, "t06"},
		{"a date alone", search.Ranking{}, search.Query{Text: "What happened in July 2025?", Limit: 4}, "t08 t07 t06 t05"},
		{"filter session", *words, search.Query{Text: "boat", Filter: search.Filter{Sessions: []string{"s2"}}}, "t05"},
		{"filter speaker", *words, search.Query{Text: "closed boat", Filter: search.Filter{Speakers: []string{"Ada"}}}, "t06 t08"},
		{"filter type", *words, search.Query{Text: "boat", Filter: search.Filter{Types: []string{"note"}}}, ""},
		{"filter layer", *words, search.Query{Text: "boat", Filter: search.Filter{Layers: []string{"canon"}}}, ""},
		{"filter scope", *words, search.Query{Text: "boat", Filter: search.Filter{Scopes: []string{"team"}}}, ""},
		{"filter from", *words, search.Query{Text: "boat", Filter: search.Filter{From: day.AddDate(0, 1, 0)}}, "t05"},
		{"filter to", *words, search.Query{Text: "boat", Filter: search.Filter{To: day.AddDate(0, 1, 0)}}, "t02"},
		{"exclude", *words, search.Query{Text: "boat", Filter: search.Filter{Exclude: func(id string) bool { return id == "t02" }}}, "t05"},
		{"a name alone", search.Ranking{Floor: -1}, search.Query{Text: "Ada"}, ""},
		{"stop words alone", search.Ranking{}, search.Query{Text: "what did you do?"}, ""},
		{"nothing relevant", search.Ranking{}, search.Query{Text: "Does her landlord allow pianos?"}, ""},
		{"little relevant", search.Ranking{}, search.Query{Text: "Did the insurance refund paragliding equipment for the closed season?"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ix, scope := open(t, &search.Options{Ranking: c.ranking}, chat()...)
			res := find(t, ix, scope, c.query)
			if got := strings.Join(ids(res), " "); got != c.want && !(c.want != "" && strings.HasPrefix(got, c.want+" ")) {
				t.Errorf("found %q, want %q first; note %q", got, c.want, res.Note)
			}
			if (len(res.Hits) == 0) != (res.Note != "") {
				t.Errorf("%d hits with note %q", len(res.Hits), res.Note)
			}
		})
	}
}

func TestHitHasParts(t *testing.T) {
	ix, scope := open(t, nil, chat()...)
	res := find(t, ix, scope, search.Query{Text: "When did Ada say in May which colour the boat has?"})
	var got search.Hit
	for _, h := range res.Hits {
		if h.ID == "t03" {
			got = h
		}
		p := h.Parts
		sum := p.Words + p.Session + p.Neighbours + p.Speaker + p.Date + p.When + p.Answer + p.Far
		if diff := sum - h.Score; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: the parts are %v together, the score %v", h.ID, sum, h.Score)
		}
	}
	if p := got.Parts; p.Session <= 0 || p.Neighbours <= 0 || p.Answer <= 0 || p.Speaker <= 0 || p.Date <= 0 {
		t.Errorf("t03 has parts %+v", p)
	}
	if len(got.Before) != 1 || got.Before[0].ID != "t02" || len(got.After) != 1 || got.After[0].ID != "t04" {
		t.Errorf("t03 comes with %v before and %v after", got.Before, got.After)
	}
	want := chat()[2]
	want.Record = "d/t03"
	if diff := cmp.Diff(want, got.Doc); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}

func TestRank(t *testing.T) {
	ix, scope := open(t, nil, chat()...)
	q := search.Query{Text: "boat sail", Limit: 2}
	want := ids(find(t, ix, scope, q))
	for name, c := range map[string]struct {
		rank func(context.Context, string, []search.Hit) ([]search.Hit, error)
		want []string
		note string
	}{
		"reverse": {func(_ context.Context, _ string, hits []search.Hit) ([]search.Hit, error) {
			slices.Reverse(hits)
			return hits[:1], nil
		}, nil, ""},
		"fails":  {func(context.Context, string, []search.Hit) ([]search.Hit, error) { return nil, errors.New("down") }, want, "ordered by score, rank failed: down"},
		"panics": {func(context.Context, string, []search.Hit) ([]search.Hit, error) { panic("oh") }, want, "ordered by score, rank failed: panic: oh"},
		"invents": {func(_ context.Context, _ string, hits []search.Hit) ([]search.Hit, error) {
			return append([]search.Hit{{Doc: search.Doc{ID: "x"}}, hits[0]}, hits...), nil
		}, want, ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := q
			q.Rank = c.rank
			res := find(t, ix, scope, q)
			got := ids(res)
			if c.want == nil && (len(got) != 1 || got[0] == want[0]) {
				t.Errorf("found %v, want the last candidate alone", got)
			} else if c.want != nil && !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
			if res.Note != c.note {
				t.Errorf("note %q, want %q", res.Note, c.note)
			}
		})
	}
}

// Cosines of an index of vectors find what shares no word, and add to what does.
func TestSimilar(t *testing.T) {
	ix, scope := open(t, nil)
	add(t, ix, scope,
		search.Doc{ID: "a", Text: "The vessel was painted green."}, search.Doc{ID: "b", Text: "Lunch was late."},
		search.Doc{ID: "c", Text: "A boat came in."}, search.Doc{ID: "d", Text: "Another boat left."})
	for _, c := range []struct {
		text    string
		similar map[string]float64
		want    string
	}{
		{"ship", nil, ""},
		{"ship", map[string]float64{"a": 0.8, "b": 0.1, "gone": 1}, "a b"},
		{"ship", map[string]float64{"a": 0.6}, ""}, // below the floor
		{"and so", map[string]float64{"a": 0.8}, "a"},
		{"boat", map[string]float64{"d": 0.5, "b": -1}, "d c"},
	} {
		if got := strings.Join(ids(find(t, ix, scope, search.Query{Text: c.text, Similar: c.similar})), " "); got != c.want {
			t.Errorf("%q with %v finds %q, want %q", c.text, c.similar, got, c.want)
		}
	}
	hits := find(t, ix, scope, search.Query{Text: "boat", Similar: map[string]float64{"d": 0.5, "a": 0.2}}).Hits
	if hits[0].ID != "d" || hits[0].Parts.Similar != 0.7*hits[1].Score || hits[1].Parts.Similar != 0 {
		t.Errorf("found %+v", hits)
	}
}

// TestIncremental compares an index that grew and shrank in steps with one of
// what is left, seen by the writer, by another that looks now and then, and by
// one that opens at the end.
func TestIncremental(t *testing.T) {
	docs := talk(2600, 3)
	ix, scope := open(t, nil)
	watcher := must(search.New(nil))(t)
	gone := make(map[string]bool)
	for i := 0; i < len(docs); {
		n := 1 + i%3
		if i == 300 {
			n = 200
		}
		n = min(n, len(docs)-i)
		if i > 1000 && i < 1500 { // nothing but replacements
			id := docs[i-900].ID
			gone[id] = true
			must(0, scope.Apply(t.Context(), must(ix.Replace(t.Context(), scope, []string{id}, docs[i:i+n]...))(t)...))(t)
		} else {
			add(t, ix, scope, docs[i:i+n]...)
		}
		i += n
		if i%7 == 0 {
			id := docs[i/2].ID
			gone[id] = true
			must(0, scope.Apply(t.Context(), must(ix.Delete(t.Context(), scope, id, "no such", id))(t)...))(t)
		}
		if i%50 == 0 {
			must(watcher.Len(t.Context(), scope))(t)
		}
	}
	left := slices.DeleteFunc(slices.Clone(docs), func(d search.Doc) bool { return gone[d.ID] })
	fresh, freshScope := open(t, nil)
	for part := range slices.Chunk(left, 400) {
		add(t, fresh, freshScope, part...)
	}
	late := must(search.New(nil))(t)
	for _, q := range questions(40) {
		want := ids(find(t, fresh, freshScope, search.Query{Text: q, Floor: -1}))
		for name, other := range map[string]*search.Index{"writer": ix, "watcher": watcher, "late": late} {
			if n := must(other.Len(t.Context(), scope))(t); n != len(left) {
				t.Fatalf("%s has %d documents, want %d", name, n, len(left))
			}
			// Those that saw deletions still count them in frequencies.
			got := ids(find(t, other, scope, search.Query{Text: q, Floor: -1}))
			if name == "late" && !slices.Equal(got, want) {
				t.Errorf("%s finds %v for %q, want %v", name, got, q, want)
			}
			if slices.ContainsFunc(got, func(id string) bool { return gone[id] }) {
				t.Errorf("%s finds what is deleted: %v", name, got)
			}
		}
	}
	for f, err := range search.Check(t.Context(), scope) {
		t.Errorf("the index has a fault: %v, %v", f, err)
	}
	segments := 0
	for _, err := range scope.List(t.Context(), "s/") {
		must(0, err)(t)
		segments++
	}
	if segments > 64+16+3 {
		t.Errorf("there are %d segments", segments)
	}
	for f, err := range search.Check(t.Context(), scope) {
		t.Errorf("check: %+v, %v", f, err)
	}
}

func TestTwoWriters(t *testing.T) {
	docs := talk(600, 5)
	_, scope := open(t, nil)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			ix, err := search.New(nil)
			for i := w; i < len(docs) && err == nil; i += 2 {
				var ops []storage.Op
				if ops, err = ix.Append(t.Context(), scope, docs[i]); err == nil {
					err = scope.Apply(t.Context(), ops...)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ix := must(search.New(nil))(t)
	if n := must(ix.Len(t.Context(), scope))(t); n != len(docs) {
		t.Errorf("index has %d documents, want %d", n, len(docs))
	}
	for f, err := range search.Check(t.Context(), scope) {
		t.Errorf("check: %+v, %v", f, err)
	}
}

// TestAppendIsSmall pins that an append does not rewrite the index: what most
// appends write is their own, and all together write a document three times.
func TestAppendIsSmall(t *testing.T) {
	ix, scope := open(t, nil)
	ops, bytes, text := 0, 0, 0
	for _, d := range talk(3000, 9) {
		list := must(ix.Append(t.Context(), scope, d))(t)
		must(0, scope.Apply(t.Context(), list...))(t)
		ops += len(list)
		for _, op := range list {
			if strings.HasPrefix(op.Key, "s/") || strings.HasPrefix(op.Key, "b/") {
				bytes += len(op.Value)
			}
		}
		text += len(d.Text)
	}
	if got := float64(ops) / 3000; got > 6 {
		t.Errorf("an append has %.1f operations", got)
	}
	if got := float64(bytes) / float64(text); got > 3 {
		t.Errorf("an append writes %.1f bytes of postings for one of text", got)
	}
}

func TestAppendRefuses(t *testing.T) {
	ix, scope := open(t, nil, chat()...)
	if ops := must(ix.Append(t.Context(), scope, chat()[0]))(t); len(ops) != 0 {
		t.Errorf("adding again what is there takes %d operations", len(ops))
	}
	changed := chat()[0]
	changed.Text = "something else"
	for name, d := range map[string]search.Doc{
		"no id": {Text: "a"}, "long id": {ID: strings.Repeat("x", 301)}, "long text": {ID: "a", Text: strings.Repeat("x", 1<<20+1)},
		"long label": {ID: "a", Speaker: strings.Repeat("x", 1<<10+1)}, "another of the same id": changed,
	} {
		if _, err := ix.Append(t.Context(), scope, d); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	// Deleted, the ID may come back with another text.
	must(0, scope.Apply(t.Context(), must(ix.Delete(t.Context(), scope, "t01"))(t)...))(t)
	add(t, ix, scope, changed)
	if got := ids(find(t, ix, scope, search.Query{Text: "harbour", Floor: -1})); slices.Contains(got, "t01") {
		t.Errorf("found %v by what it said before", got)
	}
	if _, err := scope.Get(t.Context(), "d/t01"); err != nil {
		t.Error(err)
	}
}

func TestLanguage(t *testing.T) {
	if _, err := search.New(&search.Options{Language: "klingon"}); err == nil {
		t.Error("an unknown language is accepted")
	}
	for language, c := range map[string][2]string{
		"french": {"Nous avons acheté des chevaux", "cheval acheter"}, "spanish": {"Compramos manzanas rojas", "manzana"},
		"russian": {"Мы купили красные яблоки", "яблоко"}, "swedish": {"Vi köpte röda äpplen", "äpple"},
		"norwegian": {"Vi kjøpte røde epler", "eple"}, "hungarian": {"A könyveket olvassuk", "könyv"}, "none": {"red apples", "apples"},
	} {
		opts := &search.Options{Language: language}
		ix, scope := open(t, opts, search.Doc{ID: "a", Text: c[0]})
		if got := ids(find(t, ix, scope, search.Query{Text: c[1], Floor: -1})); len(got) != 1 {
			t.Errorf("%s: found %v", language, got)
		}
		english := must(search.New(nil))(t)
		_, err := english.Search(t.Context(), scope, search.Query{Text: "a"})
		if mismatch, ok := errors.AsType[*search.MismatchError](err); !ok || mismatch.Stored != language {
			t.Errorf("%s opened as English: %v", language, err)
		}
		if n := must(search.Rebuild(t.Context(), scope, nil))(t); n != 1 {
			t.Errorf("rebuilt %d documents", n)
		}
		must(english.Search(t.Context(), scope, search.Query{Text: "a"}))(t)
	}
}

func TestCheckAndRebuild(t *testing.T) {
	ctx := t.Context()
	ix, scope := open(t, nil, talk(1500, 11)[:400]...)
	add(t, ix, scope, chat()...)
	var key string
	for k, err := range scope.List(ctx, "s/1/") {
		must(0, err)(t)
		key = k
	}
	value := must(scope.Get(ctx, key))(t)
	value[len(value)/2]++
	must(0, scope.Apply(ctx, storage.Put(key, value)))(t)
	must(0, scope.Apply(ctx, storage.Remove("d/t01")))(t)
	broken := must(search.New(nil))(t)
	if _, err := broken.Search(ctx, scope, search.Query{Text: "boat"}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("search in a damaged index: %v", err)
	}
	faults := 0
	for _, err := range search.Check(ctx, scope) {
		must(0, err)(t)
		faults++
	}
	if faults != 402 { // the segment, its documents, and the one that is gone
		t.Errorf("check finds %d faults", faults)
	}
	if n := must(search.Rebuild(ctx, scope, nil))(t); n != 407 {
		t.Errorf("rebuilt %d documents", n)
	}
	for f, err := range search.Check(ctx, scope) {
		t.Errorf("check after rebuilding: %+v, %v", f, err)
	}
	if got := ids(find(t, broken, scope, search.Query{Text: "boat sail"})); len(got) == 0 || got[0] != "t05" {
		t.Errorf("found %v after rebuilding", got)
	}
}

func TestScopes(t *testing.T) {
	ix, scope := open(t, nil, chat()...)
	other := must(search.New(nil))(t)
	beside := storage.Scope(scope.Adapter(), "_search/b")
	add(t, other, beside, search.Doc{ID: "x", Text: "a boat of theirs"})
	if got := ids(find(t, ix, scope, search.Query{Text: "theirs boat", Floor: -1})); slices.Contains(got, "x") {
		t.Errorf("found %v", got)
	}
	if got := ids(find(t, other, beside, search.Query{Text: "boat"})); !slices.Equal(got, []string{"x"}) {
		t.Errorf("found %v", got)
	}
}

func TestPack(t *testing.T) {
	ix, scope := open(t, nil, chat()...)
	res := find(t, ix, scope, search.Query{Text: "Which colour did Ada paint the boat?", Limit: 3})
	p := search.Pack(res.Hits[:1], 1000, nil)
	want := "[Thu 8 May 2025]\n" +
		"Ben: Which colour did you paint the boat in the end?\n" +
		"Ada: A deep green, we mixed it twice.\n" +
		"Ben: Sounds lovely.\n"
	if diff := cmp.Diff(want, p.Text); diff != "" {
		t.Errorf("packed (-want +got):\n%s", diff)
	}
	for budget := range 120 {
		p := search.Pack(res.Hits, budget, nil)
		if p.Tokens > budget || len(p.Text) > 4*budget {
			t.Fatalf("packed %d tokens, %d bytes in %d", p.Tokens, len(p.Text), budget)
		}
	}
}

// FuzzSegment takes any bytes for the records of an index.
func FuzzSegment(f *testing.F) {
	search.SealEarly(f)
	ix := must(search.New(nil))(f)
	scope := storage.Scope(mem.New(), "_search")
	for _, d := range talk(100, 3) {
		add(f, ix, scope, d)
	}
	add(f, ix, scope, chat()...)
	for e, err := range scope.Scan(f.Context(), "", nil) {
		must(0, err)(f)
		f.Add(e.Value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		scope := storage.Scope(mem.New(), "_search")
		for _, key := range []string{"s/0/a", "s/2/b", "b/b/0000", "b/b/0001", "d/t01", "head"} {
			must(0, scope.Apply(t.Context(), storage.Put(key, value)))(t)
		}
		search.CheckBlock(value)
		_, _ = must(search.New(nil))(t).Search(t.Context(), scope, search.Query{Text: "boat"})
		for _, err := range search.Check(t.Context(), scope) {
			must(0, err)(t)
		}
	})
}

// FuzzQuery finds a text by itself, whatever it is.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{"Which colour?", "de-stress they'll", "東京 タ", "2023-05-08 May", "a\xff-b'\u0301x", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scope := storage.Scope(mem.New(), "_search")
		ix := must(search.New(&search.Options{Language: "none", Ranking: search.Ranking{Floor: -1, Date: -1}}))(t)
		add(t, ix, scope, search.Doc{ID: "a", Text: text[:min(len(text), 1000)]})
		res := must(ix.Search(t.Context(), scope, search.Query{Text: text}))(t)
		if len(res.Hits) == 0 && res.Note == "" {
			t.Errorf("%q: nothing is found and nothing said", text)
		}
	})
}
