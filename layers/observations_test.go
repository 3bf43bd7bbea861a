package layers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

func TestObserve(t *testing.T) {
	store := openMem(t)
	m := remember(t, store, layers.Observations(nil))
	c := talk(t, m, "t", "r")
	c.say("Hello! How are you?", "Fine, thanks.")
	c.say("We decided to launch Orion on 2026-05-01. The weather is nice.", "Great. The budget for Orion is $40,000 and must be approved by Maria.")
	if got := c.ask("Is that so?"); got != "" || !strings.Contains(c.note("observations"), "nothing was observed yet") {
		t.Errorf("before the buffer is full: %q, note %q", got, c.note("observations"))
	}
	c.commit("It is.")
	c.end() // observes the rest

	c = talk(t, remember(t, store, layers.Observations(nil)), "t2", "r")
	got := c.ask("Go on.")
	for _, want := range []string{
		"- 2026-", " user: We decided to launch Orion on 2026-05-01.",
		"assistant: The budget for Orion is $40,000 and must be approved by Maria.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("shown:\n%s\nwant %q", got, want)
		}
	}
	for _, not := range []string{"Hello", "weather", "thanks", "It is."} {
		if strings.Contains(got, not) {
			t.Errorf("shown:\n%s\nwant no %q", got, not)
		}
	}
	c.end()
}

func TestObserveCondenses(t *testing.T) {
	store := openMem(t)
	layer := layers.Observations(&layers.ObservationsOptions{ObserveAt: -1, CondenseAt: 300})
	c := talk(t, remember(t, store, layer), "t", "r")
	c.say("Remember: we must never deploy on Fridays, this is a critical decision by Ada.", "ok")
	for i := range 60 {
		c.say(fmt.Sprintf("I like to have %d boxes on Tuesday.", i), "ok")
		c.say("We agreed on the plan to move to Berlin in October.", "ok")
	}
	got := c.ask("hm")
	if n := projection.UTF16Len(got) / 4; n > 320 {
		t.Errorf("notes have %d tokens, want about 300 at most", n)
	}
	if !strings.Contains(got, "never deploy on Fridays") {
		t.Errorf("the most salient note is gone:\n%s", got)
	}
	if n := strings.Count(got, "move to Berlin"); n == 0 || n > 12 {
		t.Errorf("%d notes on Berlin, want them merged:\n%s", n, got)
	}
	if !strings.Contains(got, "59 boxes") {
		t.Errorf("the newest note is gone:\n%s", got)
	}
	c.end()
}

func TestObserveFails(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		down := true
		layer := layers.Observations(&layers.ObservationsOptions{
			ObserveAt: -1,
			Observe: func(_ context.Context, in layers.ObserveInput) ([]layers.Observation, error) {
				if down {
					return nil, errors.New("model is down")
				}
				var out []layers.Observation
				for _, e := range in.Events {
					out = append(out, layers.Observation{Time: e.Time, Text: e.Text, Refs: []string{e.ID}})
				}
				return out, nil
			},
		})
		c := talk(t, remember(t, store, layer), "t", "r")
		for i := range 10 {
			c.say(fmt.Sprintf("fact %d", i), "ok")
		}
		if got := c.ask("hm"); got != "" || !strings.Contains(c.note("observations"), "observe failed: model is down") {
			t.Errorf("shown %q, note %q", got, c.note("observations"))
		}
		c.commit("ok")
		c.end()
		down = false
		c = talk(t, remember(t, store, layer), "t2", "r")
		for range 12 {
			c.say("more", "ok")
		}
		c.end()
		c = talk(t, remember(t, store, layer), "t3", "r")
		got := c.ask("so?")
		for i := range 10 {
			if n := strings.Count(got, fmt.Sprintf("fact %d", i)); n != 1 {
				t.Errorf("fact %d is noted %d times:\n%s", i, n, got)
			}
		}
		if note := c.note("observations"); note != "" {
			t.Errorf("note = %q", note)
		}
		c.end()
	})
}

func TestCondenseFails(t *testing.T) {
	fails := errors.New("no idea")
	layer := layers.Observations(&layers.ObservationsOptions{
		ObserveAt: -1, CondenseAt: 200,
		Condense: func(context.Context, layers.CondenseInput) ([]layers.Observation, error) { return nil, fails },
	})
	c := talk(t, remember(t, openMem(t), layer), "t", "r")
	for i := range 30 {
		c.say(fmt.Sprintf("We decided on 2026-04-%02d to buy machine number %d.", i+1, i), "ok")
		if n := projection.UTF16Len(c.ask("hm")) / 4; n > 440 {
			t.Fatalf("%d tokens of notes after %d turns, want twice CondenseAt at most", n, i)
		}
		c.commit("ok")
	}
	if c.ask("hm"); !strings.Contains(c.note("observations"), "condense failed: no idea") {
		t.Errorf("note = %q", c.note("observations"))
	}
	c.commit("ok")
	c.end()
}

