package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// remembered is what a layer holds, in words.
type remembered struct {
	Layer string   `json:"layer"`
	Kind  string   `json:"kind"` // of its scope
	ID    string   `json:"id"`
	Count int      `json:"count"` // number of notes, observations or episodes
	Lines []string `json:"lines"` // some of them
}

// recollect reads what the layers of the demo hold. It queries each layer,
// because the keys of all layers include those of SemanticRecall's passages,
// which may be most of the store.
func recollect(ctx context.Context, store storage.Adapter) ([]remembered, error) {
	var list []remembered
	for _, layer := range []string{"episodic", "observations", "working-memory"} {
		for info, err := range thread.States(ctx, store, layer) {
			if err != nil {
				return nil, err
			}
			r := remembered{Layer: info.Layer, Kind: string(info.Kind), ID: info.ID}
			switch layer {
			case "working-memory":
				r.Lines = noteLines(info.State)
				r.Count = len(r.Lines)
			case "observations":
				r.Lines, r.Count = observationLines(info.State)
			case "episodic":
				if r.Lines, r.Count, err = episodeLines(ctx, store, &info); err != nil {
					return nil, err
				}
			}
			list = append(list, r)
		}
	}
	return list, nil
}

// noteLines returns the entries of the notes.
func noteLines(state json.RawMessage) []string {
	var notes layers.Notes
	if json.Unmarshal(state, &notes) != nil {
		return nil
	}
	var lines []string
	for _, section := range slices.Sorted(maps.Keys(notes.Sections)) {
		entries, ok := notes.Sections[section].(map[string]any)
		if !ok {
			lines = append(lines, section+": "+valueText(notes.Sections[section]))
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			lines = append(lines, section+"."+key+": "+valueText(entries[key]))
		}
	}
	return lines
}

func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var list []string
		for _, e := range v {
			list = append(list, valueText(e))
		}
		return strings.Join(list, "; ")
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

const someLines = 4

// observationLines returns the most salient observations, in order of time.
func observationLines(state json.RawMessage) ([]string, int) {
	var s struct {
		Notes []layers.Observation `json:"notes"`
	}
	if json.Unmarshal(state, &s) != nil {
		return nil, 0
	}
	list := slices.Clone(s.Notes)
	slices.SortStableFunc(list, func(a, b layers.Observation) int { return b.Salience - a.Salience })
	list = list[:min(len(list), someLines)]
	slices.SortStableFunc(list, func(a, b layers.Observation) int { return a.Time.Compare(b.Time) })
	var lines []string
	for _, o := range list {
		lines = append(lines, o.Time.Format("2 Jan")+"  "+o.Text)
	}
	return lines, len(s.Notes)
}

// episodeLines returns the newest episodes.
func episodeLines(ctx context.Context, store storage.Adapter, info *thread.State) (lines []string, n int, err error) {
	prefix := fmt.Sprintf("%sr%d/e/", strings.TrimSuffix(info.Key, "state"), info.Clears)
	for e, err := range storage.Scan(ctx, store, prefix, nil) {
		if err != nil {
			return nil, 0, err
		}
		var ep layers.Episode
		if json.Unmarshal(e.Value, &ep) != nil {
			continue
		}
		n++
		lines = append(lines, ep.Ended.Format("2 Jan")+"  "+ep.Thread+": "+ep.Summary)
	}
	return lines[max(0, len(lines)-someLines):], n, nil
}

// sumUp shows what is remembered, and how to look closer.
func (d *demoRun) sumUp(ctx context.Context, sum *totals) error {
	store, err := openStore(ctx, d.o.db)
	if err != nil {
		return err
	}
	e := &event{Event: eventDone, DB: d.o.db, Totals: sum}
	e.Memory, err = recollect(ctx, store)
	if err == nil {
		e.Commands, err = d.commands(ctx, store)
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	return d.show(ctx, e)
}

// commands returns what to run next.
func (d *demoRun) commands(ctx context.Context, store storage.Adapter) ([]string, error) {
	name, db := programName(), " --db "+shellQuote(d.o.db)
	list := []string{name + " show" + db, name + " show layers" + db}
	if d.showcased != nil {
		short, err := shortID(ctx, store, d.showcased.Execution)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%s explain %s %d%s", name, short, d.showcased.Report.Turn, db))
	}
	list = append(list, name+" knowledge list --layer canon --team "+demoTeam+db, name+" why canon-"+soma.Slug(ruleName)+db)
	return append(list, name+" run YOUR-TRANSCRIPT.jsonl"), nil
}

// programName returns the name under which this program was called.
func programName() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/strata"
	}
	return "strata"
}

// shellQuote quotes text for a shell if necessary.
func shellQuote(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,", r)
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (d *demoRun) drawEnding(e *event) {
	s := d.s
	s.printf("\n")
	s.rule("What is remembered", "")
	for _, m := range e.Memory {
		s.printf("%s %s %s\n", s.mark(d.draw.palette.find(m.Layer)), s.paint(bold, m.Layer), s.paint(faint, fmt.Sprintf("%d, of %s %s", m.Count, m.Kind, printable(m.ID))))
		for _, line := range m.Lines {
			s.printf("    %s\n", preview(line, s.width()-4))
		}
	}
	if d.showcased != nil {
		from := d.showcased.Elsewhere
		s.printf("%s %s %s\n", s.mark(d.draw.palette.find(from.Layer)), s.paint(bold, from.Layer), s.paint(faint, "for example"))
		s.printf("    %s\n", preview("asked in "+d.showcased.Thread+", "+d.showcased.Time.Format("2 Jan")+": “"+opening(d.showcased)+"”", s.width()-4))
		s.printf("    %s\n", preview("recalled from "+from.Thread+", "+from.Time.Format("2 Jan")+": “"+from.Text+"”", s.width()-4))
	}
	s.printf("\n")
	s.rule("In numbers", "")
	drawTotals(s, e.Totals)
	drawCommands(s, e.Commands)
}

// drawCommands shows what to run next.
func drawCommands(s *screen, commands []string) {
	if len(commands) == 0 {
		return
	}
	s.printf("\n")
	s.rule("Look closer", "")
	for _, c := range commands {
		s.printf("  %s\n", printable(c))
	}
}

// drawTotals sums up a run.
func drawTotals(s *screen, t *totals) {
	for _, text := range []string{
		fmt.Sprintf("%s in %s; the largest prompt had %s tokens", plural(t.Turns, "turn", "turns"),
			plural(t.Executions, "execution", "executions"), thousands(t.Largest)),
		fmt.Sprintf("%s of all prompts, %s tokens, was the start of the prompt before: what a cache holds",
			percent(int(t.Reused), int(t.Bytes)), thousands(t.Tokens)),
	} {
		for _, line := range wrap(text, s.width()-2) {
			s.printf("  %s\n", line)
		}
	}
	if t.Degraded > 0 {
		s.printf("  %s\n", s.paint(red, plural(t.Degraded, "turn was", "turns were")+" degraded: a hook failed"))
	}
}
