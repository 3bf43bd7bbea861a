package storagetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
)

func findCases() []testCase {
	return []testCase{
		{name: "find", run: find},
		{name: "find-values", run: findValues},
		{name: "find-long-values", run: findLongValues},
		{name: "find-undeclared", run: findUndeclared, needs: []string{"Finder"}},
		{name: "index-declared-late", run: declaredLate},
		{name: "index-follows-changes", run: indexFollows},
		{name: "find-against-filter", run: findAgainstFilter},
	}
}

func wantFound(t *testing.T, a storage.Adapter, q storage.Query, keys ...string) {
	t.Helper()
	if keys == nil {
		keys = []string{}
	}
	diff(t, fmt.Sprintf("Find %s", describe(q)), keysOf(t, storage.Find(t.Context(), a, q)), keys)
}

func describe(q storage.Query) string {
	text := fmt.Sprintf("prefix %q equal %.200q limit %d", q.Prefix, q.Equal, q.Limit)
	if q.Range != nil {
		text += fmt.Sprintf(" range %.200q", *q.Range)
	}
	return text
}

func declare(t testing.TB, a storage.Adapter, fields ...string) {
	t.Helper()
	if err := storage.EnsureIndex(t.Context(), a, fields...); err != nil {
		t.Fatalf("EnsureIndex %q: %v", fields, err)
	}
}

type fields = map[string]string

