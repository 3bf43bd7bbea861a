package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
)

func valueCases() []testCase {
	return []testCase{
		{name: "capabilities", run: capabilities},
		{name: "get-set-delete", run: getSetDelete},
		{name: "hostile-keys", run: hostileKeys},
		{name: "keys-at-the-limit", run: keysAtTheLimit},
		{name: "refused-keys", run: refusedKeys},
		{name: "values", run: values},
		{name: "refused-values", run: refusedValues},
		{name: "numbers-are-kept", run: numbersAreKept},
		{name: "ownership", run: ownership},
		{name: "reopen", run: reopen, durable: true},
	}
}

func capabilities(t *testing.T, e Engine) {
	a := e.open(t)
	have := map[string]bool{}
	_, have["Scanner"] = a.(storage.Scanner)
	_, have["Finder"] = a.(storage.Finder)
	_, have["Watcher"] = a.(storage.Watcher)
	_, have["Statter"] = a.(storage.Statter)
	_, have["Checker"] = a.(storage.Checker)
	_, have["UnreadableLister"] = a.(storage.UnreadableLister)
	_, have["Compacter"] = a.(storage.Compacter)
	_, have["Snapshotter"] = a.(storage.Snapshotter)
	for name, ok := range have {
		if ok != e.has(name) {
			t.Errorf("%s: engine implements it: %t, declared: %t", name, ok, e.has(name))
		}
	}
	ctx := t.Context()
	if !e.has("Snapshotter") {
		_, err := storage.Snapshot(ctx, a)
		wantErr(t, "Snapshot", err, storage.ErrUnsupported)
	}
	if !e.has("Watcher") {
		_, err := storage.Watch(ctx, a, "")
		wantErr(t, "Watch", err, storage.ErrUnsupported)
	}
	if !e.has("Compacter") {
		wantErr(t, "Compact", storage.Compact(ctx, a), storage.ErrUnsupported)
	}
	if !e.has("Checker") {
		for _, err := range storage.Check(ctx, a) {
			wantErr(t, "Check", err, storage.ErrUnsupported)
		}
	}
	if !e.has("Statter") {
		_, err := storage.StatsOf(ctx, a)
		wantErr(t, "StatsOf", err, storage.ErrUnsupported)
	}
}

func getSetDelete(t *testing.T, e Engine) {
	a := e.open(t)
	for _, key := range []string{"insight/a", "_layers/a"} {
		wantGone(t, a, key)
		set(t, a, key, `{"n":1}`)
		want(t, a, key, `{"n":1}`)
		set(t, a, key, `{"n":2,"more":"text"}`)
		want(t, a, key, `{"n":2,"more":"text"}`)
		set(t, a, key, `{}`)
		want(t, a, key, `{}`)
		remove(t, a, key)
		wantGone(t, a, key)
		remove(t, a, key)
		wantGone(t, a, key)
	}
	if _, _, err := a.Get(t.Context(), "insight/a"); !strings.Contains(fmt.Sprint(err), "insight/a") {
		t.Errorf("the error of an absent key does not name it: %v", err)
	}
	sound(t, e, a)
}

// hostileTexts are what people, programs and attackers put into ids.
var hostileTexts = []string{
	"", ".", "..", "...", "../../etc/passwd", "/", "//", "a/b", "a//b", "%", "%2F", "%%", "%e", "_", "_x", "a_b",
	"con", "NUL", "a.md", ".git", "-", "--help", "~", "$HOME", "a b", " a", "a ", "\t", "\n", "\r\n", "\x00", "a\x00b",
	"\x7f", "\u0085", "\u2028", "\ufeff", "é", "e\u0301", "É", "ß", "ı", "İ", "ﬁ", "日本語", "🙂", "\U0010FFFF",
	"\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf", "a\xffb", "\ufffd", `"`, `\`, "'", "`", "<>&", "a:b", "a*b?", "A", "a",
	strings.Repeat("x", 300), strings.Repeat("é", 150),
}

func hostileKeys(t *testing.T, e Engine) {
	a := e.open(t)
	keys := map[string]string{}
	for i, text := range hostileTexts {
		if len(storage.Join(text, text)) > storage.LimitsOf(a).Key-10 {
			continue
		}
		for _, key := range []string{"doc/" + storage.Join(text), "_rec/" + storage.Join(text), "_rec/" + storage.Join(text, text, "x")} {
			if other, ok := keys[key]; ok {
				t.Fatalf("%q and %s have the same key %q", text, other, key)
			}
			value := fmt.Sprintf(`{"n":%d}`, i)
			keys[key] = value
			set(t, a, key, value)
		}
	}
	// Raw keys that EscapeSegment would not produce are valid keys too.
	for i, key := range []string{"doc/raw key", "doc/raw/deeper", "_rec/ra\x00w", "_rec/%", "_rec/_", "_", "_r", "doc/raw\u0085"} {
		value := fmt.Sprintf(`{"raw":%d}`, i)
		keys[key] = value
		set(t, a, key, value)
	}
	for key, value := range keys {
		want(t, a, key, value)
	}
	if got := len(list(t, a, "")); got != len(keys) {
		t.Errorf("List yields %d keys of %d", got, len(keys))
	}
	for key := range keys {
		remove(t, a, key)
	}
	diff(t, "keys left", list(t, a, ""), []string{})
	sound(t, e, a)
}

