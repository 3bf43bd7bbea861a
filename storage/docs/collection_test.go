package docs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/docs"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
	"github.com/stratamem/strata/storage/vault"
)

// eachEngine runs a test on every engine.
func eachEngine(t *testing.T, f func(t *testing.T, store storage.Adapter)) {
	none := storage.None
	for name, open := range map[string]func(dir string) (storage.Adapter, error){
		"mem": func(string) (storage.Adapter, error) { return mem.New(), nil },
		"bolt": func(dir string) (storage.Adapter, error) {
			return bolt.Open(t.Context(), filepath.Join(dir, "db"), &bolt.Options{Durability: none})
		},
		"badger": func(dir string) (storage.Adapter, error) {
			return badger.Open(t.Context(), dir, &badger.Options{Durability: none})
		},
		"vault": func(dir string) (storage.Adapter, error) {
			return vault.Open(t.Context(), dir, &vault.Options{Durability: none})
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			f(t, store)
		})
	}
}

func openMem(t *testing.T) storage.Adapter {
	store := mem.New()
	t.Cleanup(func() { store.Close() })
	return store
}

func collection(t *testing.T, store storage.Adapter, owner docs.Owner, name string) *docs.Collection {
	t.Helper()
	c, err := docs.Open(store, owner, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// document makes one of passages of a line each.
func document(name string, texts ...string) docs.Document {
	d := docs.Document{File: docs.File{Name: name, Kind: docs.Text, Digest: strings.Join(texts, "|")}}
	for i, text := range texts {
		d.Passages = append(d.Passages, docs.Passage{First: 2*i + 1, Last: 2*i + 2, Heading: "Manual > " + name, Text: text})
	}
	return d
}

func put(t *testing.T, c *docs.Collection, list ...docs.Document) {
	t.Helper()
	if err := c.Put(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
}

// found returns what a query finds, as places.
func found(t *testing.T, c *docs.Collection, q docs.Query) []string {
	t.Helper()
	res, err := c.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if (len(res.Hits) == 0) == (res.Note == "") {
		t.Errorf("%d hits with note %q", len(res.Hits), res.Note)
	}
	var list []string
	for i := range res.Hits {
		list = append(list, res.Hits[i].Cite())
	}
	return list
}

// expect says what a query finds first; "" nothing.
func expect(t *testing.T, c *docs.Collection, query, want string) {
	t.Helper()
	got := ""
	if list := found(t, c, docs.Query{Text: query}); len(list) > 0 {
		got = list[0]
	}
	if got != want {
		t.Errorf("%s: found %q, want %q", query, got, want)
	}
}

func names(t *testing.T, c *docs.Collection) []string {
	t.Helper()
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range list {
		if f.Partial {
			f.Name += "?"
		}
		out = append(out, fmt.Sprintf("%s %d", f.Name, f.Passages))
	}
	return out
}

// sound checks a collection, and how many passages it has.
func sound(t *testing.T, store storage.Adapter, passages int) {
	t.Helper()
	for f, err := range collection(t, store, docs.Owner{}, "x").Check(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Reason != "document is not whole" {
			t.Errorf("fault: %+v", f)
		}
	}
	n := 0
	for _, err := range store.List(t.Context(), "_docs/%/%/x/i/d/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != passages {
		t.Errorf("the index has %d passages, want %d", n, passages)
	}
}

func TestCollection(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		c := collection(t, store, docs.Owner{}, "x")
		expect(t, c, "anything", "")
		if ok, err := c.Exists(t.Context()); ok || err != nil {
			t.Errorf("exists: %v, %v before anything was put", ok, err)
		}
		put(t, c,
			document("a/pump.md", "Grease the bearing every month.", "The impeller is made of bronze."),
			document("a/valve.md", "Close the valve clockwise."),
			document("b.md"))
		expect(t, c, "how do I grease a bearing", "a/pump.md:1-2")
		if diff := cmp.Diff([]string{"a/pump.md 2", "a/valve.md 1", "b.md 0"}, names(t, c)); diff != "" {
			t.Error(diff)
		}
		res, err := c.Search(t.Context(), docs.Query{Text: "impeller bronze"})
		if err != nil {
			t.Fatal(err)
		}
		hit := res.Hits[0]
		want := docs.Passage{File: "a/pump.md", Kind: docs.Text, First: 3, Last: 4, Heading: "Manual > a/pump.md", Text: "The impeller is made of bronze."}
		if diff := cmp.Diff(want, hit.Passage); diff != "" {
			t.Errorf("passage (-want +got):\n%s", diff)
		}
		if _, _, err := store.Get(t.Context(), hit.Key); err != nil {
			t.Errorf("the key of a hit: %v", err)
		}

		// In the place of the old text.
		put(t, c, document("a/pump.md", "Grease the bearing every week.", "The impeller is made of steel."))
		expect(t, c, "impeller bronze alloy", "")
		expect(t, c, "impeller steel", "a/pump.md:3-4")
		sound(t, store, 3)

		// Another instance sees it, and what is removed is not found.
		other := collection(t, store, docs.Owner{}, "x")
		expect(t, other, "impeller steel", "a/pump.md:3-4")
		gone, err := c.Remove(t.Context(), "a/pump.md", "nothing.md", "a")
		if err != nil || !slices.Equal(gone, []string{"a/pump.md"}) {
			t.Errorf("removed %q, %v", gone, err)
		}
		expect(t, other, "impeller steel", "")
		expect(t, other, "valve clockwise", "a/valve.md:1-2")
		sound(t, store, 1)
	})
}

func TestFilter(t *testing.T) {
	c := collection(t, openMem(t), docs.Owner{}, "x")
	code := document("src/pump.go", "pump stops the motor")
	code.Kind = docs.Code
	put(t, c, code, document("doc/pump.md", "pump moves water"), document("doc.md", "pump is red"), document("/abs/pump.md", "pump hums"))
	for _, test := range []struct {
		q    docs.Query
		want []string
	}{
		{docs.Query{Kinds: []string{docs.Code}}, []string{"src/pump.go:1-2"}},
		{docs.Query{Files: []string{"doc"}}, []string{"doc/pump.md:1-2"}},
		{docs.Query{Files: []string{"doc/", "src/pump.go"}}, []string{"doc/pump.md:1-2", "src/pump.go:1-2"}},
		{docs.Query{Files: []string{"/"}}, []string{"/abs/pump.md:1-2"}},
		{docs.Query{Files: []string{"."}}, []string{"doc.md:1-2", "doc/pump.md:1-2", "src/pump.go:1-2"}},
		{docs.Query{Files: []string{"do"}}, nil},
		{docs.Query{Floor: 9}, nil},
		{docs.Query{Limit: 1, Files: []string{"src"}}, []string{"src/pump.go:1-2"}},
	} {
		test.q.Text = "pump"
		got := found(t, c, test.q)
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.q, diff)
		}
	}
}

