package vault_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
	"gopkg.in/yaml.v3"
)

var longKey = "doc/" + strings.Repeat("k", 400)

// longestName is the length of the longest of all names in a JSON value.
func longestName(value any) (longest int) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			longest = max(longest, len(name), longestName(v))
		}
	case []any:
		for _, v := range value {
			longest = max(longest, longestName(v))
		}
	}
	return longest
}

// roundTrip checks that a document comes back from its file, also over a file
// that held something else, and that another YAML parser reads the file.
func roundTrip(t *testing.T, key string, document []byte) {
	t.Helper()
	want, err := storage.Canonical(document)
	if err != nil {
		t.Fatal(err)
	}
	file := vault.Encode(key, document)
	check := func(what string, file []byte) {
		t.Helper()
		got, err := vault.Decode(key, file)
		if err != nil {
			t.Fatalf("%s: %v\n%.400q\n%.400q", what, err, document, file)
		}
		if err := storage.ValidateEntry(key, got); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, _ = storage.Canonical(got); !bytes.Equal(got, want) {
			t.Fatalf("%s: got %.400q\nwant %.400q\nfile %.400q", what, got, want, file)
		}
	}
	check("new", file)
	for _, before := range []string{
		"---\nb: 1\n# why\na:   [x,   y]   # note\nbody: {}\n---\n", "no front matter", "---\n\"\": 1\nkey: k\n_key: x\n\n# end\n---\ntext\n",
	} {
		updated, err := vault.Update("doc/a", []byte(before), document)
		if err != nil {
			t.Fatal(err)
		}
		if key == "doc/a" {
			check("update", updated)
		}
	}
	again, err := vault.Update(key, file, document)
	if err != nil || !bytes.Equal(again, file) {
		t.Fatalf("written again: %v\n%q\n%q", err, again, file)
	}
	matter, _, ok := bytes.Cut(file[4:], []byte("---\n"))
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		return // a number beyond float64
	}
	// YAML's keys without a question mark end at 1,024 characters, as written.
	if ok && len(file) < 20_000 && !bytes.Contains(document, []byte(`[[[[[[`)) && longestName(value) < 150 {
		var node yaml.Node
		if err := yaml.Unmarshal(matter, &node); err != nil {
			t.Fatalf("no YAML: %v\n%q", err, matter)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, document := range []string{
		`{}`, ` { } `, "{\n\t\"a\" : [ 1 , 2 ] }\r\n", `{"":""}`, `{"a":null,"b":true,"c":false,"d":[],"e":{}}`,
		`{"\u0000":"\u0000","\ud83d\ude42":"🙂","é":"\u00e9","/":"\/","x":"\"\\\b\f\n\r\t"}`,
		`{"body":"line\r\nline\n---\n# title\n","list":["a","b: c","- d","","1","true","null","~"]}`,
		`{"deep":[[[[{"a":[{"b":[]}]}]]]]}`, `{"a":1e400,"b":-0,"c":0.1e-7,"d":123456789012345678901234567890}`,
		`{"_":1,"__proto__":2,"key":"x","type":"y","body":{"not":"text"},"id":7,"_key":1,"__key":[]}`,
		`{"body":""}`, `{"body":"\n"}`, `{"body":"---\n---\n"}`, `{"body":null}`, `{"body":"\ufeff"}`, `{"body":"<<<<<<< a\n=======\n>>>>>>> b\n"}`,
		`{"a":"<<<<<<< a\n=======\n>>>>>>> b\n","---":"---","...":"...","<<":"<<","? a":"? a","- a":"- a","!a":"!a","&a":"*a","@a":"@a"}`,
		`{"a":" x","b":"x ","c":"x #y","d":"x# y","e":"x: y","f":"x:y","g":"x:","h":"'x'","i":"[x]","j":"{x}","k":"|","l":">","m":"%x"}`,
		`{"a":"2024-01-02","b":"2024-01-02T03:04:05Z","c":"0x1f","d":"1_000","e":".5","f":"+1","g":".inf","h":".NaN","i":"0o17","j":"1:30","k":"1e3","l":"NULL","m":"Yes","n":"~","o":"=","p":"y"}`,
		"{\"a\":\"\u0085\u2028\u2029\u00a0\ufeff\ufffe\uffff\u007f\u0080\",\"b\":[\"\u2028\",{\"\u0085\":\"\\ud83d\\ude42\\/\"}],\"c\u2028\":1}",
		`{"l":["a",1,true,null,"a,b","a]b","a}b","a:b","é","#x","x #","\"q\"","a'b"]}`, `{"l":[["a"],[]]}`, `{"l":["",""]}`, `{"l":["a, b","c"]}`,
		`{"n":1.10,"m":1E+2,"o":-1e-400}`, `{"tags":["true","1.0","null","no"]}`, `{"true":1,"null":2,"1":3,"1.5":4,"no":5,"~":6}`,
		`{"s":"` + strings.Repeat("x", 1<<20) + `"}`, `{"` + strings.Repeat("n", 3000) + `":"x"}`, `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	} {
		roundTrip(t, "doc/a", []byte(document))
		roundTrip(t, longKey, []byte(document))
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte(`{"a":"b","body":"c"}`))
	f.Add([]byte(`{"key":["x",1,{"y":null}],"_key":"\u2028"}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		if storage.ValidateEntry("doc/a", document) != nil || len(document) > 1<<16 {
			return
		}
		roundTrip(t, "doc/a", document)
		roundTrip(t, longKey, document)
	})
}

