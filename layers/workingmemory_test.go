package layers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// sections returns the notes as the next execution finds them.
func sections(t *testing.T, m *memory.Memory, resource string) map[string]any {
	t.Helper()
	c := talk(t, m, "look", resource)
	defer c.end()
	state, ok := c.run.Execution().Sibling("working-memory")
	if !ok {
		t.Fatal("no working memory")
	}
	return state.(layers.Notes).Sections
}

func TestExtract(t *testing.T) {
	for _, c := range []struct {
		said string // messages, one a line
		want string // lines shown afterwards; empty: nothing
	}{
		{"Hi, my name is Anna.", "profile.name: Anna"},
		{"My name's Anna Maria de Souza and I live in New York.", "profile.location: New York\nprofile.name: Anna Maria de Souza"},
		{"my name is anna", "profile.name: anna"},
		{"My name is Anna.\nSorry, my name is actually Hanna.", "profile.name: Hanna"},
		{"My name is not important. He said my name is Bob.", ""},
		{"Is my name Anna? My name is what?", ""},
		{"> My name is Quoted.\nHello", ""},
		{"Please call me Ann from Monday.", ""},
		{"You can call me Ann.", "profile.preferred_name: Ann"},
		{"Call me later. Call me a taxi! Call me back", ""},
		{"I prefer tea over coffee.", "preferences.tea: prefers, over coffee"},
		{"I prefer tea over coffee.\nActually, I prefer coffee to tea.", "preferences.coffee: prefers, over tea"},
		{"I love jazz, but I hate opera!", "preferences.jazz: loves\npreferences.opera: hates"},
		{"I like jazz.\nI no longer like jazz.", ""},
		{"I like it. I like that. I love you. I'd like a coffee. I would like to know more.", ""},
		{"The deadline for the tax report is 2026-04-30.", "deadlines.tax report: 2026-04-30"},
		{"The deadline is Friday.", "deadlines.next: Friday (said on 2026-03-02)"},
		{"The deadline for X is 2026-04-30.\nThe deadline for X has been moved to 2026-05-15.", "deadlines.x: 2026-05-15"},
		{"The deadline is tight.", ""},
		{"The rent is due on April 1st.", "deadlines.rent: April 1st"},
		{"Remember that the wifi code is 1234.", "facts.the wifi code: 1234"},
		{"Remember that the wifi code is 1234.\nRemember that the wifi code is 9999.", "facts.the wifi code: 9999"},
		{"Please remember that my name is Anna.", "profile.name: Anna"},
		{"Remember to water the plants.", "remembered: to water the plants"},
		{"Don't forget that I parked on level 3.", "remembered: I parked on level 3"},
		{"Do you remember that day? Remember when we met. I remember that well.", ""},
		{"Remember that the wifi code is 1234.\nPlease forget the wifi code.", ""},
		{"My email is a@b.example. My dog is called Rex, and my boss is annoying.", "profile.dog: Rex\nprofile.email: a@b.example"},
		{"My favorite color is dark green.", "profile.favourite_color: dark green"},
		{"I work at Acme Corp, and I'm allergic to peanuts.", "allergies: peanuts\nprofile.employer: Acme Corp"},
		{"I'm vegetarian.", "profile.diet: vegetarian"},
		{"Please always answer in French.", "requests: always answer in French"},
		{"Never mind. Always a pleasure.", ""},
		{"```\nmy name is Code\n```", ""},
	} {
		t.Run(c.said, func(t *testing.T) {
			m := remember(t, openMem(t), layers.WorkingMemory(nil))
			talking := talk(t, m, "t", "r")
			for said := range strings.SplitSeq(c.said, "\n") {
				if strings.HasPrefix(c.said, "```") || strings.HasPrefix(c.said, ">") {
					said = c.said
				}
				talking.say(said, "My name is Robot. I like batteries.")
			}
			got := talking.ask("?")
			// The day is that of the clock, which differs from run to run.
			if day := strings.Index(got, "(said on "); day >= 0 {
				got = got[:day] + "(said on 2026-03-02)"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			talking.end()
		})
	}
}

func TestNotesTools(t *testing.T) {
	m := remember(t, openMem(t), layers.WorkingMemory(&layers.WorkingMemoryOptions{MaxBytes: 200}))
	c := talk(t, m, "t", "r")
	steps := []struct {
		tool, args string
		want       string // notes after it
		result     string // part of the result
	}{
		{"update", `{"notes":{"a":{"x":1,"y":{"z":[1,2]}},"list":["p"]}}`, `{"a":{"x":1,"y":{"z":[1,2]}},"list":["p"]}`, `"limit":200`},
		{"update", `{"notes":{"a":{"y":{"z":[2,3],"w":true}},"list":["p","q"]}}`, `{"a":{"x":1,"y":{"w":true,"z":[1,2,3]}},"list":["p","q"]}`, ""},
		{"update", `{"notes":{"a":{"y":{"z":[null,3,4]}},"list":[null,"r"],"new":[null,"n"]}}`, `{"a":{"x":1,"y":{"w":true,"z":[3,4]}},"list":["r"],"new":["n"]}`, ""},
		{"update", `{"notes":{"a":{"y":{"z":[null,1,2,null,3]}},"list":[null],"new":null}}`, `{"a":{"x":1,"y":{"w":true,"z":[1,2,3]}}}`, ""},
		{"update", `{"notes":{"list":["p","q"]}}`, `{"a":{"x":1,"y":{"w":true,"z":[1,2,3]}},"list":["p","q"]}`, ""},
		{"update", `{"notes":{"a":{"x":null,"y":{"z":null}}}}`, `{"a":{"y":{"w":true}},"list":["p","q"]}`, ""},
		{"update", `{"notes":{"a":"text","list":{"now":"object"}}}`, `{"a":"text","list":{"now":"object"}}`, ""},
		{"update", `{"notes":{"a":{"b.c":{"d":1}}}}`, `{"a":{"b.c":{"d":1}},"list":{"now":"object"}}`, ""},
		{"update", `{"notes":{"big":"` + strings.Repeat("x", 180) + `"}}`, `{"a":{"b.c":{"d":1}},"list":{"now":"object"}}`, "forget something first"},
		{"update", `{"notes":{"big":"` + strings.Repeat("x", 200) + `"}}`, `{"a":{"b.c":{"d":1}},"list":{"now":"object"}}`, "over the limit of 200"},
		{"update", `{"notes":{"deep":` + strings.Repeat("[", 17) + strings.Repeat("]", 17) + `}}`, `{"a":{"b.c":{"d":1}},"list":{"now":"object"}}`, "nested over 16"},
		{"update", `{"notes":{"":1}}`, `{"a":{"b.c":{"d":1}},"list":{"now":"object"}}`, "no name"},
		{"read", `{"section":"list"}`, `{"a":{"b.c":{"d":1}},"list":{"now":"object"}}`, `{"notes":{"list":{"now":"object"}}}`},
		{"read", `{"section":"none"}`, `{"a":{"b.c":{"d":1}},"list":{"now":"object"}}`, "there are a, list"},
		{"forget", `{"paths":["a.b.c.d","nothing.here"]}`, `{"list":{"now":"object"}}`, `"unknown":["nothing.here"]`},
		{"forget", `{"paths":["list.now","list"]}`, `{}`, `"forgotten":["list.now","list"]`},
		{"read", `{}`, `{}`, `{"notes":{}}`},
		{"forget", `{"paths":[]}`, `{}`, "no paths"},
	}
	for _, s := range steps {
		if got := c.call("working-memory_"+s.tool, s.args); !strings.Contains(got, s.result) {
			t.Errorf("%s %s = %s, want %s in it", s.tool, s.args, got, s.result)
		}
		var got struct{ Notes json.RawMessage }
		if err := json.Unmarshal([]byte(c.call("working-memory_read", `{}`)), &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Notes) != s.want {
			t.Errorf("after %s %s: %s, want %s", s.tool, s.args, got.Notes, s.want)
		}
	}
	c.end()
}

// Over the limit, what was touched longest ago goes first.
func TestNotesShrink(t *testing.T) {
	m := remember(t, openMem(t), layers.WorkingMemory(&layers.WorkingMemoryOptions{MaxBytes: 200}))
	c := talk(t, m, "t", "r")
	for i := range 20 {
		c.say(fmt.Sprintf("Remember that the code of door %d is %d.", i, 1000+i), "ok")
	}
	got := c.ask("hm")
	if strings.Contains(got, "door 0:") || !strings.Contains(got, "door 19: 1019") {
		t.Errorf("shown: %s", got)
	}
	data, err := json.Marshal(sections(t, m, "r"))
	if err != nil || len(data) > 200 {
		t.Errorf("notes take %d bytes: %s, %v", len(data), data, err)
	}
	c.end()
}

func TestNotesOverBudget(t *testing.T) {
	m := remember(t, openMem(t), layers.WorkingMemory(&layers.WorkingMemoryOptions{
		Spec: memory.Spec{Budget: projection.Exactly(100)},
	}))
	c := talk(t, m, "t", "r")
	for i := range 40 {
		c.say(fmt.Sprintf("Remember that the code of door %02d is %d.", i, 1000+i), "ok")
	}
	got := c.ask("hm")
	if !strings.Contains(got, "door 39") || strings.Contains(got, "door 00") {
		t.Errorf("shown: %s", got)
	}
	if note := c.note("working-memory"); !strings.Contains(note, "of 40 notes are left out") {
		t.Errorf("note = %q", note)
	}
	use := c.run.Report().Layers[0]
	if use.Trimmed != 0 || use.Used < 60 || use.Used > 100 {
		t.Errorf("use = %+v", use)
	}
	c.end()
}

// Executions that change the notes at once lose nothing to each other.
func TestNotesConcurrent(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		const runs, turns = 8, 5
		var wg sync.WaitGroup
		for i := range runs {
			m := remember(t, store, layers.WorkingMemory(nil)) // as in a process of its own
			wg.Go(func() {
				c := talk(t, m, fmt.Sprintf("t%d", i), "r")
				for j := range turns {
					c.say(fmt.Sprintf("Remember that the code of door %d-%d is %d.", i, j, 100*i+j), "ok")
					c.call("working-memory_update", fmt.Sprintf(`{"notes":{"all":["%d-%d"]}}`, i, j))
				}
				c.end()
			})
		}
		wg.Wait()
		got := sections(t, remember(t, store, layers.WorkingMemory(nil)), "r")
		if n := len(got["facts"].(map[string]any)); n != runs*turns {
			t.Errorf("%d facts, want %d", n, runs*turns)
		}
		if n := len(got["all"].([]any)); n != runs*turns {
			t.Errorf("%d elements, want %d", n, runs*turns)
		}
	})
}

