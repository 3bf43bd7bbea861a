package locomo_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage/search"
)

// first returns so many conversations of the rounds through the data.
func first(data []locomo.Conversation, seed uint64, n int) (list []locomo.Conversation) {
	for c := range locomo.Rounds(data, seed) {
		if list = append(list, c); len(list) == n {
			break
		}
	}
	return list
}

// TestRounds: the data comes as it is, and then with other names and numbers,
// the same at every reading.
func TestRounds(t *testing.T) {
	data := []locomo.Conversation{
		{ID: "x", Turns: []search.Doc{
			{ID: "1", Speaker: "user", Text: "My friend Amalia moved to Zurich with 250 books in 2024."},
			{ID: "2", Speaker: "Béla", Text: "Then Amalia has 250 books to unpack in Zurich on Monday. 3 boxes, 10:45?"},
		}},
		{ID: "silent"},
		{ID: "y", Turns: []search.Doc{{ID: "1", Speaker: "user", Text: "so it is, Béla 🙂"}}},
	}
	got := first(data, 1, 200)
	if diff := cmp.Diff(got, first(data, 1, 200)); diff != "" {
		t.Errorf("two readings differ: %s", diff)
	}
	want := []locomo.Conversation{{ID: "0-0", Turns: data[0].Turns}, {ID: "0-1", Turns: data[2].Turns}}
	if diff := cmp.Diff(want, got[:2]); diff != "" {
		t.Errorf("the first round (-want +got):\n%s", diff)
	}
	asked := regexp.MustCompile(`^My friend (\w+) moved to (\w+) with ([1-9]\d\d) books in 2024\.$`)
	answered := regexp.MustCompile(`^Then (\w+) has (\d+) books to unpack in (\w+) on Monday\. 3 boxes, ([1-9]\d):([1-9]\d)\?$`)
	kept, speakers, numbers := 0, 0, make(map[string]bool)
	for i := 2; i < len(got); i += 2 {
		a, b := asked.FindStringSubmatch(got[i].Turns[0].Text), answered.FindStringSubmatch(got[i].Turns[1].Text)
		if a == nil || b == nil || a[1] != b[1] || a[2] != b[3] || a[3] != b[2] {
			t.Fatalf("a round has %q", got[i].Turns)
		}
		if a[1] == "Amalia" {
			kept++
		}
		if got[i].Turns[1].Speaker == "Béla" {
			speakers++
		}
		numbers[a[3]] = true
		if want := "so it is, " + got[i].Turns[1].Speaker + " 🙂"; got[i+1].Turns[0].Text != want || got[i].Turns[0].Speaker != "user" {
			t.Errorf("a round has %q, want %q", got[i+1].Turns[0].Text, want)
		}
	}
	if kept < 30 || kept > 70 || speakers < 30 || speakers > 70 || len(numbers) < 50 {
		t.Errorf("in 99 rounds a name stays %d times, a speaker's %d times, and there are %d numbers", kept, speakers, len(numbers))
	}
	if cmp.Equal(got[2:], first(data, 2, 200)[2:]) {
		t.Error("another seed gives the same")
	}
	if list := first(data[1:2], 1, 1); list != nil {
		t.Errorf("data without a turn yields %v", list)
	}
}
