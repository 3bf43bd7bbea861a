package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/internal/jsonvalue"
)

// TestCheck holds texts that readers of JSON disagree on.
func TestCheck(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"a":2}`:                        "duplicate names",
		`{"a":1,"\u0061":2}`:                   "duplicate names", // the same name, once in escapes
		`[{"x":{"b":[{"a":1,"\u0061":2}]}}]`:   "duplicate names",
		`"\ud800"`:                             "lone surrogate",
		`"\udc00\ud800"`:                       "lone surrogate",
		`{"\ud83d":1}`:                         "lone surrogate",
		"\"\xff\"":                             "invalid UTF-8",
		"{\"\xc3\":1}":                         "invalid UTF-8",
		"\"\xed\xa0\x80\"":                     "invalid UTF-8", // a surrogate, encoded
		"\"\xc0\xaf\"":                         "invalid UTF-8", // "/", longer than it may be
		"\"a\nb\"":                             "control character",
		`01`:                                   "something follows",
		`-`:                                    "without digits",
		`1.`:                                   "without digits",
		`1e`:                                   "without digits",
		`NaN`:                                  "no value",
		`.5`:                                   "no value",
		`{"a":1,}`:                             "without a name",
		`[1,]`:                                 "no value",
		`{a:1}`:                                "without a name",
		`{"a" 1}`:                              "without a colon",
		`"\x41"`:                               "unknown escape",
		`"\u00g0"`:                             "bad \\u escape",
		`{} {}`:                                "something follows",
		"\xef\xbb\xbf{}":                       "no value",
		``:                                     "no value",
		`"`:                                    "without an end",
		strings.Repeat("[", 10_001):            "10,000 deep",
		strings.Repeat(`{"a":`, 10_001) + "1":  "10,000 deep",
		`1234567890123456789012345678901234.5`: "",
		`1E+400`:                               "",
		`-0`:                                   "",
		` [ null , true , "\ud83d\ude42" ] `:   "",
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000): "",
	} {
		if rule := jsonvalue.Check([]byte(in)); (rule == "") != (want == "") || !strings.Contains(rule, want) {
			t.Errorf("Check(%.40q) = %q, want %q", in, rule, want)
		}
	}
}

func TestMembers(t *testing.T) {
	v := jsonvalue.Of([]byte(" {\"\\u0061\\\"/\" : \"x\\ny\", \"n\":123456789012345678901234567890.50, \"\":null,\n\"deep\":{\"n\":[1,{\"}\":\"]\\\\\"}]} , \"list\":[ \"p\" ,2,true,null,[\"q\"],{\"r\":1} ]}\t"))
	got := map[string]string{}
	for name, value := range v.Members() {
		got[string(name)] = string(value)
	}
	want := map[string]string{
		`a"/`: `"x\ny"`, "n": "123456789012345678901234567890.50", "": "null",
		"deep": `{"n":[1,{"}":"]\\"}]}`, "list": `[ "p" ,2,true,null,["q"],{"r":1} ]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Members: (-want +got)\n%s", diff)
	}
	var fields []string
	for name, text := range v.Fields("list", "n", "deep", "", `a"/`, "absent") {
		fields = append(fields, name+"="+text)
	}
	wantFields := []string{"a\"/=x\ny", "n=123456789012345678901234567890.50", "list=p", "list=2", "list=true"}
	if diff := cmp.Diff(wantFields, fields); diff != "" {
		t.Errorf("Fields: (-want +got)\n%s", diff)
	}
	for range v.Fields("list") {
		break // which ends it
	}
	for _, scalar := range []string{`"a"`, `1`, `null`, `true`} {
		for range jsonvalue.Of([]byte(scalar)).Members() {
			t.Errorf("%s has members", scalar)
		}
		for range jsonvalue.Of([]byte(scalar)).Elements() {
			t.Errorf("%s has elements", scalar)
		}
	}
}

// FuzzValue compares what is read in place with what encoding/json decodes.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.50,{"b":null}],"":"\u00e9\ud83d\ude42\/"}`, `[[],{},""]`, `{"a\\":"\\\"","b\"":{"}":"]"}}`, ` true `, `-0.1e+7`,
		`{"\u0061":{"\n":[[[]]]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if jsonvalue.Check(in) != "" {
			return
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(in))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", in, err)
		}
		v := jsonvalue.Of(in)
		if diff := cmp.Diff(want, v.Any()); diff != "" {
			t.Errorf("Any of %q: (-want +got)\n%s", in, diff)
		}
		switch want := want.(type) {
		case map[string]any:
			got := map[string]any{}
			for name, value := range v.Members() {
				got[string(name)] = value.Any()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("members of %q: (-want +got)\n%s", in, diff)
			}
			for range v.Fields(slices.Collect(maps.Keys(want))...) {
			}
		case []any:
			got := []any{}
			for value := range v.Elements() {
				got = append(got, value.Any())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("elements of %q: (-want +got)\n%s", in, diff)
			}
		case string:
			if got, ok := v.Text(); !ok || got != want {
				t.Errorf("text of %q is %q, want %q", in, got, want)
			}
		}
	})
}

// BenchmarkMembers reads a document of knowledge as package soma does.
func BenchmarkMembers(b *testing.B) {
	document := []byte(`{"type":"insight","id":"a","name":"A name","status":"active","tags":["a","b"],"created":"2026-01-01T00:00:00Z",` +
		`"evidence_links":[{"id":"execution/x","digest":"0123456789abcdef"}],"confidence_score":0.75,"body":"` + strings.Repeat(`lorem \"ipsum\" dolor\n`, 50) + `"}`)
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		if rule := jsonvalue.Check(document); rule != "" {
			b.Fatal(rule)
		}
		for name, value := range jsonvalue.Of(document).Members() {
			if string(name) == "body" {
				_, _ = value.Text()
			} else {
				_ = value.Any()
			}
		}
	}
}