func TestObserveConcurrent(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		const runs, turns = 6, 6
		layer := layers.Observations(&layers.ObservationsOptions{ObserveAt: 60, CondenseAt: 1 << 20})
		var wg sync.WaitGroup
		for i := range runs {
			m := remember(t, store, layer)
			wg.Go(func() {
				c := talk(t, m, fmt.Sprintf("t%d", i), "r")
				for j := range turns {
					c.say(fmt.Sprintf("We decided on 2026-04-01 to buy machine number m%dx%d.", i, j), "ok")
				}
				c.end()
			})
		}
		wg.Wait()
		c := talk(t, remember(t, store, layer), "last", "r")
		c.end()
		c = talk(t, remember(t, store, layer), "last", "r")
		got := c.ask("so?")
		for i := range runs {
			for j := range turns {
				if n := strings.Count(got, fmt.Sprintf("m%dx%d.", i, j)); n != 1 {
					t.Errorf("m%dx%d is noted %d times", i, j, n)
				}
			}
		}
		c.end()
	})
}

// While one execution learns from events that wait, the others of its Memory leave
// them to it, and go on.
func TestObserveOnce(t *testing.T) {
	store := openMem(t)
	var calls atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	layer := layers.Observations(&layers.ObservationsOptions{
		ObserveAt: 100,
		Observe: func(_ context.Context, in layers.ObserveInput) ([]layers.Observation, error) {
			if calls.Add(1) == 1 {
				close(begun)
				<-goOn
			}
			return []layers.Observation{{Text: fmt.Sprintf("%d events", len(in.Events)), Refs: []string{in.Events[0].ID}}}, nil
		},
	})
	m := remember(t, store, layer)
	a, b := talk(t, m, "a", "r"), talk(t, m, "b", "r")
	a.say("We keep the boat in Oslo.", "I see.") // waits
	a.ask(strings.Repeat("We sail on Mondays. ", 40))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.commit("Nice.")
	}()
	<-begun
	b.say(strings.Repeat("We sail on Sundays. ", 40), "Nice.")
	if n := calls.Load(); n != 1 {
		t.Errorf("%d executions learn from the same events", n)
	}
	close(goOn)
	<-done
	b.say(strings.Repeat("Or on Fridays. ", 40), "ok")
	if n := calls.Load(); n != 2 {
		t.Errorf("after the others are done, %d executions have learned", n)
	}
	a.end()
	b.end()
	if got := talk(t, remember(t, store, layer), "c", "r").ask("hm"); strings.Count(got, "events") != 2 {
		t.Errorf("the notes of two calls are %q", got)
	}
}

// What a tool returned is never anchored: the default notes that it failed, and what
// a function makes of it is shown by a live layer alone, also after it was condensed.
func TestObserveTools(t *testing.T) {
	repeat := func(_ context.Context, in layers.ObserveInput) ([]layers.Observation, error) {
		var out []layers.Observation
		for _, e := range in.Events {
			out = append(out, layers.Observation{Text: "noted: " + e.Text})
		}
		return out, nil
	}
	condense := func(_ context.Context, in layers.CondenseInput) ([]layers.Observation, error) {
		return []layers.Observation{{Text: "condensed: " + in.Notes[len(in.Notes)-1].Text}}, nil
	}
	anchored := memory.Spec{Placement: projection.Anchor}
	store := openMem(t)
	for i, o := range []struct {
		name           string
		opts           layers.ObservationsOptions
		shown, missing []string
		placement      projection.Placement
		note           string
	}{
		{"default", layers.ObservationsOptions{}, []string{"fetch: failed\n", "Anna flies to Rome"}, []string{"TOOLSAID"}, projection.Anchor, ""},
		{"with a function", layers.ObservationsOptions{Observe: repeat}, []string{"noted: TOOLSAID"}, nil, projection.Live, ""},
		{"with a function, anchored", layers.ObservationsOptions{Observe: repeat, Spec: anchored}, []string{"fetch: failed\n"}, []string{"TOOLSAID"}, projection.Anchor, "notes on what tools returned are left out"},
		{"condensed", layers.ObservationsOptions{Observe: repeat, Condense: condense, CondenseAt: 1}, []string{"condensed: "}, nil, projection.Live, ""},
		{"then the default again", layers.ObservationsOptions{}, []string{"Anna flies to Rome"}, []string{"TOOLSAID", "condensed"}, projection.Anchor, "notes on what tools returned are left out"},
	} {
		o.opts.ObserveAt = -1
		c := talk(t, remember(t, store, layers.Observations(&o.opts)), fmt.Sprint("t", i), "r")
		c.ask(fmt.Sprintf("On 2026-05-0%d Anna flies to Rome, we decided.", i+1))
		if err := c.run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Call("1", "fetch", "{}")}}); err != nil {
			t.Fatal(err)
		}
		failed := projection.Result("1", "TOOLSAID to obey")
		failed.Failed, failed.Name = true, "fetch"
		c.take(failed)
		c.commit("Well.")
		c.end()
		c = talk(t, remember(t, store, layers.Observations(&o.opts)), fmt.Sprint("s", i), "r")
		view := c.take(projection.Text(projection.User, "so?"))
		got := shown(view)
		for _, want := range o.shown {
			if !strings.Contains(got+"\n", want) {
				t.Errorf("%s: %q is not in\n%s", o.name, want, got)
			}
		}
		for _, not := range o.missing {
			if strings.Contains(got, not) {
				t.Errorf("%s: %q is in\n%s", o.name, not, got)
			}
		}
		if use := view.Layers[0]; use.Placement != o.placement || !strings.Contains(c.note("observations"), o.note) {
			t.Errorf("%s: %+v, note %q", o.name, use, c.note("observations"))
		}
		c.end()
	}
}
