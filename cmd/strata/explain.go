package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	db     string
	json   bool
	full   bool
	replay bool
}

func explainCommand(t *tool) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain RUN TURN",
		Short: "Say why each item was in a prompt",
		Long: `Says, for every item of a recorded prompt, in which band it was, which layer or
event it came from, and which stored records that was made from; and what was
left out, and why.

RUN is the id of an execution, the beginning of an id, "last", or "last:" and a
thread. TURN is the number of the turn in its thread, or "last". "last" with a
number is the last run that has such a turn. 'strata show runs' lists both.

--replay prints the prompt itself, rebuilt from what is stored, to the byte.`,
		Example: "  strata explain last last --db agent.db\n  strata explain 019587c4 12 --db agent.db --full\n  strata explain last 12 --db agent.db --json | jq '.items[].layer'\n  strata explain last 12 --db agent.db --replay",
		Args:    exactly(2, "a run and a turn"),
		RunE: func(cmd *cobra.Command, args []string) error {
			turn, err := strconv.Atoi(args[1])
			if args[1] != "last" && (err != nil || turn < 1) {
				return usagef(`explain: turn %q is no number from 1 on, and not "last"`, args[1])
			}
			return inspect(cmd.Context(), "explain", o.db, func(store storage.Adapter) error {
				run, err := findRun(cmd.Context(), store, args[0], turn)
				if err != nil {
					return err
				}
				if args[1] == "last" {
					turn = run.LastTurn
				}
				if o.replay {
					return replay(cmd.Context(), t, &o, store, run.ID, turn)
				}
				x, err := thread.Explain(cmd.Context(), store, run.ID, turn)
				if err != nil {
					return err
				}
				if o.json {
					return printJSON(t.out, x)
				}
				e := &explainer{s: newScreen(t.out, t.env), full: o.full}
				e.draw(x, run)
				return e.s.err
			})
		},
	}
	dbFlag(cmd, &o.db, dbHelp+" (required)")
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.full, "full", false, "do not cut text")
	f.BoolVar(&o.replay, "replay", false, "print the prompt itself")
	return cmd
}

// replay prints the prompt of a turn: its items as JSON, or its text.
func replay(ctx context.Context, t *tool, o *explainOptions, store storage.Adapter, run string, turn int) error {
	view, err := thread.Replay(ctx, store, run, turn)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(t.out, view.Items())
	}
	s := newScreen(t.out, t.env)
	if !s.live() {
		_, err := t.out.Write(view.AppendText(nil))
		return err
	}
	for band, it := range view.All() {
		s.rule(string(band), itemSpeaker(it))
		for _, line := range wrap(printable(it.Text()), s.width()) {
			s.printf("%s\n", line)
		}
	}
	return s.err
}

// explainer draws an explanation.
type explainer struct {
	s    *screen
	full bool
}

var bandColors = map[projection.Band]color{
	projection.BandSystem: red, projection.BandAnchor: blue, projection.BandHistory: white,
	projection.BandLive: yellow, projection.BandUpdates: magenta, projection.BandTail: red,
}

func (e *explainer) draw(x *thread.Explanation, run *thread.Run) {
	s := e.s
	s.printf("%s\n", s.paint(bold, fmt.Sprintf("Turn %d of %s", x.Turn, preview(x.Thread, 60))))
	s.printf("%s\n", s.paint(faint, fmt.Sprintf("run %s, %s", printable(run.ID), x.Time.UTC().Format("Mon 2 Jan 2006 15:04:05 UTC"))))
	s.printf("%s of at most %s tokens, %s; the first %s stay as they are for the next prompt\n", thousands(x.Tokens), thousands(x.Cap),
		plural(len(x.Items), "item", "items"), plural(x.Stable, "item", "items"))
	if x.Opened != "" {
		s.printf("a new prefix epoch was opened: %s\n", printable(x.Opened))
	}
	band := projection.Band("")
	for i := range x.Items {
		it := &x.Items[i]
		if it.Band != band {
			band = it.Band
			n, tokens := 0, 0
			for j := range x.Items {
				if x.Items[j].Band == band {
					n++
					tokens += x.Items[j].Tokens
				}
			}
			s.printf("\n")
			s.rule(string(band), plural(n, "item", "items")+", "+thousands(tokens)+" tokens")
		}
		e.item(i, it)
	}
	e.leftOut(x)
}

