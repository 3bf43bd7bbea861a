package projection_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

// TestItemText: the texts of an item are lines, and what is no text is not read; in the
// canonical bytes it stands behind them.
func TestItemText(t *testing.T) {
	text := func(s string) projection.Part { return projection.Part{Type: projection.TextPart, Text: s} }
	image := projection.Part{Type: projection.ImagePart, URL: "http://x/y.png", Text: "no text"}
	file := projection.Part{Type: projection.FilePart, Data: []byte("%PDF"), Name: "y.pdf"}
	for _, c := range []struct {
		item        projection.Item
		text, bytes string
	}{
		{projection.Item{Kind: projection.Message, Role: projection.User}, "", "u\n"},
		{user("hello"), "hello", "uhello\n"},
		{projection.Item{Kind: projection.Message, Role: projection.User, Parts: []projection.Part{image}}, "", "u\nimagehttp://x/y.png\n"},
		{projection.Item{Kind: projection.Message, Role: projection.Developer, Parts: []projection.Part{image, text("one")}}, "one", "done\nimagehttp://x/y.png\n"},
		{projection.Item{Kind: projection.ToolResult, Parts: []projection.Part{text("one"), image, text("two"), file}}, "one\ntwo", "rone\ntwo\nimagehttp://x/y.png\nfile%PDF\n"},
		{projection.Item{Kind: projection.Message, Role: projection.Assistant, Parts: []projection.Part{text("one"), text("two"), text("three")}}, "one\ntwo\nthree", "aone\ntwo\nthree\n"},
		{projection.Thought("so"), "so", "tso\n"},
		{projection.Call("1", "look", `{"at":"it"}`), `look({"at":"it"})`, "clook({\"at\":\"it\"})\n"},
		{projection.Text(projection.System, "be kind"), "be kind", "sbe kind\n"},
	} {
		if got := c.item.Text(); got != c.text {
			t.Errorf("text %q, want %q", got, c.text)
		}
		if got := string(c.item.AppendText(nil)); got != c.bytes {
			t.Errorf("bytes %q, want %q", got, c.bytes)
		}
	}
}

// TestItemWithoutAll: what an item does not have is not encoded, as encoding/json would
// leave it out.
func TestItemWithoutAll(t *testing.T) {
	for _, it := range []projection.Item{
		{},
		{Parts: []projection.Part{{}}},
		{Parts: []projection.Part{{Type: projection.ImagePart, URL: "u"}, {Type: projection.FilePart, Data: []byte("x")}}},
		{Refs: []string{"a"}, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	} {
		want, err := json.Marshal(it)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(it.AppendJSON(nil))); diff != "" {
			t.Errorf("encoding/json's and ours (-want +got):\n%s", diff)
		}
	}
}

// TestItemYears: a time can be encoded from the year 0 to 9999.
func TestItemYears(t *testing.T) {
	for year, ok := range map[int]bool{-1: false, 0: true, 9999: true, 10_000: false} {
		it := projection.Item{Kind: projection.Reasoning, Time: time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)}
		if err := it.Validate(); (err == nil) != ok {
			t.Errorf("year %d: %v", year, err)
		}
	}
}