func find(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "status", "tags", "created")
	declare(t, a, "status") // declaring again changes nothing
	set(t, a, "insight/a", `{"status":"active","tags":["x","y"],"created":"2026-01-01"}`)
	set(t, a, "insight/b", `{"status":"active","tags":["y"],"created":"2026-02-01"}`)
	set(t, a, "insight/c", `{"status":"old","tags":[],"created":"2026-03-01"}`)
	set(t, a, "task/a", `{"status":"active","tags":"y","created":"2026-02-15"}`)
	set(t, a, "task/b", `{"other":"active"}`)
	set(t, a, "_rec/a", `{"status":"active","tags":["y"]}`)

	wantFound(t, a, storage.Query{}, "insight/a", "insight/b", "insight/c", "task/a", "task/b")
	wantFound(t, a, storage.Query{Prefix: "task/"}, "task/a", "task/b")
	wantFound(t, a, storage.Query{Prefix: "_rec/"})
	wantFound(t, a, storage.Query{Limit: 2}, "insight/a", "insight/b")
	wantFound(t, a, storage.Query{Equal: fields{"status": "active"}}, "insight/a", "insight/b", "task/a")
	wantFound(t, a, storage.Query{Equal: fields{"status": "active"}, Limit: 2}, "insight/a", "insight/b")
	wantFound(t, a, storage.Query{Prefix: "insight/", Equal: fields{"status": "active"}}, "insight/a", "insight/b")
	wantFound(t, a, storage.Query{Prefix: "t", Equal: fields{"status": "active"}}, "task/a")
	wantFound(t, a, storage.Query{Prefix: "_", Equal: fields{"status": "active"}})
	wantFound(t, a, storage.Query{Equal: fields{"status": "activ"}})
	wantFound(t, a, storage.Query{Equal: fields{"status": ""}})
	wantFound(t, a, storage.Query{Equal: fields{"tags": "y"}}, "insight/a", "insight/b", "task/a")
	wantFound(t, a, storage.Query{Equal: fields{"tags": "y", "status": "active", "created": "2026-02-01"}}, "insight/b")
	wantFound(t, a, storage.Query{Equal: fields{"tags": "x", "status": "old"}})
	created := func(from, to string) *storage.Range { return &storage.Range{Field: "created", From: from, To: to} }
	wantFound(t, a, storage.Query{Range: created("2026-02", "2026-03")}, "insight/b", "task/a")
	wantFound(t, a, storage.Query{Range: created("2026-02-01", "2026-03-01")}, "insight/b", "task/a")
	wantFound(t, a, storage.Query{Range: created("", "2026-02-01")}, "insight/a")
	wantFound(t, a, storage.Query{Range: created("2026-02-15", "")}, "insight/c", "task/a")
	wantFound(t, a, storage.Query{Range: created("", "")}, "insight/a", "insight/b", "insight/c", "task/a")
	wantFound(t, a, storage.Query{Range: created("3", "2")})
	wantFound(t, a, storage.Query{Range: created("2026-01-15", ""), Equal: fields{"status": "active"}}, "insight/b", "task/a")
	wantFound(t, a, storage.Query{Range: created("2026-01-15", ""), Equal: fields{"status": "active"}, Prefix: "insight/"}, "insight/b")
	wantFound(t, a, storage.Query{Range: created("", ""), Limit: 3}, "insight/a", "insight/b", "insight/c")
	wantFound(t, a, storage.Query{Range: &storage.Range{Field: "tags", From: "x", To: "z"}}, "insight/a", "insight/b", "task/a")

	for entry, err := range storage.Find(t.Context(), a, storage.Query{Equal: fields{"status": "old"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if !equal(entry.Key, entry.Value, []byte(`{"status":"old","tags":[],"created":"2026-03-01"}`)) {
			t.Errorf("Find yields %q", entry.Value)
		}
		if e.has("Finder") && entry.Version != version(t, a, entry.Key) {
			t.Errorf("Find yields version %q", entry.Version)
		}
	}
	sound(t, e, a)
}

// findValues specifies the values of a field.
func findValues(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "f", "a\x00b", `quo"te`, "ünï")
	for key, value := range map[string]string{
		"doc/string": `{"f":"1"}`, "doc/number": `{"f":1}`, "doc/float": `{"f":1.0}`, "doc/true": `{"f":true}`,
		"doc/null": `{"f":null}`, "doc/object": `{"f":{"f":"1"}}`, "doc/none": `{}`, "doc/empty": `{"f":""}`, "doc/emptylist": `{"f":[]}`,
		"doc/list": `{"f":["1",1,"1",true,null,{"x":"1"},["1"]]}`, "doc/nested": `{"g":{"f":"1"}}`, "doc/listlist": `{"f":[["1"]]}`,
		"doc/escape": `{"f":"\u0031"}`, "doc/nameescape": `{"\u0066":"1"}`, "doc/nul": `{"f":"1\u0000"}`, "doc/nul2": `{"f":"1\u0000\u0001x"}`,
		"doc/field": `{"a\u0000b":"1","quo\"te":"1","ünï":"é\ud83d\ude42"}`, "doc/slash": `{"f":"a/b\u0000\u00ff"}`,
	} {
		set(t, a, key, value)
	}
	wantFound(t, a, storage.Query{Equal: fields{"f": "1"}}, "doc/escape", "doc/list", "doc/nameescape", "doc/number", "doc/string")
	wantFound(t, a, storage.Query{Equal: fields{"f": "1.0"}}, "doc/float")
	wantFound(t, a, storage.Query{Equal: fields{"f": "true"}}, "doc/list", "doc/true")
	wantFound(t, a, storage.Query{Equal: fields{"f": "null"}})
	wantFound(t, a, storage.Query{Equal: fields{"f": ""}}, "doc/empty")
	wantFound(t, a, storage.Query{Equal: fields{"f": "1\x00"}}, "doc/nul")
	wantFound(t, a, storage.Query{Equal: fields{"f": "1\x00\x01x"}}, "doc/nul2")
	wantFound(t, a, storage.Query{Equal: fields{"f": "a/b\x00ÿ"}}, "doc/slash")
	wantFound(t, a, storage.Query{Equal: fields{"a\x00b": "1", `quo"te`: "1", "ünï": "é🙂"}}, "doc/field")
	wantFound(t, a, storage.Query{Range: &storage.Range{Field: "f", From: "1\x00", To: "1\x00\x01"}}, "doc/nul")
	wantFound(t, a, storage.Query{Range: &storage.Range{Field: "f", From: "1", To: "1\x00"}},
		"doc/escape", "doc/list", "doc/nameescape", "doc/number", "doc/string")
	wantFound(t, a, storage.Query{Range: &storage.Range{Field: "f", To: "1"}}, "doc/empty")
	if e.has("Finder") {
		checkInvalid(t, "EnsureIndex of an empty name", storage.EnsureIndex(t.Context(), a, ""))
		checkInvalid(t, "EnsureIndex of a long name", storage.EnsureIndex(t.Context(), a, strings.Repeat("x", 10_000)))
	}
	sound(t, e, a)
}

