package bench_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// TestChatsOfTwoPeople: who speaks first is the user, and the speakers are named.
func TestChatsOfTwoPeople(t *testing.T) {
	data := []locomo.Conversation{
		{Turns: []search.Doc{{Speaker: "Ben", Text: "Hi"}, {Speaker: "Ada", Text: "Hello"}, {Speaker: "Ben", Text: "So"}}},
		{Turns: []search.Doc{{Speaker: "assistant", Text: "Welcome"}, {Speaker: "user", Text: "Thanks"}}},
	}
	want := []bench.Said{
		{"chat-0-0", "user Ben", "Hi"}, {"chat-0-0", "assistant Ada", "Hello"}, {"chat-0-0", "user Ben", "So"},
		{"chat-0-1", "assistant", "Welcome"}, {"chat-0-1", "user", "Thanks"},
	}
	if diff := cmp.Diff(want, bench.Chats(data, 1, 5)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r, err := bench.Ready(t.Context(), &bench.ReadyOptions{Data: data, Engines: []string{"mem"}, Turns: 9, Live: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Value("ready/mem/9", "heap"); !ok {
		t.Error("9 turns have no figures")
	}
}

// TestSessions: the generated agent calls tools and reads their results, the
// same at every reading.
func TestSessions(t *testing.T) {
	got := bench.Sessions(1, 500)
	if diff := cmp.Diff(got, bench.Sessions(1, 500)); diff != "" {
		t.Errorf("two readings differ: %s", diff)
	}
	count := make(map[string]int)
	for i, s := range got {
		who, _, _ := strings.Cut(s.Who, " ")
		count[who]++
		if strings.HasSuffix(s.Who, "side") {
			t.Errorf("item %d is %s", i, s.Who)
		}
		if s.Text == "" {
			t.Errorf("item %d says nothing", i)
		}
		if who == "tool_result" && !strings.HasPrefix(got[i-1].Who, "tool_call") {
			t.Errorf("result %d follows %s", i, got[i-1].Who)
		}
	}
	for _, who := range []string{"user", "assistant", "tool_call", "tool_result"} {
		if count[who] < 30 {
			t.Errorf("of 500 items %d are of %s", count[who], who)
		}
	}
}

// TestCounted: bytes are counted where they belong, whatever an id looks like.
func TestCounted(t *testing.T) {
	put := func(key string) storage.Op { return storage.Put(key, make([]byte, 1000-len(key))) }
	ops, got := bench.Counted(
		put("_layers/entity/resource/anna/state"), put("_layers/entity/resource/anna/r0/m/state"), put("_layers/entity/resource/state/r0/x"),
		put("_layers/notes/resource/anna/r2/a"), storage.Remove("_layers/notes/resource/anna/r2/b"),
		put("_threads/turns/head"), put("_threads/a/epoch"), put("_threads/a/turns/000000000001"),
		put("_threads/a/runs/000000000001/x/turns/000000000001"), put("_runs/x"), put("note/1"),
	)
	want := map[string]int{
		"entity/state": 1000, "entity/records": 2000, "notes/records": 1000 + len("_layers/notes/resource/anna/r2/b"),
		"turns/records": 2000, "heads/records": 3000, "documents/records": 1000,
	}
	if diff := cmp.Diff(want, got); diff != "" || ops != 11 {
		t.Errorf("%d ops (-want +got):\n%s", ops, diff)
	}
}
