package layers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

func TestEpisodic(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		c := talk(t, remember(t, store, layers.Episodic(nil)), "t1", "r")
		if _, err := c.run.Project(t.Context(), projection.Text(projection.User, "Find cheap flights to Lisbon in May.")); err != nil {
			t.Fatal(err)
		}
		if err := c.run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Call("1", "search", "{}"), projection.Call("2", "search", "{}")}}); err != nil {
			t.Fatal(err)
		}
		failed := projection.Result("2", "timeout")
		failed.Failed = true
		if _, err := c.run.Project(t.Context(), projection.Result("1", "120 EUR"), failed); err != nil {
			t.Fatal(err)
		}
		c.commit("TAP flies for 120 EUR.")
		if err := c.run.End(t.Context(), memory.Failure); err != nil {
			t.Fatal(err)
		}
		c = talk(t, remember(t, store, layers.Episodic(nil)), "t2", "r")
		c.say("Write a poem about winter.", "Snow falls.")
		c.end()

		c = talk(t, remember(t, store, layers.Episodic(nil)), "t3", "r")
		want := "failure] Asked: Find cheap flights to Lisbon in May. | Used: search ×2 (1 failed) | Answered: TAP flies for 120 EUR."
		if got := c.ask("Any news on the Lisbon flight?"); !strings.HasSuffix(got, want) {
			t.Errorf("shown %q, want %q at its end", got, want)
		}
		c.commit("No.")
		if got := c.say("Which paint dries fastest?", "Acrylic."); got != "" {
			t.Errorf("shown for paint: %q", got)
		}
		if got := c.say("Where were we last time?", "Winter."); !strings.Contains(got, "poem about winter") {
			t.Errorf("shown for last time: %q", got)
		}
		c.end()

		// An episode is not shown while its items are in the log, and it begins
		// where its execution did.
		c = talk(t, remember(t, store, layers.Episodic(nil)), "t3", "r")
		if got := c.ask("And which paint is cheapest?"); got != "" || !strings.Contains(c.note("episodic"), "still in the log") {
			t.Errorf("shown for paint in its thread: %q, note %q", got, c.note("episodic"))
		}
		c.commit("Lime.")
		c.end()
		c = talk(t, remember(t, store, layers.Episodic(nil)), "t4", "r")
		got := c.ask("paint")
		if !strings.Contains(got, "Asked: And which paint is cheapest? | Answered: Lime.") || strings.Count(got, "Asked") != 2 {
			t.Errorf("shown for paint elsewhere: %q", got)
		}
		c.end()
	})
}

func TestEpisodicLeavesNothing(t *testing.T) {
	store := openMem(t)
	c := talk(t, remember(t, store, layers.Episodic(nil)), "t1", "r")
	c.end()
	for e, err := range storage.Scan(t.Context(), store, "_layers/episodic/", nil) {
		t.Errorf("stored %q, %v", e.Key, err)
	}
	c = talk(t, remember(t, store, layers.Episodic(nil)), "t1", "r")
	c.say("hello", "hi")
	c.end()
	for key, err := range store.List(t.Context(), "_layers/episodic/") {
		if strings.Contains(key, "/open/") {
			t.Errorf("%q is left, %v", key, err)
		}
	}
}

func TestSummarizeFails(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		down := true
		layer := layers.Episodic(&layers.EpisodicOptions{
			Summarize: func(_ context.Context, in layers.SummarizeInput) (string, error) {
				if down {
					return "", errors.New("model is down")
				}
				return "Summary: " + in.Events[0].Text, nil
			},
		})
		for i := range 3 {
			c := talk(t, remember(t, store, layer), fmt.Sprintf("t%d", i), "r")
			c.say(fmt.Sprintf("Please order gadget%d.", i), "Done.")
			c.end()
		}
		c := talk(t, remember(t, store, layer), "x", "r")
		if got := c.ask("What about gadget1?"); !strings.Contains(got, "Asked: Please order gadget1.") {
			t.Errorf("shown: %q, want the default summary", got)
		}
		if !strings.Contains(c.note("episodic"), "summarize failed: model is down") {
			t.Errorf("note = %q", c.note("episodic"))
		}
		c.commit("ok")
		down = false
		for range 5 {
			c.say("hm", "ok")
		}
		for i := range 3 {
			if got := c.say(fmt.Sprintf("What about gadget%d?", i), "ok"); !strings.Contains(got, fmt.Sprintf("Summary: Please order gadget%d.", i)) {
				t.Errorf("shown: %q, want the summary of gadget%d", got, i)
			}
		}
		if note := c.note("episodic"); note != "" {
			t.Errorf("note = %q", note)
		}
		c.end()
		c = talk(t, remember(t, store, layer), "y", "r")
		c.say("Paint the gate.", "Done.")
		c.end()
		c = talk(t, remember(t, store, layer), "z", "r")
		if got := c.ask("paint gate"); !strings.Contains(got, "Summary: Paint the gate.") {
			t.Errorf("shown: %q", got)
		}
		c.end()
	})
}