// What is shown leads to the items that it was learned from.
func TestNotesRefs(t *testing.T) {
	m := remember(t, openMem(t), layers.WorkingMemory(nil))
	c := talk(t, m, "t", "r")
	for i, text := range []string{"My name is Anna.", "I live in Lisbon.", "Nothing to note.", "My name is Hanna."} {
		it := projection.Text(projection.User, text)
		it.ID = fmt.Sprint("item-", i)
		if _, err := c.run.Project(t.Context(), it); err != nil {
			t.Fatal(err)
		}
		c.commit("ok")
	}
	view, err := c.run.Project(t.Context(), projection.Text(projection.User, "hm"))
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, it := range view.All() {
		if it.Layer != "" {
			refs = it.Refs
		}
	}
	if diff := cmp.Diff([]string{"item-1", "item-3"}, refs); diff != "" {
		t.Error(diff)
	}
	c.end()
}

func TestNotesRestart(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		c := talk(t, remember(t, store, layers.WorkingMemory(nil)), "t1", "r")
		c.say("My name is Anna.", "Hi")
		c.end()
		c = talk(t, remember(t, store, layers.WorkingMemory(nil)), "t2", "r")
		if got := c.ask("hello"); got != "profile.name: Anna" {
			t.Errorf("after a restart: %q", got)
		}
		c.end()
	})
}

