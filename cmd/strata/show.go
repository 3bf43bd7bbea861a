package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// showOptions are the flags of show.
type showOptions struct {
	db       string
	thread   string
	layer    string
	resource string
	limit    int
	json     bool
	full     bool
}

// shows are the things that show can show.
var shows = []string{"threads", "runs", "items", "layers"}

func showCommand(t *tool) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show [threads|runs|items|layers]",
		Short: "Show what a store holds",
		Long: `Shows the content of a store: its threads (the default), its runs (executions),
the items of its threads, or the states of its layers.

--thread and --resource narrow what is shown; --layer narrows layers. Text is cut
to the width of the screen, unless --full; characters that would act on a
terminal are escaped.`,
		Example: "  strata show --db agent.db\n  strata show items --db agent.db --thread chat-7 --limit 20\n  strata show layers --db agent.db --layer working-memory --full\n  strata show runs --db agent.db --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("show: too many arguments: wants one of %s", strings.Join(shows, ", "))
			}
			return nil
		},
		ValidArgs: shows,
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "threads"
			if len(args) > 0 {
				what = args[0]
			}
			if o.limit < 0 {
				return usagef("show: --limit %d is negative", o.limit)
			}
			v := &viewer{t: t, o: &o, s: newScreen(t.out, t.env)}
			show, ok := map[string]func(context.Context, storage.Adapter) error{
				"threads": v.threads, "runs": v.runs, "items": v.items, "layers": v.layers,
			}[what]
			if !ok {
				return usagef("show: cannot show %q: it is none of %s", what, strings.Join(shows, ", "))
			}
			return inspect(cmd.Context(), "show", o.db, func(store storage.Adapter) error {
				if err := show(cmd.Context(), store); err != nil {
					return err
				}
				return v.s.err
			})
		},
	}
	dbFlag(cmd, &o.db, dbHelp+" (required)")
	f := cmd.Flags()
	f.StringVar(&o.thread, "thread", "", "only this thread")
	f.StringVar(&o.layer, "layer", "", "only this layer")
	f.StringVar(&o.resource, "resource", "", "only this resource")
	f.IntVar(&o.limit, "limit", 0, "maximum number (default all)")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.full, "full", false, "do not cut text")
	return cmd
}

// viewer shows one kind of thing.
type viewer struct {
	t *tool
	o *showOptions
	s *screen
}

// showAll shows the elements of seq for which keep is true, as a JSON array or
// with draw.
func showAll[T any](v *viewer, seq iter.Seq2[T, error], keep func(T) bool, head func(), draw func(T)) error {
	all := []T{}
	n := 0
	for x, err := range seq {
		if err != nil {
			return err
		}
		if !keep(x) {
			continue
		}
		if v.o.json {
			all = append(all, x)
		} else {
			if n == 0 && head != nil {
				head()
			}
			draw(x)
		}
		if n++; n == v.o.limit {
			break
		}
	}
	if v.o.json {
		return printJSON(v.t.out, all)
	}
	if n == 0 {
		fmt.Fprintln(v.t.err, "strata: there is nothing to show")
	}
	return nil
}

func printJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

func (v *viewer) threads(ctx context.Context, store storage.Adapter) error {
	var of map[string]bool // threads of the resource
	if v.o.resource != "" {
		of = make(map[string]bool)
		for run, err := range thread.Runs(ctx, store) {
			if err != nil {
				return err
			}
			if run.Identity.Resource == v.o.resource {
				of[run.Identity.Thread] = true
			}
		}
	}
	return showAll(v, thread.List(ctx, store),
		func(i thread.Info) bool {
			return (v.o.thread == "" || i.Thread == v.o.thread) && (of == nil || of[i.Thread])
		},
		func() { v.head("%-30s %8s  %s", "THREAD", "TURNS", "LAST RUN") },
		func(i thread.Info) {
			turns := thousands(i.Turns)
			if i.First > 1 {
				turns = fmt.Sprintf("%s-%s", thousands(i.First), turns)
			}
			v.s.printf("%s %8s  %s\n", pad(v.cut(i.Thread, 30), 30), turns, v.s.paint(faint, printable(i.Execution)))
		})
}

func (v *viewer) runs(ctx context.Context, store storage.Adapter) error {
	return showAll(v, thread.Runs(ctx, store), v.mine,
		func() { v.head("%-36s  %-24s %11s  %-8s %s", "RUN", "THREAD", "TURNS", "OUTCOME", "BEGAN") },
		func(r *thread.Run) {
			outcome := string(r.Outcome)
			if outcome == "" {
				outcome = "open"
			}
			v.s.printf("%s  %s %11s  %s %s\n", pad(v.cut(r.ID, 36), 36), pad(v.cut(r.Identity.Thread, 24), 24),
				fmt.Sprintf("%d-%d", r.FirstTurn, r.LastTurn), v.s.paint(outcomeColor(r.Outcome), pad(outcome, 8)),
				v.s.paint(faint, r.Began.UTC().Format(time.DateTime)))
		})
}

func outcomeColor(o memory.Outcome) color {
	switch o {
	case memory.Success:
		return green
	case memory.Failure, memory.Aborted:
		return red
	}
	return yellow
}

func (v *viewer) mine(r *thread.Run) bool {
	return (v.o.thread == "" || r.Identity.Thread == v.o.thread) && (v.o.resource == "" || r.Identity.Resource == v.o.resource)
}

