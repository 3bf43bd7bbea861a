// Package adaptertest proves adapters: code that makes the request of a model's SDK of
// a view, so that a host need not.
//
// It knows no SDK and calls no model. It needs an [Adapter]: the way there, and the way
// back, which an adapter has for the answers of a model anyway.
//
//	func TestAdapter(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Adapter[[]mine.Message]{Request: Messages, Items: Items, Without: []string{adaptertest.Reasoning}})
//	}
//
// The one decision: what an SDK cannot carry is data in its Adapter, and all else
// must come back as it went, in its order.
package adaptertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stratamem/strata/projection"
)

// What an SDK may lack.
const (
	Reasoning = "reasoning" // thoughts of the model: they are left out
	Developer = "developer" // the role: its messages become the system's
	Names     = "names"     // of who says a message
	Failures  = "failures"  // that a tool failed is in the text alone
	Media     = "media"     // images and files
)

// Adapter is what is to be proven. R is a request, or that part of it that a view
// becomes, and encodes to JSON as the SDK sends it.
type Adapter[R any] struct {
	// Request makes a request of a view.
	Request func(view *projection.View) (R, error)
	// Items are the items that a request holds, in order. Of each only what an item
	// says is looked at: kind, role, name, parts, call and arguments.
	Items   func(request R) ([]projection.Item, error)
	Without []string // what the SDK lacks
}

// Run runs the cases as subtests of t.
func Run[R any](t *testing.T, a Adapter[R]) {
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) { a.comesBack(t, c.items) })
	}
	t.Run("the-prefix-stays", a.prefixStays)
}

// Fuzz has conversations made of bytes come back.
func Fuzz[R any](f *testing.F, a Adapter[R]) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05"), "text")
	f.Fuzz(func(t *testing.T, steps []byte, text string) { a.comesBack(t, conversation(steps, text)) })
}

// comesBack holds that the items of a view are those of its request.
func (a Adapter[R]) comesBack(t *testing.T, items []projection.Item) {
	t.Helper()
	r, err := a.Request(&projection.View{Segments: []projection.Segment{{Band: projection.BandHistory, Items: items}}})
	if err != nil {
		t.Fatalf("Request: %v", err)
	}
	got, err := a.Items(r)
	if err != nil {
		t.Fatalf("Items: %v", err)
	}
	if diff := cmp.Diff(a.carried(items), a.carried(got), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("items, and what came back: (-went +came)\n%s", diff)
	}
}

// carried returns what of items the SDK can carry.
func (a Adapter[R]) carried(items []projection.Item) []projection.Item {
	without := func(what string) bool { return slices.Contains(a.Without, what) }
	var list []projection.Item
	for i := range items {
		it := &items[i]
		c := projection.Item{Kind: it.Kind, Role: it.Role, Name: it.Name, Parts: it.Parts, CallID: it.CallID, Arguments: it.Arguments, Failed: it.Failed}
		if it.Kind == projection.Reasoning && without(Reasoning) {
			continue
		}
		if it.Kind != projection.ToolCall && (it.Kind != projection.Message || without(Names)) {
			c.Name = ""
		}
		if it.Role == projection.Developer && without(Developer) {
			c.Role = projection.System
		}
		if without(Failures) {
			c.Failed = false
		}
		if without(Media) {
			c.Parts = slices.DeleteFunc(slices.Clone(c.Parts), func(p projection.Part) bool { return p.Type != projection.TextPart })
		}
		list = append(list, c)
	}
	return list
}

// prefixStays holds that the bytes of a request are those of the one before it, past
// every item that its view said to be stable: a provider's cache goes by them.
func (a Adapter[R]) prefixStays(t *testing.T) {
	frame, err := projection.NewFrame(&projection.FrameOptions{
		Policy: projection.Policy{Budget: 4000, Reserve: -1},
		System: []projection.Item{projection.Text(projection.System, "word0000 You help.")},
	})
	if err != nil {
		t.Fatal(err)
	}
	budgets, err := frame.Allocate([]projection.Budget{projection.Exactly(50), projection.Exactly(50)})
	if err != nil {
		t.Fatal(err)
	}
	prefix := frame.NewPrefix(0)
	words := 0
	word := func() string {
		words++
		return fmt.Sprintf("word%04d", words)
	}
	var before []byte
	var stable []string // the words of its stable items
	for turn := range 20 {
		prefix.Append(projection.Text(projection.User, word()+" what is to be done?"))
		view, err := prefix.Project(t.Context(), []projection.Contribution{
			{Layer: "plan", Budget: budgets.Layers[0], Texts: []projection.Passage{{Text: fmt.Sprintf("plan%04d", turn/5)}}},
			{Layer: "time", Budget: budgets.Layers[1], Placement: projection.Live, Texts: []projection.Passage{{Text: fmt.Sprintf("time%04d", turn)}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Request(view)
		if err != nil {
			t.Fatalf("Request: %v", err)
		}
		now, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("encode request: %v", err)
		}
		same := 0
		for same < min(len(before), len(now)) && before[same] == now[same] {
			same++
		}
		for _, w := range stable {
			if view.Opened == "" && !strings.Contains(string(now[:same]), w) {
				t.Fatalf("turn %d: the request differs from the one before it at byte %d of %d, ahead of %q, which its view said to be stable", turn, same, len(before), w)
			}
		}
		before, stable = now, nil
		for _, it := range view.Items()[:view.Stable] {
			if w, _, _ := strings.Cut(it.Text(), " "); strings.HasPrefix(w, "word") {
				stable = append(stable, w)
			}
		}
		id := fmt.Sprint("call", turn)
		prefix.Append(projection.Call(id, "look", `{"at":"`+word()+`"}`), projection.Result(id, word()+" there"), projection.Text(projection.Assistant, word()+" is done."))
	}
}
