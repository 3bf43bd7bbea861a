package locomo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/bench/locomo"
)

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"conversation": {"speaker_a": "A", "session_2": [{"speaker": "B", "dia_id": "D2:1", "text": "two", "blip_caption": "a boat"}],
		"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "one"}, {"speaker": "A", "dia_id": "D1:1", "text": "again"}]},
		"qa": [{"question": "q", "category": "2", "evidence": ["D2:1; D9:9", "D1:1", "D1:1"]}, {"question": "r", "category": 5}]}`)
	got, err := locomo.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].ID != "1" || len(got[0].Turns) != 2 {
		t.Fatalf("loaded %+v", got)
	}
	if d := got[0].Turns[0]; d.Text != "one" || d.Time.Format("2006-01-02 15:04") != "2023-05-08 13:56" {
		t.Errorf("first turn %+v", d)
	}
	if d := got[0].Turns[1]; d.Text != "two [a boat]" || d.Session != "session_2" || !d.Time.IsZero() {
		t.Errorf("second turn %+v", d)
	}
	want := []locomo.Question{{Text: "q", Category: 2, Evidence: []string{"D2:1", "D1:1"}}, {Text: "r", Category: 5}}
	if diff := cmp.Diff(want, got[0].Questions); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "[]", "{}", `[{"conversation": {"session_1": 7}}]`} {
		write(text)
		if _, err := locomo.Load(path); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