// findLongValues: an index may cut the values that it keeps, a query may not.
func findLongValues(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "f", "g")
	long := strings.Repeat("x", min(5000, storage.LimitsOf(a).Value-50))
	put := func(key, f string) { set(t, a, key, `{"f":"`+f+`","g":"1"}`) }
	put("doc/a", long)
	put("doc/b", long+"b")
	put("doc/c", long+"c")
	put("doc/d", long[:256])
	put("doc/e", long[:257])
	put("doc/z", strings.Repeat("é", len(long)/3))
	for key, value := range (fields{"doc/a": long, "doc/b": long + "b", "doc/c": long + "c", "doc/d": long[:256], "doc/e": long[:257]}) {
		wantFound(t, a, storage.Query{Equal: fields{"f": value}}, key)
		wantFound(t, a, storage.Query{Equal: fields{"f": value, "g": "1"}, Limit: 1}, key)
	}
	wantFound(t, a, storage.Query{Equal: fields{"f": long + "d"}})
	in := func(from, to string, keys ...string) {
		t.Helper()
		wantFound(t, a, storage.Query{Range: &storage.Range{Field: "f", From: from, To: to}}, keys...)
	}
	in(long, long+"c", "doc/a", "doc/b")
	in(long+"b", "", "doc/b", "doc/c", "doc/z")
	in("", long, "doc/d", "doc/e")
	in(long[:256], long[:257], "doc/d")
	in(long[:257], long[:258], "doc/e")
	put("doc/a", long+"c")
	remove(t, a, "doc/c")
	wantFound(t, a, storage.Query{Equal: fields{"f": long + "c"}}, "doc/a")
	wantFound(t, a, storage.Query{Equal: fields{"f": long}})
	sound(t, e, a)
}

func findUndeclared(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "a")
	for _, q := range []storage.Query{
		{Equal: fields{"b": "1"}}, {Equal: fields{"a": "1", "b": "1"}}, {Range: &storage.Range{Field: "b"}}, {Equal: fields{"": "1"}},
	} {
		n := 0
		for _, err := range storage.Find(t.Context(), a, q) {
			checkInvalid(t, "Find "+describe(q), err)
			n++
		}
		if n != 1 {
			t.Errorf("Find %s yields %d times", describe(q), n)
		}
	}
}

func declaredLate(t *testing.T, e Engine) {
	a := e.open(t)
	fill(t, e, a, 300)
	declare(t, a, "even")
	if got := len(keysOf(t, storage.Find(t.Context(), a, storage.Query{Equal: fields{"even": "true"}}))); got != 150 {
		t.Errorf("Find yields %d documents of 150", got)
	}
	declare(t, a, "n", "even", "n")
	wantFound(t, a, storage.Query{Equal: fields{"even": "true", "n": "42"}}, "fill/000042")
	if e.has("Statter") && e.has("Finder") {
		st, err := storage.StatsOf(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "declared fields", st.Indexes, []string{"even", "n"})
	}
	sound(t, e, a)
}

