package transcript_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/internal/transcript"
)

// ids returns the texts of a file's items by their ids.
func ids(t *testing.T, in string, known func(thread, id string) (bool, error)) (map[string]string, transcript.Skipped) {
	t.Helper()
	r := newReader(t, in, &transcript.Options{Known: known})
	found := map[string]string{}
	for e, err := range r.Entries() {
		if err != nil {
			continue // what is broken is not of interest here
		}
		for _, it := range e.Items {
			id := e.Thread + " " + it.ID
			if other, ok := found[id]; ok {
				t.Errorf("%q and %q have one id", other, it.Text())
			}
			found[id] = it.Text()
		}
	}
	return found, r.Skipped()
}

// A longer version of a file has the ids of the shorter one, whatever its
// shape, also where a line that was broken is whole now and where the same is
// said twice.
func TestIDsLast(t *testing.T) {
	const session = `{"sessionId":"s","type":"user","uuid":"u%d","message":{"role":"user","content":[{"type":"text","text":"yes"},{"type":"tool_use","id":"t%[1]d","name":"ls"},{"type":"text","text":"no"}]}}`
	for name, test := range map[string]struct{ before, after string }{
		"lines":            {hello + "\n" + hello + "\n" + `{"role":"us`, hello + "\n" + hello + "\n" + hello + "\n" + hello},
		"a line is mended": {hello + "\n{\n" + hello, hello + "\n" + hello + "\n" + hello},
		"array":            {"[" + hello + "," + hello + "]", "[\n  " + hello + ",\n  " + hello + ",\n  " + hello + "\n]"},
		"documents":        {"[" + hello + "]\n[" + hello + "]", "[" + hello + "]\n[" + hello + "]\n[" + hello + "]"},
		"one id for all": {
			strings.Repeat(`{"id":"chat-1","role":"user","content":"yes"}`+"\n", 2), strings.Repeat(`{"id":"chat-1","role":"user","content":"yes"}`+"\n", 3),
		},
		"ids, lines that move": {
			`{"id":1,"role":"user","content":"a"}` + "\n" + `{"id":2,"role":"user","content":"b"}`,
			hello + "\n" + `{"id":1,"role":"user","content":"a"}` + "\n" + `{"id":2,"role":"user","content":"b"}`,
		},
		"session": {fmt.Sprintf(session, 1), fmt.Sprintf(session, 1) + "\n" + fmt.Sprintf(session, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := ids(t, test.before, nil)
			after, _ := ids(t, test.after, nil)
			if len(before) == 0 || len(after) <= len(before) {
				t.Fatalf("%d items before, %d after", len(before), len(after))
			}
			for id, text := range before {
				if after[id] != text {
					t.Errorf("%q is %q now", text, after[id])
				}
			}
			rest, skipped := ids(t, test.after, func(thread, id string) (bool, error) {
				_, ok := before[thread+" "+id]
				return ok, nil
			})
			if skipped.Known != len(before) || len(rest) != len(after)-len(before) {
				t.Errorf("%d of %d are known, %d of %d left", skipped.Known, len(before), len(rest), len(after))
			}
		})
	}
}

// System messages before anything else are text of the thread, in Lines and in
// Messages; a result finds its call though the call is known.
func TestSystemText(t *testing.T) {
	const in = `{"role":"system","content":"Be terse."}
{"role":"developer","content":"In Dutch."}
{"role":"system","content":"Be terse.","thread":"other"}
{"role":"developer","content":"In Dutch.","thread":"other"}
{"role":"user","content":"one"}
{"role":"system","content":"It is late."}
{"role":"assistant","content":"two"}
{"role":"user","content":"three","thread":"other"}
{"role":"user","content":"four","thread":"none"}`
	got := map[string]string{}
	var shared []*transcript.System
	for turn, err := range newReader(t, in, nil).Turns() {
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		if s := turn.System; s != nil {
			shared = append(shared, s)
			for _, it := range s.Items {
				texts = append(texts, string(it.Role)+": "+it.Text())
			}
		}
		for _, it := range turn.Input {
			texts = append(texts, it.Text())
		}
		got[turn.Thread] = strings.Join(texts, "|")
	}
	want := map[string]string{
		"main":  "system: Be terse.|developer: In Dutch.|one|It is late.",
		"other": "system: Be terse.|developer: In Dutch.|three",
		"none":  "four",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(shared) != 2 || shared[0] != shared[1] {
		t.Error("the same text is held twice")
	}
}

// A turn has a bound, and so has what waits.
func TestLongTurnsComeInParts(t *testing.T) {
	big := `{"role":"user","content":"` + strings.Repeat("x", 400<<10) + `"%s}` + "\n"
	for name, test := range map[string]struct {
		in    string
		parts int
		more  int
	}{
		"many items":  {strings.Repeat(hello+"\n", 1000), 4, 3},
		"large items": {strings.Repeat(fmt.Sprintf(big, ""), 5), 3, 2},
		"an answer":   {strings.Repeat(strings.Replace(fmt.Sprintf(big, ""), "user", "assistant", 1), 5), 3, 2},
	} {
		parts, more := 0, 0
		for turn, err := range newReader(t, test.in, nil).Turns() {
			if err != nil {
				t.Fatal(err)
			}
			parts++
			if turn.More {
				more++
			}
		}
		if parts != test.parts || more != test.more {
			t.Errorf("%s: %d parts, %d with more to come; want %d and %d", name, parts, more, test.parts, test.more)
		}
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, big, fmt.Sprintf(`,"thread":"%d"`, i))
	}
	line := 0
	for turn, err := range newReader(t, many.String(), nil).Turns() {
		if err != nil {
			t.Fatal(err)
		}
		if line = turn.Line; turn.Offset > 17<<20 {
			t.Fatalf("the turn of line %d was held", turn.Line)
		}
		break
	}
	if line != 1 {
		t.Errorf("line %d comes first", line)
	}
}