// An anchored layer tells only the lines that changed.
func TestNotesDelta(t *testing.T) {
	m := remember(t, openMem(t), layers.WorkingMemory(&layers.WorkingMemoryOptions{Spec: memory.Spec{Placement: projection.Anchor}}))
	c := talk(t, m, "t", "r")
	c.say("My name is Anna, and I live in Lisbon. I work at Acme. I love jazz. I hate mud. I like trains. "+
		"The deadline for the tax report is 2026-04-30. My favourite color is green. My dog is called Rex.", "ok")
	for range 3 {
		c.say("Tell me more.", strings.Repeat("More and more. ", 100))
	}
	c.say("My name is Hanna. I no longer like jazz.", "ok")
	got := c.ask("hello")
	want := "now: profile.name: Hanna\nno longer: preferences.jazz: loves\nno longer: profile.name: Anna"
	if !strings.HasSuffix(got, want) {
		t.Errorf("shown:\n%s\nwant at its end:\n%s", got, want)
	}
	c.end()
}

// A failing Extract loses nothing, and what comes late does not undo what was
// said since.
func TestExtractFails(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		var fault func(events []layers.Event) error
		var seen []string
		layer := layers.WorkingMemory(&layers.WorkingMemoryOptions{
			Extract: func(_ context.Context, in layers.ExtractInput) (map[string]any, error) {
				if err := fault(in.Events); err != nil {
					return nil, err
				}
				patch := map[string]any{}
				for _, e := range in.Events {
					if e.Role == projection.User {
						seen = append(seen, e.Text)
						key, value, _ := strings.Cut(e.Text, "=")
						patch[key] = value
					}
				}
				return patch, nil
			},
		})
		c := talk(t, remember(t, store, layer), "t1", "r")
		fault = func([]layers.Event) error { return errors.New("model is down") }
		c.say("a=1", "ok")
		c.say("b=1", "ok")
		fault = func([]layers.Event) error { panic("boom") }
		c.say("c=1", "ok")
		if c.ask("d=1"); !strings.Contains(c.note("working-memory"), "extract failed: panic: boom") {
			t.Errorf("note = %q", c.note("working-memory"))
		}
		c.commit("ok")
		c.end()

		// Another thread of another process learns a newer value, then all that waits.
		c = talk(t, remember(t, store, layer), "t2", "r")
		poison := errors.New("this one never works")
		fault = func(list []layers.Event) error {
			for _, e := range list {
				if e.Text == "b=1" {
					return poison
				}
			}
			return nil
		}
		for i := range 20 {
			c.say(fmt.Sprintf("a=%d", i+2), "ok")
		}
		if diff := cmp.Diff(map[string]any{"a": "21", "c": "1", "d": "1"}, sections(t, remember(t, store, layer), "r")); diff != "" {
			t.Error(diff)
		}
		if note := c.note("working-memory"); !strings.Contains(note, poison.Error()) {
			t.Errorf("note = %q", note)
		}
		fault = func([]layers.Event) error { return nil }
		for range 3 {
			c.say("e=1", "ok")
		}
		if diff := cmp.Diff(map[string]any{"a": "21", "b": "1", "c": "1", "d": "1", "e": "1"}, sections(t, remember(t, store, layer), "r")); diff != "" {
			t.Error(diff)
		}
		if c.ask("f=1"); c.note("working-memory") != "" {
			t.Errorf("note = %q after all was learned", c.note("working-memory"))
		}
		for _, text := range []string{"a=1", "b=1", "c=1", "d=1"} {
			n := 0
			for _, s := range seen {
				if s == text {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%q was learned from %d times, want once", text, n)
			}
		}
		c.commit("ok")
		c.end()
	})
}