func keysAtTheLimit(t *testing.T, e Engine) {
	a := e.open(t)
	most := storage.LimitsOf(a).Key
	for _, prefix := range []string{"doc/", "_rec/", "_rec/a/"} {
		longest := prefix + strings.Repeat("k", most-len(prefix))
		wide := prefix + strings.Repeat("é", (most-len(prefix))/2)
		set(t, a, longest, `{"n":1}`)
		set(t, a, wide, `{"n":2}`)
		want(t, a, longest, `{"n":1}`)
		want(t, a, wide, `{"n":2}`)
		twin := longest[:len(longest)-1] + "l" // differs in the last byte
		wantGone(t, a, twin)
		wantErr(t, "Set beyond the limit", storage.Set(t.Context(), a, longest+"k", []byte(`{}`)), storage.ErrInvalid)
	}
}

func refusedKeys(t *testing.T, e Engine) {
	a := e.open(t)
	for _, key := range []string{
		"", "/", "doc", "doc/", "/doc", "doc//a", "doc/a/", "doc/.", "doc/..", "doc/../a", "_rec/", "_rec//a", "_rec/..",
		"Doc/a", "1doc/a", "-doc/a", "do_c/a", "dóc/a", "do.c/a", ".", "..", " doc/a", "doc /a", "doc/\xff", "_rec/\xc3", "_\xff",
		"_rec/" + strings.Repeat("k", storage.LimitsOf(a).Key), strings.Repeat("k", 1<<20),
	} {
		name := fmt.Sprintf("%.40q", key)
		ctx := t.Context()
		_, _, err := a.Get(ctx, key)
		checkInvalid(t, "Get "+name, err)
		checkInvalid(t, "Set "+name, storage.Set(ctx, a, key, []byte(`{}`)))
		checkInvalid(t, "Delete "+name, storage.Delete(ctx, a, key))
		checkInvalid(t, "Apply "+name, a.Apply(ctx, storage.Put("_ok", nil), storage.Put(key, []byte(`{}`))))
	}
	diff(t, "keys", list(t, a, ""), []string{})
}

func checkInvalid(t *testing.T, what string, err error) {
	t.Helper()
	var invalid *storage.InvalidError
	if !errors.As(err, &invalid) || invalid.Rule == "" {
		t.Errorf("%s: error %v, want an InvalidError that names the rule", what, err)
	} else if len(err.Error()) > 600 {
		t.Errorf("%s: error of %d bytes", what, len(err.Error()))
	}
}

func values(t *testing.T, e Engine) {
	a := e.open(t)
	most := storage.LimitsOf(a).Value
	records := [][]byte{{}, {0}, []byte("text"), []byte("\r\n---\n"), {0xff, 0xfe, 0}, bytes.Repeat([]byte{0xA5}, most)}
	for i, value := range records {
		key := fmt.Sprintf("_rec/%d", i)
		set(t, a, key, string(value))
		want(t, a, key, string(value))
	}
	documents := []string{
		`{}`, ` { } `, "{\n\t\"a\" : [ 1 , 2 ] }\r\n", `{"":""}`, `{"a":null,"b":true,"c":false,"d":[],"e":{}}`,
		`{"\u0000":"\u0000","\ud83d\ude42":"🙂","é":"\u00e9","/":"\/","x":"\"\\\b\f\n\r\t"}`,
		`{"body":"line\r\nline\n---\n# title\n","list":["a","b: c","- d","","1","true","null","~"]}`,
		`{"deep":[[[[{"a":[{"b":[]}]}]]]]}`, `{"a":1e400,"b":-0,"c":0.1e-7,"d":123456789012345678901234567890}`,
		`{"_":1,"__proto__":2,"key":"x","type":"y","body":{"not":"text"},"id":7}`,
		`{"big":"` + strings.Repeat("x", most-10) + `"}`,
		strings.Repeat(" ", min(1000, most/2)) + `{"padded":1}`,
	}
	for i, value := range documents {
		key := fmt.Sprintf("doc/%d", i)
		set(t, a, key, value)
		want(t, a, key, value)
	}
	levels := min(5000, most/2-10)
	deep := `{"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`
	set(t, a, "doc/deep", deep)
	want(t, a, "doc/deep", deep)
	sound(t, e, a)
}