func indexFollows(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "f")
	set(t, a, "doc/a", `{"f":["1","2","2"]}`)
	set(t, a, "doc/a", `{"f":["2","3"]}`)
	wantFound(t, a, storage.Query{Equal: fields{"f": "1"}})
	wantFound(t, a, storage.Query{Equal: fields{"f": "2"}}, "doc/a")
	wantFound(t, a, storage.Query{Equal: fields{"f": "3"}}, "doc/a")
	set(t, a, "doc/a", `{"f":"4","g":1}`)
	wantFound(t, a, storage.Query{Equal: fields{"f": "2"}})
	wantFound(t, a, storage.Query{Equal: fields{"f": "4"}}, "doc/a")
	remove(t, a, "doc/a")
	wantFound(t, a, storage.Query{Equal: fields{"f": "4"}})
	set(t, a, "doc/a", `{"g":1}`)
	wantFound(t, a, storage.Query{Range: &storage.Range{Field: "f"}})
	apply(t, a, storage.Put("doc/b", []byte(`{"f":"1"}`)), storage.Put("doc/b", []byte(`{"f":"2"}`)),
		storage.Put("doc/c", []byte(`{"f":"1"}`)), storage.Remove("doc/c"))
	wantFound(t, a, storage.Query{Range: &storage.Range{Field: "f"}}, "doc/b")
	wantFound(t, a, storage.Query{Equal: fields{"f": "2"}}, "doc/b")
	err := a.Apply(t.Context(), storage.Put("doc/b", []byte(`{"f":"3"}`)), storage.Put("doc/b", []byte(`{}`)).IfAbsent())
	wantErr(t, "Apply", err, storage.ErrConflict)
	wantFound(t, a, storage.Query{Equal: fields{"f": "2"}}, "doc/b")
	wantFound(t, a, storage.Query{Equal: fields{"f": "3"}})
	sound(t, e, a)
}

// findAgainstFilter compares random queries on random documents with a filter
// without indexes.
func findAgainstFilter(t *testing.T, e Engine) {
	a := e.open(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	docs := map[string]string{}
	names := []string{"a", "b", "c"}
	declare(t, a, "a")
	for i := range 600 {
		key := fmt.Sprintf("%s/%d", []string{"x", "xy", "z"}[rnd.IntN(3)], rnd.IntN(150))
		switch rnd.IntN(4) {
		case 0:
			remove(t, a, key)
			delete(docs, key)
		default:
			docs[key] = randomDocument(rnd, names)
			set(t, a, key, docs[key])
		}
		if i == 300 {
			declare(t, a, names...)
		}
		if i < 300 || i%4 != 0 {
			continue
		}
		q := randomQuery(rnd, names)
		wantFound(t, a, q, naiveFind(docs, q)...)
	}
	sound(t, e, a)
}

func randomDocument(rnd *rand.Rand, names []string) string {
	var parts []string
	for _, name := range names {
		value := func() string {
			return []string{`"p"`, `"q"`, `"qq"`, `""`, `1`, `true`, `null`, `"\u0071"`}[rnd.IntN(8)]
		}
		switch rnd.IntN(4) {
		case 0:
			parts = append(parts, fmt.Sprintf(`%q:[%s,%s]`, name, value(), value()))
		case 1, 2:
			parts = append(parts, fmt.Sprintf(`%q:%s`, name, value()))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func randomQuery(rnd *rand.Rand, names []string) storage.Query {
	values := []string{"p", "q", "qq", "", "1", "true", "null", "r"}
	q := storage.Query{Prefix: []string{"", "x", "x/", "xy/", "z/1", "_"}[rnd.IntN(6)], Limit: rnd.IntN(3) * rnd.IntN(10)}
	for _, name := range names {
		if rnd.IntN(3) == 0 {
			if q.Equal == nil {
				q.Equal = fields{}
			}
			q.Equal[name] = values[rnd.IntN(len(values))]
		}
	}
	if rnd.IntN(3) == 0 {
		q.Range = &storage.Range{Field: names[rnd.IntN(3)], From: values[rnd.IntN(8)], To: values[rnd.IntN(8)]}
	}
	return q
}

func naiveFind(docs map[string]string, q storage.Query) []string {
	keys := []string{}
	for key, document := range docs {
		if q.Match(key, []byte(document)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if q.Limit > 0 && len(keys) > q.Limit {
		keys = keys[:q.Limit]
	}
	return keys
}