// FuzzText makes documents of any text, which random bytes seldom are.
func FuzzText(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("---", ": #", "\u0085")
	f.Add("0", "A?", "0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		document, err := json.Marshal(map[string]any{"x" + a: b, "l": []any{a, b, c, 1}, "o": map[string]string{a: c}, "body": c, b + "y": a})
		if err != nil || storage.ValidateEntry("doc/a", document) != nil {
			return
		}
		roundTrip(t, "doc/a", document)
	})
}

// FuzzDecode: whatever a file holds is read or refused, and what is read is
// written so that it is read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("---\na: b\nc:\n- d\n- e: f\n---\ntext"))
	f.Add([]byte("---\na: &x [1, 2]\nb: *x\n<<: {c: d}\n---\n"))
	f.Add([]byte("---\na: |\n  text\n\n  more\n# comment\nb: >-\n  x\n---\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		document, err := vault.Decode("doc/a", file)
		if err != nil {
			return
		}
		roundTrip(t, "doc/a", document)
		same, err := vault.Update("doc/a", file, document)
		if err != nil {
			t.Fatal(err)
		}
		got, err := vault.Decode("doc/a", same)
		if err != nil {
			t.Fatalf("%v\n%q\n%q", err, file, same)
		}
		x, _ := storage.Canonical(document)
		if y, _ := storage.Canonical(got); !bytes.Equal(x, y) {
			t.Fatalf("an update changed %q to %q: %q", x, y, same)
		}
	})
}

