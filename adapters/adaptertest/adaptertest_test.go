package adaptertest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stratamem/strata/adapters/adaptertest"
	"github.com/stratamem/strata/projection"
)

// message is one of a made-up SDK, as most have them: what the model says and calls is
// one message, results are by id, and there are no thoughts.
type message struct {
	Role    string            `json:"role"`
	Name    string            `json:"name,omitempty"`
	Content []projection.Part `json:"content,omitempty"`
	Calls   []call            `json:"calls,omitempty"`
	Answers string            `json:"answers,omitempty"` // the id of a call
	Error   bool              `json:"error,omitempty"`
}

type call struct{ ID, Function, Arguments string }

func messages(view *projection.View) ([]message, error) {
	var list []message
	for _, it := range view.All() {
		switch it.Kind {
		case projection.Message:
			list = append(list, message{Role: string(it.Role), Name: it.Name, Content: it.Parts})
		case projection.ToolCall:
			c := call{it.CallID, it.Name, it.Arguments}
			if n := len(list); n > 0 && list[n-1].Role == string(projection.Assistant) {
				list[n-1].Calls = append(list[n-1].Calls, c)
			} else {
				list = append(list, message{Role: string(projection.Assistant), Calls: []call{c}})
			}
		case projection.ToolResult:
			list = append(list, message{Role: "tool", Content: it.Parts, Answers: it.CallID, Error: it.Failed})
		}
	}
	return list, nil
}

func items(list []message) ([]projection.Item, error) {
	var all []projection.Item
	for _, m := range list {
		if m.Role == "tool" {
			all = append(all, projection.Item{Kind: projection.ToolResult, CallID: m.Answers, Parts: m.Content, Failed: m.Error})
			continue
		}
		if len(m.Content) > 0 || len(m.Calls) == 0 {
			all = append(all, projection.Item{Kind: projection.Message, Role: projection.Role(m.Role), Name: m.Name, Parts: m.Content})
		}
		for _, c := range m.Calls {
			all = append(all, projection.Call(c.ID, c.Function, c.Arguments))
		}
	}
	return all, nil
}

var madeUp = adaptertest.Adapter[[]message]{Request: messages, Items: items, Without: []string{adaptertest.Reasoning}}

func TestMadeUp(t *testing.T) { adaptertest.Run(t, madeUp) }

func FuzzMadeUp(f *testing.F) { adaptertest.Fuzz(f, madeUp) }

// wrong are adapters that each do one thing wrong, by the case that says so.
var wrong = map[string]func(list []message) ([]message, error){
	"question": func([]message) ([]message, error) { return nil, errors.New("not today") },
	"every-role": func(list []message) ([]message, error) { // there is no developer
		for i := range list {
			if list[i].Role == string(projection.Developer) {
				list[i].Role = string(projection.User)
			}
		}
		return list, nil
	},
	"one-after-the-other": func(list []message) ([]message, error) { // messages of one role become one
		var out []message
		for _, m := range list {
			if n := len(out); n > 0 && out[n-1].Role == m.Role && len(m.Calls) == 0 && m.Answers == "" {
				out[n-1].Content = append(out[n-1].Content[:len(out[n-1].Content):len(out[n-1].Content)], m.Content...)
				continue
			}
			out = append(out, m)
		}
		return out, nil
	},
	"calls-at-once": func(list []message) ([]message, error) { // one call is enough
		for i := range list {
			list[i].Calls = list[i].Calls[:min(len(list[i].Calls), 1)]
		}
		return list, nil
	},
	"call-after-call": func(list []message) ([]message, error) {
		for i := range list {
			list[i].Error = false
		}
		return list, nil
	},
	"result-of-nothing": func(list []message) ([]message, error) { // an empty message is none
		var out []message
		for _, m := range list {
			if m.Answers == "" || m.Content[0].Text != "" {
				out = append(out, m)
			}
		}
		return out, nil
	},
	"name": func(list []message) ([]message, error) {
		for i := range list {
			list[i].Name = ""
		}
		return list, nil
	},
	"media": func(list []message) ([]message, error) { // text alone
		for i := range list {
			list[i].Content = list[i].Content[:min(len(list[i].Content), 1)]
		}
		return list, nil
	},
	"odd-text": func(list []message) ([]message, error) {
		for i := range list {
			if p := list[i].Content; len(p) == 1 {
				list[i].Content = []projection.Part{{Type: p[0].Type, Text: strings.TrimSpace(p[0].Text)}}
			}
		}
		return list, nil
	},
	"the-prefix-stays": func(list []message) ([]message, error) { // the newest first, as the model reads it last
		if n := len(list); n > 3 {
			list = append([]message{list[n-1]}, list[:n-1]...)
		}
		return list, nil
	},
}

const childEnv = "STRATA_WRONG_ADAPTER"

// TestWrong runs the suite over each wrong adapter, in a process of its own, in which
// it must fail.
func TestWrong(t *testing.T) {
	if spoil, ok := wrong[os.Getenv(childEnv)]; ok {
		a := madeUp
		a.Request = func(view *projection.View) ([]message, error) {
			list, err := messages(view)
			if err != nil {
				return nil, err
			}
			return spoil(list)
		}
		adaptertest.Run(t, a)
		return
	}
	for name := range wrong {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWrong$")
			cmd.Env = append(os.Environ(), childEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestWrong/"+name+" ") {
				t.Errorf("%v: the case does not fail:\n%.3000s", err, out)
			}
		})
	}
}