// storedItem is an item of a thread with its position.
type storedItem struct {
	Thread    string          `json:"thread"`
	Execution string          `json:"execution"`
	Turn      int             `json:"turn"`
	Index     int             `json:"index"`
	Tokens    int             `json:"tokens"`
	Item      projection.Item `json:"item"`
}

func (v *viewer) items(ctx context.Context, store storage.Adapter) error {
	thread := ""
	return showAll(v, v.stored(ctx, store), func(storedItem) bool { return true }, nil,
		func(i storedItem) {
			if i.Thread != thread {
				thread = i.Thread
				v.s.rule(preview(thread, v.s.width()/2), "tokens")
			}
			who := itemSpeaker(&i.Item)
			lead := fmt.Sprintf("%5d  ", i.Turn)
			const timed = 60 // columns: with fewer, the text needs the space
			switch {
			case !v.o.full && v.s.width() < timed:
			case i.Item.Time.IsZero():
				lead += strings.Repeat(" ", 18)
			default:
				lead += i.Item.Time.UTC().Format("2006-01-02 15:04  ")
			}
			v.body(lead, pad(who, 9)+"  ", i.Item.Text(), i.Tokens)
		})
}

// itemSpeaker names the author of an item in one word.
func itemSpeaker(it *projection.Item) string {
	switch it.Kind {
	case projection.ToolCall:
		return "call"
	case projection.ToolResult:
		return "result"
	case projection.Reasoning:
		return "thought"
	}
	if it.Remembered {
		return "memory"
	}
	return preview(string(it.Role), 9)
}

// body prints an item on one line, or with --full on as many as necessary.
func (v *viewer) body(lead, who, text string, tokens int) {
	width := v.s.width()
	room := width - columns(lead) - columns(who) - 8
	if !v.o.full {
		v.s.printf("%s%s%s %s\n", v.s.paint(faint, lead), v.s.paint(bold, who), pad(preview(text, room), room), v.s.paint(faint, padLeft(thousands(tokens), 7)))
		return
	}
	v.s.printf("%s%s %s\n", v.s.paint(faint, lead), v.s.paint(bold, strings.TrimSpace(who)), v.s.paint(faint, thousands(tokens)+" tokens"))
	for _, line := range wrap(printable(text), width-4) {
		v.s.printf("    %s\n", line)
	}
}

// stored yields the items of the requested threads.
func (v *viewer) stored(ctx context.Context, store storage.Adapter) iter.Seq2[storedItem, error] {
	return func(yield func(storedItem, error) bool) {
		resource := make(map[string]string) // of executions
		for run, err := range thread.Runs(ctx, store) {
			if err != nil {
				yield(storedItem{}, err)
				return
			}
			resource[run.ID] = run.Identity.Resource
		}
		for info, err := range thread.List(ctx, store) {
			if err != nil {
				yield(storedItem{}, err)
				return
			}
			if v.o.thread != "" && info.Thread != v.o.thread {
				continue
			}
			for turn, err := range thread.Turns(ctx, store, info.Thread, 0) {
				if err != nil {
					yield(storedItem{}, err)
					return
				}
				if v.o.resource != "" && resource[turn.Execution] != v.o.resource {
					continue
				}
				for i := range turn.Items {
					it := storedItem{Thread: info.Thread, Execution: turn.Execution, Turn: turn.Number, Index: i, Item: turn.Items[i]}
					if i < len(turn.Sizes) {
						it.Tokens = turn.Sizes[i]
					}
					if !yield(it, nil) {
						return
					}
				}
			}
		}
	}
}

func (v *viewer) layers(ctx context.Context, store storage.Adapter) error {
	return showAll(v, thread.States(ctx, store, v.o.layer),
		func(i thread.State) bool {
			return (v.o.thread == "" || i.Kind == memory.ScopeThread && i.ID == v.o.thread) &&
				(v.o.resource == "" || i.Kind == memory.ScopeResource && i.ID == v.o.resource)
		},
		nil,
		func(i thread.State) {
			v.s.printf("%s  %s  %s\n", v.s.paint(bold, printable(i.Layer)), v.cut(string(i.Kind)+" "+i.ID, 40),
				v.s.paint(faint, thousands(i.Size)+" bytes  "+printable(i.Key)))
			if i.State == nil {
				v.s.printf("    %s\n", v.s.paint(faint, "nothing: only records, or cleared"))
				return
			}
			if !v.o.full {
				v.s.printf("    %s\n", preview(string(i.State), v.s.width()-4))
				return
			}
			var value any
			text := string(i.State)
			if json.Unmarshal(i.State, &value) == nil {
				if data, err := json.MarshalIndent(value, "", "  "); err == nil {
					text = string(data)
				}
			}
			for _, line := range wrap(printable(text), v.s.width()-4) {
				v.s.printf("    %s\n", line)
			}
		})
}

func (v *viewer) head(format string, names ...any) {
	v.s.printf("%s\n", v.s.paint(faint, fmt.Sprintf(format, names...)))
}

// cut returns text on one line of at most n columns, or of any length with
// --full.
func (v *viewer) cut(text string, n int) string {
	if v.o.full {
		return escape(text, false)
	}
	return preview(text, n)
}