func (e *explainer) item(i int, it *thread.Explained) {
	s := e.s
	who := itemSpeaker(&it.Item)
	if it.Layer != "" {
		who = it.Layer
		if it.Item.Action != "" {
			who += " (" + string(it.Item.Action) + ")"
		}
	}
	lead := fmt.Sprintf("%4d %s ", i+1, padLeft(thousands(it.Tokens), 6))
	who = preview(who, 24)
	room := s.width() - columns(lead) - columns(who) - 2
	text := it.Item.Text()
	if e.full {
		text = ""
	}
	s.printf("%s%s  %s\n", s.paint(faint, lead), s.paint(bandColors[it.Band], who), preview(text, room))
	if e.full {
		for _, line := range wrap(printable(it.Item.Text()), s.width()-12) {
			e.printBelow(line, plain)
		}
	}
	e.printBelow("from "+origin(it), faint)
	const some = 3
	for j := range it.Sources {
		if j == some && !e.full {
			e.printBelow(fmt.Sprintf("and %d more sources: see them with --full", len(it.Sources)-some), faint)
			break
		}
		e.printBelow("made of "+sourceText(&it.Sources[j]), faint)
	}
}

func (e *explainer) printBelow(text string, c color) {
	if !e.full {
		text = preview(text, e.s.width()-12)
	}
	e.s.printf("            %s\n", e.s.paint(c, printable(text)))
}

// origin says where an item came from.
func origin(it *thread.Explained) string {
	switch {
	case it.Event != nil:
		return eventText(it.Event) + " in " + it.Key
	case it.State != "":
		return "layer " + it.Layer + ", state " + it.State
	case it.Layer != "":
		return "layer " + it.Layer + ", which keeps no state here"
	}
	return "the host, as recorded in " + it.Key
}

func eventText(e *thread.Event) string {
	text := fmt.Sprintf("turn %d, item %d", e.Turn, e.Item+1)
	if !e.Time.IsZero() {
		text += ", " + e.Time.UTC().Format("2006-01-02 15:04")
	}
	return text
}

// threadText names the thread of a turn's key.
func threadText(key string) string {
	segments := strings.Split(key, "/")
	if len(segments) < 2 {
		return ""
	}
	thread, err := storage.UnescapeSegment(segments[1])
	if err != nil {
		return ""
	}
	return " of " + thread
}

func sourceText(src *thread.Source) string {
	switch {
	case src.Event != nil:
		return eventText(src.Event) + threadText(src.Key) + " in " + src.Key
	case src.Key != "":
		return "record " + src.Key
	}
	return src.Ref + ", which is no longer kept"
}

func (e *explainer) leftOut(x *thread.Explanation) {
	s := e.s
	s.printf("\n")
	s.rule("left out", "")
	if len(x.LeftOut) == 0 {
		s.printf("  nothing\n")
	}
	for i := range x.LeftOut {
		l := &x.LeftOut[i]
		what := l.Layer
		if what == "" {
			what = "history"
		}
		n := "note"
		if l.Items > 0 {
			n = plural(l.Items, "item", "items")
		}
		s.printf("  %s %s %s\n", pad(preview(what, 18), 18), pad(n, 14), preview(l.Reason, s.width()-37))
	}
	for _, n := range x.Notes {
		s.printf("  %s\n", preview("note: "+n, s.width()-2))
	}
	if len(x.Layers) == 0 {
		return
	}
	s.printf("\n")
	s.rule("budgets", "allocated     used  yielded")
	row := func(name, placement string, allocated, used, yielded int) {
		s.printf("  %s %s %9s %8s %8s\n", pad(preview(name, 18), 18), pad(placement, max(s.width()-2-19-28, 8)), thousands(allocated), thousands(used), thousands(yielded))
	}
	for i := range x.Layers {
		u := &x.Layers[i]
		placement := string(u.Placement)
		if u.Authority != projection.Data {
			placement += ", " + string(u.Authority)
		}
		if u.Update != "" {
			placement += ", update " + u.Update
		}
		if u.Carried > 0 {
			placement += fmt.Sprintf(", %s superseded", thousands(u.Carried))
		}
		row(u.Layer, placement, u.Allocated, u.Used, u.Yielded)
	}
	if h := x.History; h != nil {
		row("history", fmt.Sprintf("%d items, %d left out", h.Items, h.Dropped), h.Budget, h.Tokens, h.Budget-h.Tokens)
	}
}