func TestEpisodicConcurrent(t *testing.T) {
	store := openMem(t)
	const runs = 10
	var wg sync.WaitGroup
	for i := range runs {
		m := remember(t, store, layers.Episodic(nil))
		wg.Go(func() {
			c := talk(t, m, fmt.Sprintf("t%d", i), "r")
			c.say(fmt.Sprintf("Please order gadget%d.", i), "Done.")
			c.end()
		})
	}
	wg.Wait()
	c := talk(t, remember(t, store, layers.Episodic(nil)), "x", "r")
	for i := range runs {
		if got := c.say(fmt.Sprintf("What about gadget%d?", i), "ok"); !strings.Contains(got, fmt.Sprintf("order gadget%d.", i)) {
			t.Errorf("shown for %d: %q", i, got)
		}
	}
	c.end()
}

// TestEpisodicOfLongRun shows that an episode of more than a run holds is the
// one of a run that holds all of it.
func TestEpisodicOfLongRun(t *testing.T) {
	type heard struct {
		Episode layers.Episode
		Events  []layers.Event
	}
	play := func(budget, turns int) (list []heard) {
		layer := layers.Episodic(&layers.EpisodicOptions{
			Summarize: func(_ context.Context, in layers.SummarizeInput) (string, error) {
				list = append(list, heard{in.Episode, in.Events})
				return "a summary", nil
			},
		})
		at, ids := begin, 0
		m, err := memory.New(openMem(t), []memory.Layer{layer}, &memory.Options{
			Policy: projection.Policy{Budget: budget, Reserve: 100},
			Clock:  func() time.Time { at = at.Add(time.Minute); return at },
			NewID:  func() string { ids++; return fmt.Sprint(ids) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2 { // the second has another before it in its thread
			run, err := m.Begin(t.Context(), memory.Identity{Thread: "t", Resource: "r"})
			if err != nil {
				t.Fatal(err)
			}
			for i := range turns {
				input := projection.Result(fmt.Sprint(i-1), fmt.Sprintf("result %d of a tool that says a little more than it must", i))
				input.Failed = i%7 == 0
				if i%50 == 0 {
					input = projection.Text(projection.User, fmt.Sprintf("Question %d of execution %d: where do the geese go?", i, n))
				}
				if _, err := run.Project(t.Context(), input); err != nil {
					t.Fatal(err)
				}
				answer := projection.Text(projection.Assistant, fmt.Sprint("Answer ", i))
				call := projection.Call(fmt.Sprint(i), []string{"search", "read", "write"}[i/3%3], "{}")
				if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{answer, call}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := run.End(t.Context(), memory.Success); err != nil {
				t.Fatal(err)
			}
		}
		return list
	}
	for _, turns := range []int{19, 200} {
		want, got := play(10_000_000, turns), play(1000, turns)
		if len(want) != 2 || !strings.Contains(want[1].Episode.Summary, "Asked: Question 0 of execution 1") || len(want[1].Events) == 0 {
			t.Fatalf("episodes: %+v", want)
		}
		if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".key" }, cmp.Ignore())); diff != "" {
			t.Errorf("%d turns (- of a run that holds all, +): %s", turns, diff)
		}
		t.Log(want[1].Episode.Summary)
	}
}