func TestExtractReturnsNonsense(t *testing.T) {
	patches := []map[string]any{
		{"nan": math.NaN()}, {"func": func() {}}, {"big": strings.Repeat("x", 1<<20)}, {"": 1},
	}
	for i, patch := range patches {
		m := remember(t, openMem(t), layers.WorkingMemory(&layers.WorkingMemoryOptions{
			Extract: func(context.Context, layers.ExtractInput) (map[string]any, error) { return patch, nil },
		}))
		c := talk(t, m, "t", "r")
		c.say("hi", "ok")
		if got := c.ask("hm"); got != "" || !strings.Contains(c.note("working-memory"), "extract failed: ") {
			t.Errorf("patch %d: shown %q, note %q", i, got, c.note("working-memory"))
		}
		c.commit("ok")
		c.end()
	}
}

// An Extract that does not heed its context is left behind before the hook's
// time is up, so that its events are kept; the end of the execution waits for it.
func TestExtractHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openMem(t)
		release := make(chan struct{})
		hang := true
		layer := layers.WorkingMemory(&layers.WorkingMemoryOptions{
			Spec: memory.Spec{Timeouts: memory.Timeouts{Store: 10 * time.Second}},
			Extract: func(_ context.Context, in layers.ExtractInput) (map[string]any, error) {
				if hang {
					<-release
				}
				return map[string]any{"said": []string{in.Events[0].Text}}, nil
			},
		})
		m := remember(t, store, layer)
		c := talk(t, m, "t", "r")
		before := time.Now()
		c.say("first", "ok")
		if report := c.run.Report(); time.Since(before) >= 10*time.Second || report.Degraded() {
			t.Errorf("commit took %s, degraded: %v", time.Since(before), report.Degraded())
		}
		time.AfterFunc(time.Second, func() { close(release) })
		before = time.Now()
		c.end()
		if took := time.Since(before); took != time.Second {
			t.Errorf("end took %s, want the second until Extract returns", took)
		}
		hang = false
		c = talk(t, m, "t", "r")
		c.say("second", "ok")
		got := sections(t, m, "r")["said"]
		if diff := cmp.Diff([]any{"second", "first"}, got); diff != "" {
			t.Error(diff)
		}
		c.end()
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