// Nobody finds, lists or removes what is in the collection of another, whatever
// their names are.
func TestOwnersApart(t *testing.T) {
	store := openMem(t)
	type place struct {
		owner docs.Owner
		name  string
	}
	var places []place
	for _, id := range []string{"", "anna", "anna/x", "%", "..", "Anna"} {
		for _, kind := range []string{"", "resource", "thread"} {
			for _, name := range []string{"a", "a/x", "A"} {
				places = append(places, place{docs.Owner{Kind: kind, ID: id}, name})
			}
		}
	}
	for i, p := range places {
		put(t, collection(t, store, p.owner, p.name), document("secret.md", fmt.Sprintf("the secret word is w%d", i)))
	}
	for i, p := range places {
		c := collection(t, store, p.owner, p.name)
		res, err := c.Search(t.Context(), docs.Query{Text: "secret word", Floor: -1})
		if err != nil || len(res.Hits) != 1 || res.Hits[0].Text != fmt.Sprintf("the secret word is w%d", i) {
			t.Errorf("%+v finds %v, %v", p, res.Hits, err)
		}
	}
	var all []docs.Place
	for p, err := range docs.Places(t.Context(), store) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, p := range places {
		if !slices.Contains(all, docs.Place{Owner: p.owner, Name: p.name}) {
			t.Errorf("%+v is not listed", p)
		}
	}
	if len(all) != len(places) {
		t.Errorf("%d collections are listed, of %d", len(all), len(places))
	}
	if _, err := collection(t, store, places[0].owner, "a").Remove(t.Context(), "secret.md"); err != nil {
		t.Fatal(err)
	}
	for _, p := range places[1:] {
		if got := names(t, collection(t, store, p.owner, p.name)); len(got) != 1 {
			t.Errorf("%+v has %q after another removed its own", p, got)
		}
	}
}