// TestByOthers reads files as people and other tools write them: each means what
// stands beside it, or is refused with a reason.
func TestByOthers(t *testing.T) {
	for _, c := range byOthers {
		t.Run(c.name, func(t *testing.T) {
			got, err := vault.Decode("doc/a", []byte(c.file))
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("read as %q, %v; want it refused: %s", got, err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			x, _ := storage.Canonical(got)
			y, err := storage.Canonical([]byte(c.want))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(x, y) {
				t.Errorf("got  %.300s\nwant %.300s", x, y)
			}
		})
	}
}

var byOthers = []struct{ name, file, want, refused string }{
	{name: "block list", file: "---\ntags:\n- a\n- b c\n---\n", want: `{"tags":["a","b c"]}`},
	{name: "block list indented", file: "---\ntags:\n  - a\n  - 2\nx: y\n---\n", want: `{"tags":["a",2],"x":"y"}`},
	{name: "bare flow list", file: "---\ntags: [a,b, c d ,  e]\n---\n", want: `{"tags":["a","b","c d","e"]}`},
	{name: "flow list on lines", file: "---\ntags: [\n  a,\n  b\n]\n---\n", want: `{"tags":["a","b"]}`},
	{name: "single quotes", file: "---\na: 'it''s'\n'b c': ''\n---\n", want: `{"a":"it's","b c":""}`},
	{name: "timestamp", file: "---\nday: 2024-01-02\nat: 2024-01-02 03:04:05\nz: 2024-01-02T03:04:05.5+01:00\n---\n",
		want: `{"day":"2024-01-02","at":"2024-01-02 03:04:05","z":"2024-01-02T03:04:05.5+01:00"}`},
	{name: "CRLF", file: "---\r\na: b\r\nl:\r\n  - c\r\n---\r\ntext\r\nmore\r\n", want: `{"a":"b","l":["c"],"body":"text\r\nmore"}`},
	{name: "BOM", file: "\ufeff---\na: b\n---\ntext", want: `{"a":"b","body":"text"}`},
	{name: "fence in body", file: "---\na: b\n---\ntext\n---\nc: d\n---\n", want: `{"a":"b","body":"text\n---\nc: d\n---"}`},
	{name: "fence in values", file: "---\na: |\n  x\n  ---\n  y\nb: \"---\"\n---\n", want: `{"a":"x\n---\ny\n","b":"---"}`},
	{name: "fence with spaces", file: "---  \na: b\n--- \ntext", want: `{"a":"b","body":"text"}`},
	{name: "no newline at the end", file: "---\na: b\n---\ntext", want: `{"a":"b","body":"text"}`},
	{name: "newline at the end", file: "---\na: b\n---\ntext\n", want: `{"a":"b","body":"text"}`},
	{name: "newlines at the end", file: "---\na: b\n---\ntext\n\n\n", want: `{"a":"b","body":"text\n\n"}`},
	{name: "CR at the end of the body", file: "---\na: b\n---\ntext\r\n", want: `{"a":"b","body":"text\r"}`},
	{name: "CRLF without front matter", file: "text\r\nmore\r\n", want: `{"body":"text\r\nmore"}`},
	{name: "nothing but a newline", file: "---\na: b\n---\n\n", want: `{"a":"b"}`},
	{name: "no last line end", file: "---\na: b\n---", want: `{"a":"b"}`},
	{name: "no front matter", file: "# Title\n\ntext\n", want: `{"body":"# Title\n\ntext"}`},
	{name: "rule at the top", file: "----\ntext\n", want: `{"body":"----\ntext"}`},
	{name: "empty file", file: "", want: `{}`},
	{name: "empty front matter", file: "---\n---\ntext", want: `{"body":"text"}`},
	{name: "comments", file: "---\n# about\na: b # why\n\n# end\n---\n", want: `{"a":"b"}`},
	{name: "only comments", file: "---\n# nothing yet\n---\nx", want: `{"body":"x"}`},
	{name: "empty values", file: "---\na:\nb: ~\nc: \"\"\nd:   \n---\n", want: `{"a":null,"b":null,"c":"","d":null}`},
	{name: "words", file: "---\na: yes\nb: No\nc: True\nd: off\ne: Null\n---\n", want: `{"a":"yes","b":"No","c":true,"d":"off","e":null}`},
	{name: "numbers", file: "---\na: 1\nb: 1.50\nc: 0x1F\nd: 1_000\ne: .5\nf: +3\ng: 007\nh: .inf\ni: -.5\nj: 1e3\nk: 0o17\n---\n",
		want: `{"a":1,"b":1.50,"c":31,"d":1000,"e":0.5,"f":3,"g":"007","h":".inf","i":-0.5,"j":1e3,"k":15}`},
	{name: "nested maps", file: "---\na:\n  b:\n    c: [1, {d: e}]\n  f: g\n---\n", want: `{"a":{"b":{"c":[1,{"d":"e"}]},"f":"g"}}`},
	{name: "folded", file: "---\na: >-\n  one\n  two\n\n  three\nb: plain\n  goes on\n---\n", want: `{"a":"one two\nthree","b":"plain goes on"}`},
	{name: "quoted over lines", file: "---\na: \"one\n  two\"\nb: 'x\n  y'\n---\n", want: `{"a":"one two","b":"x y"}`},
	{name: "anchors", file: "---\na: &x [1, 2]\nb: *x\n---\n", want: `{"a":[1,2],"b":[1,2]}`},
	{name: "names", file: "---\n1: a\ntrue: b\nmy name: c\n\"q\\\"\": d\nÜ: e\n---\n", want: `{"1":"a","true":"b","my name":"c","q\"":"d","Ü":"e"}`},
	{name: "string tag", file: "---\na: !!str 12\n---\n", want: `{"a":"12"}`},
	{name: "links", file: "---\nrelated: \"[[Other note]]\"\nurl: https://example.org/a?b=c#d\n---\nSee [[Other note]].\n",
		want: `{"related":"[[Other note]]","url":"https://example.org/a?b=c#d","body":"See [[Other note]]."}`},
	{name: "bare link", file: "---\nrelated: [[Other note]]\n---\n", want: `{"related":[["Other note"]]}`},
	{name: "large field", file: "---\na: '" + strings.Repeat("x ", 1<<19) + "y'\n---\n", want: `{"a":"` + strings.Repeat("x ", 1<<19) + `y"}`},
	{name: "body where there was none", file: "---\nbody: \"\"\n---\ntext", want: `{"body":"text"}`},

	{name: "duplicate", file: "---\na: 1\na: 2\n---\n", refused: "twice"},
	{name: "duplicate inside", file: "---\na: {b: 1, b: 2}\n---\n", refused: "duplicate"},
	{name: "two bodies", file: "---\nbody: x\n---\ntext", refused: "body"},
	{name: "no end", file: "---\na: b\ntext\n", refused: "no end"},
	{name: "conflict in front matter", file: "---\n<<<<<<< HEAD\na: b\n=======\na: c\n>>>>>>> theirs\n---\ntext", refused: "merge conflict"},
	{name: "conflict over the fence", file: "---\na: b\n<<<<<<< HEAD\nc: d\n---\ntext\n=======\nc: e\n---\nmore\n>>>>>>> theirs\n", refused: "merge conflict"},
	{name: "conflict with its base", file: "---\n<<<<<<< HEAD\na: b\n||||||| base\na: a\n=======\na: c\n>>>>>>> theirs\n---\ntext", refused: "merge conflict"},
	{name: "conflict around front matter", file: "<<<<<<< HEAD\n---\na: b\n---\n=======\n---\na: c\n---\n>>>>>>> theirs\n", refused: "merge conflict"},
	{name: "merge key", file: "---\na: &x {b: 1}\nc:\n  <<: *x\n---\n", refused: "merge"},
	{name: "tag", file: "---\na: !thing b\n---\n", refused: "tag"},
	{name: "binary", file: "---\na: !!binary aGVsbG8=\n---\n", refused: "tag"},
	{name: "tabs", file: "---\na:\n\tb: c\n---\n", refused: "YAML"},
	{name: "list at the top", file: "---\n- a\n- b\n---\n", refused: "no list of fields"},
	{name: "no UTF-8", file: "---\na: b\n---\n\xff\xfe", refused: "UTF-8"},
	{name: "name that is a list", file: "---\n? [a, b]\n: c\n---\n", refused: "name"},
	{name: "bomb", file: "---\na: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" +
		"g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g,*g]\n---\n", refused: "too large"},
}

// TestUpdateKeeps: what a person wrote stays where the document did not change.
func TestUpdateKeeps(t *testing.T) {
	const before = "---\n# who\nreviewer: 'Bob'   # the tall one\ntags:\n  - a\n  - b\nstatus: draft\nold: x\n# the end\n---\ntext\n"
	got, err := vault.Update("doc/a", []byte(before), []byte(`{"new":1,"status":"active","tags":["a","b"],"body":"other","reviewer":"Bob"}`))
	const want = "---\n# who\nreviewer: 'Bob'   # the tall one\ntags:\n  - a\n  - b\nstatus: active\nnew: 1\n# the end\n---\nother\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if testing.Verbose() && os.Getenv("STRATA_SHOW") != "" {
		t.Logf("%s", vault.Encode(longKey, []byte(`{"key":1,"_key":2,"a":["x","y z"],"o":{"p":[1]}}`)))
	}
}
