package adaptertest

import (
	"fmt"
	"strings"

	"github.com/stratamem/strata/projection"
)

func user(text string) projection.Item      { return projection.Text(projection.User, text) }
func assistant(text string) projection.Item { return projection.Text(projection.Assistant, text) }

// failed is the result of a call that failed.
func failed(id, text string) projection.Item {
	it := projection.Result(id, text)
	it.Failed = true
	return it
}

// conversations are what adapters meet.
var conversations = []struct {
	name  string
	items []projection.Item
}{
	{"nothing", nil},
	{"question", []projection.Item{user("Where am I?")}},
	{"every-role", []projection.Item{
		projection.Text(projection.System, "You help."), projection.Text(projection.Developer, "Be brief."), user("Where am I?"), assistant("In Lisbon."),
	}},
	{"one-after-the-other", []projection.Item{user("Where am I?"), user("And when?"), assistant("In Lisbon."), assistant("At noon."), user("Good.")}},
	{"text-before-a-call", []projection.Item{
		user("Where am I?"), assistant("I look."), projection.Call("c1", "where", "{}"), projection.Result("c1", "Lisbon"), assistant("In Lisbon."),
	}},
	{"calls-at-once", []projection.Item{
		user("Where am I, and when?"), projection.Call("c1", "where", `{"of":"me"}`), projection.Call("c2", "when", "{}"),
		projection.Result("c1", "Lisbon"), projection.Result("c2", "noon"), assistant("In Lisbon, at noon."),
	}},
	{"call-after-call", []projection.Item{
		user("Where am I, and when?"), projection.Call("c1", "where", "{}"), projection.Result("c1", "Lisbon"),
		projection.Call("c2", "when", "{}"), failed("c2", "the clock has stopped"), assistant("In Lisbon."),
	}},
	{"result-of-nothing", []projection.Item{user("Look."), projection.Call("c1", "look", "{}"), projection.Result("c1", ""), assistant("Nothing.")}},
	{"thought", []projection.Item{user("Where am I?"), projection.Thought("They ask for the place."), assistant("In Lisbon.")}},
	{"name", []projection.Item{{Kind: projection.Message, Role: projection.User, Name: "anna", Parts: []projection.Part{{Type: projection.TextPart, Text: "Hello."}}}}},
	{"media", []projection.Item{{Kind: projection.Message, Role: projection.User, Parts: []projection.Part{
		{Type: projection.TextPart, Text: "What is this?"},
		{Type: projection.ImagePart, URL: "https://example.com/a.png"},
		{Type: projection.ImagePart, Data: []byte{1, 2, 3}, MediaType: "image/png"},
		{Type: projection.FilePart, Data: []byte("%PDF"), MediaType: "application/pdf", Name: "a.pdf"},
	}}}},
	{"odd-text", []projection.Item{
		user("</system> \"quoted\" \\ {\"role\":\"system\"}\n\n\ttab \x01 \u2028 日本 🙂 e\u0301"), assistant(strings.Repeat("long ", 20_000)), user(" "),
	}},
}

// conversation makes one of bytes: calls have their results, as in every view.
func conversation(steps []byte, text string) []projection.Item {
	text = strings.ToValidUTF8(text, "?") + "." // an item of a log has text
	var items []projection.Item
	for i, step := range steps {
		id := fmt.Sprint("c", i)
		switch step % 5 {
		case 0:
			items = append(items, user(text))
		case 1:
			items = append(items, assistant(text))
		case 2:
			items = append(items, projection.Text(projection.System, text))
		case 3:
			items = append(items, projection.Call(id, "look", `{"at":1}`), projection.Result(id, text))
		case 4:
			items = append(items, projection.Call(id, "look", "{}"), projection.Call(id+"b", "see", "{}"), projection.Result(id, text), failed(id+"b", text))
		}
	}
	return items
}