func TestLanguage(t *testing.T) {
	store := openMem(t)
	open := func(language string) *docs.Collection {
		c, err := docs.Open(store, docs.Owner{}, "fr", &docs.Options{Language: language})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	put(t, open("french"), document("a.md", "les chevaux mangent"))
	expect(t, open(""), "cheval", "a.md:1-2")
	_, err := open("english").Search(t.Context(), docs.Query{Text: "cheval"})
	if m, ok := errors.AsType[*search.MismatchError](err); !ok || m.Stored != "french" {
		t.Errorf("search in another language: %v", err)
	}
	if err := open("english").Put(t.Context(), document("b.md", "horse")); err == nil {
		t.Error("a put in another language went through")
	}
}

func TestRefused(t *testing.T) {
	store := openMem(t)
	for _, open := range []func() (*docs.Collection, error){
		func() (*docs.Collection, error) { return docs.Open(store, docs.Owner{}, strings.Repeat("x", 300), nil) },
		func() (*docs.Collection, error) { return docs.Open(store, docs.Owner{ID: "\xff"}, "x", nil) },
		func() (*docs.Collection, error) {
			return docs.Open(store, docs.Owner{}, "x", &docs.Options{Language: "klingon"})
		},
	} {
		if _, err := open(); err == nil {
			t.Error("opened")
		}
	}
	c := collection(t, store, docs.Owner{}, "x")
	long := document(strings.Repeat("x", 901))
	bad := document("a.md", "text\xff")
	nowhere := document("a.md", "text")
	nowhere.Passages[0].First = 0
	for _, d := range []docs.Document{{}, long, bad, nowhere, document("\xff")} {
		if err := c.Put(t.Context(), document("good.md", "good"), d); err == nil {
			t.Errorf("%.20q was put", d.Name)
		}
	}
	if got := names(t, c); got != nil {
		t.Errorf("%q is there after nothing was put", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Put(ctx, document("a.md", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("put with a context that ended: %v", err)
	}
	if err := storage.Set(t.Context(), store, "_docs/%/%/x/head", []byte(`{"format":2,"language":"english"}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), document("a.md", "x")); !errors.Is(err, storage.ErrNewer) {
		t.Errorf("put into a newer format: %v", err)
	}
	if err := storage.Set(t.Context(), store, "_docs/%/%/x/head", []byte("noise")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Search(t.Context(), docs.Query{Text: "x"}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("search with a damaged head: %v", err)
	}
	if err := storage.Set(t.Context(), store, "_docs/%/%/x/f/0000000000000000", []byte(`{"name":"y"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(t.Context()); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("list with a damaged record: %v", err)
	}
}

// Headings are of one line and bounded, whoever makes them; the text stays as
// it is.
func TestHeadings(t *testing.T) {
	c := collection(t, openMem(t), docs.Owner{}, "x")
	d := document("a: 1-2.md", "\n  indented zebra\n\n")
	d.Passages[0].Heading = "one\ntwo\xff " + strings.Repeat("ü", 400)
	d.Modified = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	put(t, c, d)
	res, err := c.Search(t.Context(), docs.Query{Text: "zebra"})
	if err != nil || len(res.Hits) != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	p := res.Hits[0].Passage
	if p.Text != "\n  indented zebra\n\n" || !strings.HasPrefix(p.Heading, "one two\uFFFD üü") || len(p.Heading) > 300 || p.Cite() != "a: 1-2.md:1-2" {
		t.Errorf("%q in %q at %s", p.Text, p.Heading, p.Cite())
	}
}
