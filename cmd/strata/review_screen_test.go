package main

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// reviewStore makes a store with proposals, of which one contradicts canon and
// one is hostile, and canon that nobody has ratified.
func reviewStore(t *testing.T) string {
	t.Helper()
	spec := "bolt:" + t.TempDir() + "/review.db"
	err := makeKnowledge(t.Context(), "test", spec, func(s *soma.Store, store storage.Adapter) error {
		ctx, w := t.Context(), s.As(soma.Person("tom"))
		propose := func(id, name, body string, confidence float64, fields map[string]any) {
			t.Helper()
			e := &soma.Entity{Type: "insight", ID: id, Name: name, Body: body, Layer: soma.Emerging, DecayAt: s.ComputeL3DecayAt(moment0), Fields: map[string]any{
				soma.FieldConfidence: confidence, soma.FieldEvidence: []any{"run-1"},
			}}
			maps.Copy(e.Fields, fields)
			if _, err := w.Create(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Create(ctx, &soma.Entity{Type: "execution", ID: "run-1", Name: "Run 1", Layer: soma.Archive, Body: "Three retries at once,\nall refused."}); err != nil {
			t.Fatal(err)
		}
		propose("at-once", "Retry at once", "Do not wait.", 1, nil)
		atOnce, err := s.Read(ctx, "at-once")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Promote(ctx, "at-once", atOnce.Digest(), ""); err != nil {
			t.Fatal(err)
		}
		propose("jitter", "Retries need jitter", "Wait a random time. "+strings.Repeat("Longer each time. ", 20), 0.9,
			map[string]any{"contradicts": []any{"canon-retry-at-once"}, soma.FieldEvidence: []any{"run-1", "run-9"}})
		propose("hostile", "\x1b[2JApproved\x1b]0;you\x07 \u202etxt", "\x1b[1;1H\x1b[32mratified by anna\x1b[0m\u0085\u2028", 0.5, nil)
		propose("wide", "退避にはゆらぎが必要であるという長い名前の提案", "退避にはゆらぎが必要である。"+strings.Repeat("退避", 60), 0.4, nil)
		return storage.Set(ctx, store, "insight/canon-forged", []byte(`{"name":"Forged","layer":"canon","status":"active","body":"Obey."}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

var moment0 = soma.Version{}.At // decay dates are scrubbed, so that any will do

// reviewer drives the full-screen view without a terminal.
type reviewer struct {
	t *testing.T
	m *reviewModel
}

func newReviewer(t *testing.T, spec string) *reviewer {
	t.Helper()
	d := &desk{t.Context(), spec, soma.Person("anna")}
	all, err := d.reviewItems()
	if err != nil {
		t.Fatal(err)
	}
	r := &reviewer{t, &reviewModel{desk: d, who: "anna", all: all}}
	r.send(tea.WindowSizeMsg{Width: 90, Height: 20})
	return r
}

// send gives the model a message, and runs what it commands; it says whether the
// view is left.
func (r *reviewer) send(msg tea.Msg) (quit bool) {
	for msg != nil {
		_, cmd := r.m.Update(msg)
		r.check()
		if cmd == nil {
			return false
		}
		msg = cmd()
		if _, ok := msg.(tea.QuitMsg); ok {
			return true
		}
	}
	return false
}

var named = map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace, "up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown}

// keys presses keys: names of keys, or texts that are typed.
func (r *reviewer) keys(keys ...string) (quit bool) {
	for _, key := range keys {
		if code, ok := named[key]; ok {
			quit = r.send(tea.KeyPressMsg{Code: code})
			continue
		}
		if c, ok := strings.CutPrefix(key, "ctrl+"); ok {
			quit = r.send(tea.KeyPressMsg{Code: rune(c[0]), Mod: tea.ModCtrl})
			continue
		}
		for _, c := range key { // tea.KeySpace is ' '
			quit = r.send(tea.KeyPressMsg{Code: c, Text: string(c)})
		}
	}
	return quit
}

// check finds a view that does not fit, or that could act on the terminal.
func (r *reviewer) check() {
	r.t.Helper()
	lines := strings.Split(r.m.View().Content, "\n")
	if len(lines) > max(r.m.height, 1) {
		r.t.Errorf("%d lines on a screen of %d", len(lines), r.m.height)
	}
	for _, line := range lines {
		plain := line
		if r.m.color {
			plain = sgr.ReplaceAllString(line, "")
		}
		if columns(plain) > max(r.m.width, len("too small")) || strings.ContainsFunc(plain, hidden) {
			r.t.Errorf("a screen of %d columns has the line %q", r.m.width, line)
		}
	}
}

var calendarDay = regexp.MustCompile(`\d{4}-\d\d-\d\d`)

// The views of a session of a reviewer.
func TestReviewViews(t *testing.T) {
	const path = "testdata/review.txtar"
	r := newReviewer(t, reviewStore(t))
	var views txtar.Archive
	shot := func(name string) {
		text := calendarDay.ReplaceAllString(r.m.View().Content, "YYYY-MM-DD")
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
		views.Files = append(views.Files, txtar.File{Name: name, Data: []byte(strings.Join(lines, "\n") + "\n")})
	}
	shot("a proposal that contradicts canon")
	r.keys(" ")
	shot("its end")
	r.keys("pgup", "s")
	shot("what it is to replace")
	r.keys("enter", "random it", "backspace", "s")
	shot("why")
	r.keys("enter")
	shot("replaced; the next one is hostile")
	r.keys("r", "enter")
	shot("a reason is wanted")
	r.keys("it lies", "enter")
	shot("rejected")
	r.keys("down", "r")
	shot("quarantined")
	r.keys("p", "mine", "enter")
	shot("ratified")
	r.keys("p", "enter")
	shot("nothing waits")

	got := string(txtar.Format(&views))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
}

// What the view decides is in the store, in the name of the reviewer.
func TestReviewDecides(t *testing.T) {
	spec := reviewStore(t)
	r := newReviewer(t, spec)
	r.keys("p", "esc", "q is typed nowhere")
	if got := r.m.note; got != "" {
		t.Errorf("note %q after keys that mean nothing", got)
	}
	r.keys("s", "ctrl+u", "insight/none", "enter", "why", "enter")
	if !strings.Contains(r.m.note, "no such entity") {
		t.Errorf("note %q after a decision in the place of nothing", r.m.note)
	}
	r.keys("p", "enter", "r") // it waits still
	r.send(tea.PasteMsg{Content: "two\nlines\x1b[2J"})
	r.keys("enter", "p", "enter")
	err := readKnowledge(t.Context(), "test", spec, func(s *soma.Store) error {
		for id, want := range map[string]string{"jitter": soma.Promoted, "hostile": soma.Rejected, "wide": soma.Promoted} {
			e, err := s.Read(t.Context(), id)
			if err != nil {
				return err
			}
			if got := e.Text(soma.FieldProposalStatus); got != want || e.Text("reviewed_by") != "anna" {
				t.Errorf("%s is %s by %s, want %s by anna", id, got, e.Text("reviewed_by"), want)
			}
			if id == "hostile" && e.Text("review_reason") != "two lines\x1b[2J" {
				t.Errorf("reason %q", e.Text("review_reason"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Somebody else is faster.
	spec = reviewStore(t)
	r = newReviewer(t, spec)
	other := newReviewer(t, spec)
	other.keys("p", "enter")
	r.keys("r", "late", "enter")
	if !strings.Contains(r.m.note, "changed since it was shown") || len(r.m.all) != 3 {
		t.Errorf("note %q, %d wait, after somebody else was faster", r.m.note, len(r.m.all))
	}
	// What is promoted is what was read.
	err = writeKnowledge(t.Context(), "test", spec, func(s *soma.Store, _ storage.Adapter) error {
		_, err := s.As(soma.Person("mallory")).Update(t.Context(), "hostile", map[string]any{"body": "Obey."})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.keys("p", "enter")
	if !strings.Contains(r.m.note, "changed since it was shown") || len(r.m.all) != 3 || !strings.Contains(r.m.View().Content, "Obey.") {
		t.Errorf("note %q, %d wait, after the proposal was changed", r.m.note, len(r.m.all))
	}
	r.keys("p", "enter")
	if !strings.Contains(r.m.note, "promoted") || len(r.m.all) != 2 {
		t.Errorf("note %q, %d wait, after it was read again", r.m.note, len(r.m.all))
	}
}

func TestReviewLeaves(t *testing.T) {
	r := newReviewer(t, reviewStore(t))
	for _, test := range []struct {
		keys []string
		quit bool
	}{
		{[]string{"q"}, true}, {[]string{"ctrl+c"}, true},
		{[]string{"p", "q"}, false}, {[]string{"ctrl+c"}, false}, {[]string{"ctrl+c"}, true},
	} {
		if got := r.keys(test.keys...); got != test.quit {
			t.Errorf("%q: leaves %v, want %v", test.keys, got, test.quit)
		}
	}
}

// The view fits screens of any size, at any place, with colors or none.
func TestReviewFits(t *testing.T) {
	r := newReviewer(t, reviewStore(t))
	for _, color := range []bool{false, true} {
		r.m.color = color
		for _, width := range []int{0, 1, 19, 20, 23, 40, 81, 300} {
			for _, height := range []int{0, 1, 5, 6, 7, 24, 100} {
				r.m.at = 0
				r.send(tea.WindowSizeMsg{Width: width, Height: height})
				r.keys(" ", " ", "pgup", "s", strings.Repeat("long ", 30), "esc", "down", "pgdown", "down", " ", "down", "r", "esc", "up")
			}
		}
	}
	r.m.all = nil
	r.send(tea.WindowSizeMsg{Width: 40, Height: 10})
	r.keys("down", "p", "r", "s", " ")
	if r.m.asking != nil {
		t.Error("something is asked about nothing")
	}
}

// The library runs the model: what it writes to the terminal has the text.
func TestReviewProgram(t *testing.T) {
	spec := reviewStore(t)
	d := &desk{t.Context(), spec, soma.Person("anna")}
	all, err := d.reviewItems()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	m := &reviewModel{desk: d, who: "anna", all: all}
	program := tea.NewProgram(m, tea.WithContext(t.Context()), tea.WithInput(strings.NewReader("q")), tea.WithOutput(&out),
		tea.WithoutSignalHandler(), tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	if _, err := program.Run(); err != nil {
		t.Fatal(err)
	}
	const alternate = "\x1b[?1049"
	if got := out.String(); !strings.Contains(got, "Retries need jitter") || !strings.Contains(got, alternate+"h") || !strings.Contains(got, alternate+"l") {
		t.Errorf("the terminal is sent %q", out.String())
	}
}
