package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

func testReport() *memory.TurnReport {
	return &memory.TurnReport{
		Tokens: 1000, Cap: 2000, Stable: 700,
		Layers: []projection.LayerUse{
			{Layer: "instructions", Allocated: 200, Used: 100, Yielded: 100, Items: 1},
			{Layer: "working-memory", Allocated: 300, Used: 1, Yielded: 299, Items: 1},
			{Layer: "observations", Allocated: 300, Yielded: 300},
			{Layer: "episodic", Allocated: 300, Used: 99, Yielded: 201, Items: 1, Trimmed: 2},
			{Layer: "semantic-recall", Allocated: 400, Used: 200, Yielded: 200, Items: 2, Skipped: 1},
		},
		History: projection.HistoryUse{Tokens: 600, Budget: 1400, Dropped: 3},
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestBarWidths(t *testing.T) {
	p := newPalette(readyLayers(""))
	for _, color := range []bool{false, true} {
		for _, width := range []int{0, 1, 3, 7, 30, 48, 200} {
			s := &screen{color: color}
			bar := s.bar(p, testReport(), width)
			if !color && strings.Contains(bar, "\x1b") {
				t.Errorf("width %d: escapes without colors: %q", width, bar)
			}
			if got := columns(sgr.ReplaceAllString(bar, "")); got != width {
				t.Errorf("color %v: a bar of %d columns has %d: %q", color, width, got, bar)
			}
		}
	}
}

func TestBarPlain(t *testing.T) {
	s := &screen{}
	p := newPalette(readyLayers(""))
	const want = "IIWEESSSSHHHHHHHHHHHH...................."
	if got := s.bar(p, testReport(), 40); got[:20] != strings.TrimRight(want, ".")[:20] || strings.Count(got, ".") != 20 {
		t.Errorf("bar %q, want %q", got, want)
	}
}

func TestCells(t *testing.T) {
	for _, test := range []struct {
		parts        []int
		whole, width int
		want         []int
	}{
		{nil, 0, 10, []int{}},
		{[]int{0, 0}, 100, 10, []int{0, 0}},
		{[]int{50, 50}, 100, 10, []int{5, 5}},
		{[]int{1, 99}, 100, 10, []int{1, 9}},
		{[]int{300}, 100, 10, []int{10}}, // over the whole
		{[]int{1, 1, 1}, 3, 2, []int{1, 1, 0}},
		{[]int{1}, 1000, 10, []int{0}},
	} {
		got := cells(test.parts, test.whole, test.width)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("cells(%v, %d, %d) (-want +got):\n%s", test.parts, test.whole, test.width, diff)
		}
	}
}

// No line of a turn is wider than the screen.
func TestDrawingFits(t *testing.T) {
	for _, color := range []bool{false, true} {
		var b bytes.Buffer
		d := &drawing{s: &screen{w: &b, color: color}, palette: newPalette(readyLayers("")), cap: 2000}
		e := &event{
			Event: eventTurn, Number: 7, Thread: "t", Bytes: 100, Reused: 50, Report: testReport(),
			Input:     []said{{Kind: projection.Message, Role: projection.User, Text: strings.Repeat("漢字 and\x1b[31m ", 40)}},
			Elsewhere: &elsewhere{Layer: "semantic-recall", Thread: "other", Text: strings.Repeat("words ", 40)},
		}
		e.Report.Opened = "history is over its budget"
		e.Report.Hooks = []memory.HookReport{{Layer: "episodic", Hook: "recall", Status: memory.StatusTimeout, Error: strings.Repeat("slow ", 50)}}
		d.drawThread(e)
		d.drawTurn(e)
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(sgr.ReplaceAllString(line, ""), "\n")
			if n := columns(line); n > plainWidth {
				t.Errorf("color %v: a line of %d columns: %q", color, n, line)
			}
			if strings.Contains(line, "\x1b") {
				t.Errorf("an escape of the text got through: %q", line)
			}
		}
		if !strings.Contains(b.String(), "timeout") || !strings.Contains(b.String(), "50 %") {
			t.Errorf("the failure or the share is missing:\n%s", b.String())
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain":            "plain",
		"a\tb\nc":          "a\tb\nc",
		"\x1b]0;title\x07": `\x1b]0;title\a`,
		"\u202egnp.exe":    `\u202egnp.exe`,
		"\x9b31m":          `\x9b31m`,
		"\u009b31m":        `\u009b31m`,
		"ok 漢字 é 👩\u200d💻": "ok 漢字 é 👩\u200d💻",
		"\U000e0041hidden": `\U000e0041hidden`,
		"\r over":          `\r over`,
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestWarningsOnce: a verb that opens a store twice says once what is wrong with it.
func TestWarningsOnce(t *testing.T) {
	var b bytes.Buffer
	log := newLogger(&b)
	for range 2 {
		log.Warn("vault: file cannot be read and is skipped", "file", "a.md")
		log.Warn("vault: file cannot be read and is skipped", "file", "b\x1b.md")
	}
	const want = "level=WARN msg=\"vault: file cannot be read and is skipped\" file=a.md\n" +
		"level=WARN msg=\"vault: file cannot be read and is skipped\" file=\"b\\x1b.md\"\n"
	if b.String() != want {
		t.Errorf("said:\n%swant:\n%s", b.String(), want)
	}
}

func FuzzPreview(f *testing.F) {
	f.Add("some \x1b[31m text 漢字", 10)
	f.Add("no room", -4)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n %= 300
		got := preview(text, n)
		if columns(got) > max(n, 0) {
			t.Errorf("preview(%q, %d) has %d columns: %q", text, n, columns(got), got)
		}
		if strings.ContainsFunc(got, hidden) || !utf8.ValidString(got) {
			t.Errorf("preview(%q, %d) is not printable: %q", text, n, got)
		}
	})
}

func TestWrap(t *testing.T) {
	for _, line := range wrap("a somewhat longer line, averylongwordthatcannotbebrokenatspaces\n漢字漢字漢字漢字漢字漢字漢字漢字", 12) {
		if columns(line) > 12 {
			t.Errorf("line %q has %d columns", line, columns(line))
		}
	}
	if diff := cmp.Diff([]string{"a", "", "b"}, wrap("a\n\nb", 20)); diff != "" {
		t.Errorf("wrap (-want +got):\n%s", diff)
	}
}

func TestCountAndPercent(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for _, test := range []struct {
		part, whole int
		want        string
	}{{0, 0, "0 %"}, {1, 3, "33 %"}, {7, 7, "100 %"}} {
		if got := percent(test.part, test.whole); got != test.want {
			t.Errorf("percent(%d, %d) = %q, want %q", test.part, test.whole, got, test.want)
		}
	}
}

func TestGauge(t *testing.T) {
	for _, test := range []struct {
		part, whole int64
		want        string
	}{
		{512, 1024, "████████████░░░░░░░░░░░░  50 %  "},
		{5, 0, ""},
		{5, -1, ""},
		{0, 7, "░░░░░░░░░░░░░░░░░░░░░░░░   0 %  "},
		{3 << 40, 2 << 40, "████████████████████████ 100 %  "},
	} {
		if got := gauge(test.part, test.whole); got != test.want {
			t.Errorf("gauge(%d, %d) = %q, want %q", test.part, test.whole, got, test.want)
		}
	}
}

func TestPaceText(t *testing.T) {
	for _, test := range []struct {
		part, whole, done int64
		took              time.Duration
		want              string
	}{
		{1000, 3000, 1000, 100 * time.Millisecond, "copied 1,000 of 3,000 keys"},
		{1000, 3000, 1000, 2 * time.Second, "copied 1,000 of 3,000 keys, 500/s, 4s left"},
		{2000, 3000, 500, time.Second, "copied 2,000 of 3,000 keys, 500/s, 2s left"},
		{3000, 3000, 3000, 3 * time.Second, "copied 3,000 of 3,000 keys, 1,000/s"},
		{70, 0, 70, 7 * time.Second, "copied 70 keys, 10/s"},
		{0, 70, 0, 7 * time.Second, "copied 0 of 70 keys"},
	} {
		if got := paceText("copied", test.part, test.whole, test.done, test.took); got != test.want {
			t.Errorf("paceText(%d of %d, %d in %v) = %q, want %q", test.part, test.whole, test.done, test.took, got, test.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for text, want := range map[string]string{"": "''", "/tmp/a-b.db": "/tmp/a-b.db", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := shellQuote(text); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", text, got, want)
		}
	}
}