func refusedValues(t *testing.T, e Engine) {
	a := e.open(t)
	most := storage.LimitsOf(a).Value
	set(t, a, "doc/a", `{"n":1}`)
	set(t, a, "_rec/a", `n`)
	wide := make([]string, 100)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"f%d":1`, i%99)
	}
	for _, value := range []string{
		``, ` `, `null`, `1`, `"text"`, `[]`, `[{}]`, `{`, `}`, `{}{}`, `{} x`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`,
		`{'a':1}`, `{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":-}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":tru}`,
		`{"a":"` + "\n" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"`, `{"a":"\`, "\ufeff{}", "{}\x00", `{"a":[1,]}`, `{"a":[1 2]}`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"x":{"a":1,"b":2,"a":3}}`, `{"x":[{"a":1,"a":1}]}`, `{` + strings.Join(wide, ",") + `}`,
		`{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud800\ud800"}`, `{"a":"\udc00\ud800"}`, `{"\ud800":1}`, `{"a":"\ud800\u0041"}`,
		"{\"a\":\"\xff\"}", "{\"\xc3\":1}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xc0\xaf\"}",
		`{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
		`{"a":"` + strings.Repeat("x", most-7) + `"}`,
	} {
		checkInvalid(t, fmt.Sprintf("Set %.40q", value), storage.Set(t.Context(), a, "doc/a", []byte(value)))
		checkInvalid(t, fmt.Sprintf("Set new %.40q", value), storage.Set(t.Context(), a, "doc/new", []byte(value)))
	}
	checkInvalid(t, "Set nil", storage.Set(t.Context(), a, "doc/a", nil))
	checkInvalid(t, "Set a record beyond the limit", storage.Set(t.Context(), a, "_rec/a", make([]byte, most+1)))
	want(t, a, "doc/a", `{"n":1}`)
	want(t, a, "_rec/a", `n`)
	wantGone(t, a, "doc/new")
}

func numbersAreKept(t *testing.T, e Engine) {
	a := e.open(t)
	for i, n := range []string{"0", "-0", "1.0", "1", "1.10", "1e2", "1E+2", "100000000000000000000000000000001", "0.1", "1e-400"} {
		key, doc := fmt.Sprintf("doc/%d", i), `{"n":`+n+`,"l":[`+n+`]}`
		set(t, a, key, doc)
		got, _, err := a.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := storage.Canonical(got)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "number "+n, string(text), `{"l":[`+n+`],"n":`+n+`}`)
	}
}

func ownership(t *testing.T, e Engine) {
	a := e.open(t)
	spoil := func(b []byte) {
		for i := range b[:cap(b)] {
			b[:cap(b)][i] = '!'
		}
	}
	for _, key := range []string{"doc/a", "_rec/a"} {
		value := []byte(`{"n":1}`)
		if err := storage.Set(t.Context(), a, key, value); err != nil {
			t.Fatal(err)
		}
		spoil(value)
		want(t, a, key, `{"n":1}`)
		got, _, err := a.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		spoil(got)
		want(t, a, key, `{"n":1}`)
		for e, err := range storage.Scan(t.Context(), a, "", nil) {
			if err != nil {
				t.Fatal(err)
			}
			spoil(e.Value)
		}
		for e, err := range storage.Find(t.Context(), a, storage.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			spoil(e.Value)
		}
		want(t, a, key, `{"n":1}`)
	}
	value := []byte(`{"n":2}`)
	apply(t, a, storage.Put("doc/a", value), storage.Put("_rec/a", value))
	spoil(value)
	want(t, a, "doc/a", `{"n":2}`)
	want(t, a, "_rec/a", `{"n":2}`)
	// Appending to one value of a scan must not reach the next.
	fill(t, e, a, 3)
	var seen []storage.Entry
	for e, err := range storage.Scan(t.Context(), a, "_fill/", nil) {
		if err != nil {
			t.Fatal(err)
		}
		_ = append(e.Value, "overrun overrun"...)
		seen = append(seen, e)
	}
	for i, e := range seen {
		diff(t, e.Key, string(e.Value), fmt.Sprintf("record %d", i))
	}
}

func reopen(t *testing.T, e Engine) {
	dir := t.TempDir()
	a := e.openIn(t, dir)
	keys := fill(t, e, a, 200)
	if err := storage.EnsureIndex(t.Context(), a, "even"); err != nil {
		t.Fatal(err)
	}
	before := version(t, a, keys[0])
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = e.openIn(t, dir)
	diff(t, "keys", list(t, a, ""), keys)
	if got := version(t, a, keys[0]); got != before {
		t.Errorf("version is %q after reopening, was %q", got, before)
	}
	remove(t, a, keys[0])
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = e.openIn(t, dir)
	set(t, a, keys[0], "other")
	if got := version(t, a, keys[0]); got == before {
		t.Errorf("version %q came back after delete, reopen and another value", got)
	}
	found := keysOf(t, storage.Find(t.Context(), a, storage.Query{Equal: map[string]string{"even": "true"}}))
	if len(found) != 100 {
		t.Errorf("Find yields %d documents after reopening, want 100", len(found))
	}
	sound(t, e, a)
}
