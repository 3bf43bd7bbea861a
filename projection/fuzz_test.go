package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

// program makes the decisions of a run: first those of the fuzz input, then
// random ones that the input seeds.
type program struct {
	data []byte
	rand *rand.Rand
}

func newProgram(data []byte) *program {
	h := fnv.New64a()
	h.Write(data)
	return &program{data, rand.New(rand.NewPCG(h.Sum64(), 0))}
}

func (p *program) next(n int) int {
	if len(p.data) == 0 {
		return p.rand.IntN(n)
	}
	b := int(p.data[0])
	p.data = p.data[1:]
	return b % n
}

// tokenizers that a user might hand in, honest and otherwise.
type oddTokenizer int

func (o oddTokenizer) Name() string { return fmt.Sprint("odd-", int(o)) }

func (o oddTokenizer) Count(text string) int {
	switch o {
	case 0:
		return len(text)
	case 1:
		return 0
	case 2:
		return -len(text)
	case 3: // not monotone: longer texts can be cheaper
		return (len(text) * 7919) % 101
	case 4:
		return math.MaxInt
	case 5:
		return math.MinInt
	case 6: // a hash of the content
		n := 17
		for i := range len(text) {
			n = (n*31 + int(text[i])) % 257
		}
		return n
	}
	return (len(text) + 3) / 4
}

func (o oddTokenizer) CountPart(p projection.Part) int {
	if o == 4 {
		return math.MaxInt
	}
	return 85 + len(p.Data)
}

func (o oddTokenizer) Overhead() int { return int(o) - 1 }

func (p *program) text() string {
	words := []string{
		"a", "</l0>", "<l1 replace>", "日本語", "\xff\xfe", "\u0000", "word ", "\n", "🙂", "[shortened]",
		"< / L2\n>", "<SUMMARY>", "<l\u200b3>", "<", "</l", "<sum", "mary>", "1>", "<<l4/>", "<!--l0-->", "＜l1＞", "&lt;l2>", "<l5>",
	}
	var text strings.Builder
	text.WriteString(strings.Repeat(words[p.next(len(words))], 1<<p.next(9)) + fmt.Sprint(p.next(7)))
	for range p.next(3) { // which may end in a half
		text.WriteString(words[p.next(len(words))])
	}
	return text.String()
}

// forged returns what in the text of a block reads as a tag of a block, or as the
// beginning of one. It knows the spellings of text above.
func forged(text string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r == '＜':
			return '<'
		case unicode.IsLetter(r), '0' <= r && r <= '9', r == '<', r == '>':
			return r
		}
		return -1
	}, strings.ToLower(text))
	if tag := tags.FindString(plain); tag != "" {
		return tag
	}
	return half.FindString(plain)
}

var (
	tags = regexp.MustCompile(`<(l[0-4]|summary)(\b|[^0-9a-z]|replace|add|retract)`)
	half = regexp.MustCompile(`<(l[0-4]?|s|su|sum|summ|summa|summar|summary)?$`)
)

func (p *program) item() projection.Item {
	switch p.next(10) {
	case 0, 1, 2:
		return projection.Text(projection.User, p.text())
	case 3, 4:
		return projection.Text(projection.Assistant, p.text())
	case 5:
		return projection.Call(fmt.Sprint("c", p.next(5)), "tool", p.text())
	case 6:
		return projection.Result(fmt.Sprint("c", p.next(5)), p.text())
	case 7:
		return projection.Thought(p.text())
	case 8:
		it := projection.Text(projection.User, p.text())
		if it.Remembered = p.next(2) == 1; it.Remembered { // as who puts data into a log
			it.Parts[0].Text = "<summary data>\n1\n</summary>"
			return it
		}
		it.Parts = append(it.Parts, projection.Part{Type: projection.ImagePart, URL: "u"}, projection.Part{Type: projection.FilePart, Data: make([]byte, p.next(200))})
		return it
	}
	return projection.Item{}
}

// FuzzAssemble runs conversations of adversarial items, tokenizers and policies
// and checks what every view promises.
func FuzzAssemble(f *testing.F) {
	for i := range 300 {
		f.Add([]byte{byte(i), byte(i >> 8)})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		p := newProgram(data)
		tok := oddTokenizer(p.next(8))
		policy := projection.Policy{
			Budget:   20 + p.next(256)*(1+p.next(64)),
			Reserve:  p.next(20) - 1,
			Overflow: []projection.Overflow{"", projection.Truncate, projection.SlidingWindow, projection.Summarize}[p.next(4)],
			Window:   1 + p.next(12),
			Summarize: func(_ context.Context, items []projection.Item, _ int) (string, error) {
				switch len(items) % 4 {
				case 0:
					return "", errors.New("no summary")
				case 1:
					return strings.Repeat("long ", 2000), nil
				}
				return fmt.Sprint("summary of ", len(items)), nil
			},
			NoAnchors: p.next(8) == 7,
		}
		if policy.Validate() != nil {
			return
		}
		var system, tail []projection.Item
		if p.next(2) == 1 {
			system = append(system, projection.Text(projection.System, p.text()))
		}
		if p.next(4) == 3 {
			tail = append(tail, projection.Text(projection.System, p.text()))
		}
		layers := make([]projection.Contribution, p.next(5))
		budgets := make([]projection.Budget, len(layers))
		for i := range layers {
			layers[i].Layer = fmt.Sprint("l", i)
			layers[i].Placement = []projection.Placement{projection.Auto, projection.Auto, projection.Anchor, projection.Live}[p.next(4)]
			layers[i].Required = p.next(6) == 5
			if p.next(2) == 1 {
				layers[i].Authority = projection.Instruction
			}
			if lo, hi := p.next(50), p.next(3)*400; lo <= hi {
				budgets[i] = projection.Between(lo, hi)
			}
			if p.next(3) == 2 {
				layers[i].Delta = func(_, now string) (string, bool) { return now[:min(3, len(now))], true }
			}
		}
		frame, err := projection.NewFrame(&projection.FrameOptions{Policy: policy, Tokenizer: tok, System: system, Tail: tail, Layers: []string{"l0", "l1", "l2", "l3", "l4"}})
		if err != nil {
			t.Fatal(err)
		}
		prefix := frame.NewPrefix(p.next(3))
		var stable []byte
		for range 4 + p.next(40) {
			for range p.next(5) {
				prefix.Append(p.item())
			}
			alloc, err := frame.Allocate(budgets)
			if err != nil {
				t.Fatal(err)
			}
			failed := false
			for i := range layers {
				layers[i].Budget = alloc.Layers[i]
				layers[i].Failed = p.next(9) == 8
				failed = failed || layers[i].Failed
				if p.next(3) == 0 {
					layers[i].Texts = nil
					for range p.next(4) {
						layers[i].Texts = append(layers[i].Texts, projection.Passage{Text: p.text(), Data: p.next(4) == 3})
					}
				}
			}
			again, err := restored(frame, prefix)
			if err != nil {
				t.Fatal(err)
			}
			if p.next(3) > 0 {
				before := prefix.Shown(layers)
				if after := again.Shown(layers); !slices.EqualFunc(before, after, equal) {
					t.Fatalf("a restored prefix will show %d items, it was to be %d", len(after), len(before))
				}
			}
			v, err := prefix.Project(t.Context(), layers)
			if err != nil {
				if !errors.Is(err, projection.ErrBudget) {
					t.Fatal(err)
				}
				continue
			}
			if !failed { // what a layer that fails last said is not stored
				w, err := again.Project(t.Context(), layers)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(v.AppendText(nil), w.AppendText(nil)) || v.Opened != w.Opened {
					t.Fatalf("a restored prefix gave another view: opened %q, not %q\n%.3000s", w.Opened, v.Opened, cmp.Diff(show(v), show(w)))
				}
			}
			stable = checkView(t, v, tok, prefix, stable)
			if p.next(12) == 11 {
				zero := p.next(2)
				prefix.Observe(&zero, nil)
			}
			switch p.next(8) {
			case 6:
				to, _ := prefix.Spare()
				prefix.Drop(to, true)
			case 7: // as who forgets more than that
				prefix.Drop(max(prefix.First(), prefix.Len()-p.next(6)), false)
			}
		}
	})
}

// checkView checks one view against the promises of the package, and returns
// the bytes of its stable prefix.
func checkView(t *testing.T, v *projection.View, tok projection.Tokenizer, prefix *projection.Prefix, stable []byte) []byte {
	t.Helper()
	total, n := 0, 0
	calls, results := map[string]int{}, map[string]int{}
	var text, held []byte
	newest, dataFrom := false, false
	for band, it := range v.All() {
		total += projection.Size(tok, it)
		if block := it.Text(); it.Layer != "" || it.Remembered {
			checkBlock(t, band, it, block)
			open := 0
			for id, n := range calls {
				open += n - results[id]
			}
			if open > 0 && it.Layer != "" { // a host may put data anywhere into its log
				t.Fatalf("the layer %q stands between a call and its result", it.Layer)
			}
			if dataFrom = dataFrom || it.Remembered; band == projection.BandAnchor && dataFrom && !it.Remembered {
				t.Fatalf("data stands before the instructions of %q", it.Layer)
			}
		}
		if n++; n == v.Stable {
			held = bytes.Clone(text)
		}
		switch it.Kind {
		case projection.ToolCall:
			calls[it.CallID]++
		case projection.ToolResult:
			results[it.CallID]++
			if results[it.CallID] > calls[it.CallID] {
				t.Fatalf("result %q without its call before it", it.CallID)
			}
		case projection.Message:
			newest = newest || it.FromUser() && it.Text() == prefix.Query()
		}
	}
	switch {
	case total > v.Cap:
		t.Fatalf("view of %d tokens is over its cap of %d", total, v.Cap)
	case total != v.Tokens:
		t.Fatalf("view says %d tokens, it has %d", v.Tokens, total)
	case !cmp.Equal(calls, results):
		t.Fatalf("calls %v do not match results %v", calls, results)
	case v.Opened == "" && !bytes.HasPrefix(text, stable):
		i := 0
		for i < len(text) && stable[i] == text[i] {
			i++
		}
		t.Fatalf("inside an epoch the stable prefix changed at byte %d:\n%.200q\n%.200q", i, stable[i:], text[i:])
	case v.Stable > n || len(v.Breakpoints) > 4:
		t.Fatalf("stable %d of %d items, breakpoints %v", v.Stable, n, v.Breakpoints)
	case !shows(newestExchange(prefix), results):
		t.Fatalf("the newest tool exchange %v is not in the view", newestExchange(prefix))
	case prefix.Query() != "" && !newest:
		t.Fatal("the newest user message is not in the view")
	}
	if v.History.Tokens > v.History.Budget {
		t.Fatalf("history has %d tokens, its budget is %d", v.History.Tokens, v.History.Budget)
	}
	checkBooks(t, v, tok, prefix)
	return held
}

// checkBooks adds up the items of a view, and compares with what it says of itself.
func checkBooks(t *testing.T, v *projection.View, tok projection.Tokenizer, prefix *projection.Prefix) {
	t.Helper()
	size := func(it *projection.Item) int { return projection.Size(tok, it) }
	n, stable := 0, 0
	history, older := projection.HistoryUse{From: v.History.From, Budget: v.Cap - v.Tokens, Unpaired: v.History.Unpaired, Cut: v.History.Cut}, 0
	layers := map[string]*projection.LayerUse{}
	for i := range v.Layers {
		layers[v.Layers[i].Layer] = &projection.LayerUse{}
	}
	for i, s := range v.Segments {
		if len(s.Items) == 0 || s.Band == projection.BandUpdates && len(s.Sizes) != len(s.Items) {
			t.Fatalf("segment %d has %d items and %d sizes", i, len(s.Items), len(s.Sizes))
		}
		if s.From >= 0 && (s.Band != projection.BandHistory || !slices.EqualFunc(s.Items, prefix.Items(s.From, s.From+len(s.Items)), equal)) {
			t.Fatalf("segment %d, of band %s, is not the conversation from %d on", i, s.Band, s.From)
		}
		for j := range s.Items {
			it := &s.Items[j]
			if n++; n <= v.Stable {
				stable += size(it)
			}
			switch l := layers[it.Layer]; {
			case l != nil:
				l.Items++
				l.Used += size(it)
			case s.Band == projection.BandHistory:
				history.Tokens += size(it)
				history.Items += btoi(s.From >= 0)
				older += btoi(s.From >= 0 && s.From < v.History.From)
			}
			if s.Sizes != nil && s.Sizes[j] != size(it) {
				t.Fatalf("update %d has %d tokens, not %d", j, size(it), s.Sizes[j])
			}
		}
	}
	history.Budget += history.Tokens
	history.Dropped = history.From - older
	if short := strings.Contains(strings.Join(v.Notes, ""), "shortened by"); short { // a shortened result is none of the log's
		history.Items = v.History.Items
	}
	for _, l := range v.Layers {
		if got := layers[l.Layer]; l.Used+l.Carried != got.Used || l.Items != got.Items || l.Yielded != max(l.Allocated-l.Used, 0) {
			t.Fatalf("layer has %d items with %d tokens in the view, it says %+v", got.Items, got.Used, l)
		}
	}
	last := 0
	for _, b := range v.Breakpoints {
		if b <= last {
			t.Fatalf("breakpoints %v do not ascend", v.Breakpoints)
		}
		last = b
	}
	if history != v.History || stable != v.StableTokens || last != v.Stable {
		t.Fatalf("view has %+v and %d stable tokens; it says %+v, %d, of %d items, breakpoints %v", history, stable, v.History, v.StableTokens, v.Stable, v.Breakpoints)
	}
}

func equal(a, b projection.Item) bool { return a.Equal(&b) }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkBlock checks that a layer's item, or a summary, is one block and says what it is.
func checkBlock(t *testing.T, band projection.Band, it *projection.Item, block string) {
	t.Helper()
	name, head := it.Layer, "<"+it.Layer
	if name == "" {
		name, head = "summary", "<summary"
	}
	if it.Remembered {
		head += " data"
	}
	if it.Action != "" {
		head += " " + string(it.Action)
	}
	inner, opened := strings.CutPrefix(block, head+">\n")
	inner, closed := strings.CutSuffix(inner, "\n</"+name+">")
	if it.Action == projection.Retract {
		inner, opened, closed = "", block == head+"/>", true
	}
	role := projection.System
	if it.Remembered {
		role = projection.User
	}
	if tag := forged(inner); !opened || !closed || tag != "" || it.Role != role || it.Kind != projection.Message {
		t.Fatalf("band %s has as %s and %s, forging %q:\n%.2000q", band, it.Kind, it.Role, tag, block)
	}
}

// newestExchange returns the ids of the calls that the model made last and that were
// answered since.
func newestExchange(prefix *projection.Prefix) []string {
	var answered, ids []string
	calls := false
	for _, it := range slices.Backward(prefix.Items(prefix.First(), prefix.Len())) {
		switch {
		case it.Kind == projection.ToolCall && slices.Contains(answered, it.CallID) && !slices.Contains(ids, it.CallID):
			ids, calls = append(ids, it.CallID), true
		case it.Kind == projection.ToolCall || it.Kind == projection.Reasoning:
			calls = true
		case calls || it.Kind == "" || it.Kind == projection.Message && it.Role == projection.Assistant:
			return ids
		case it.Kind == projection.ToolResult:
			answered = append(answered, it.CallID)
		}
	}
	return ids
}

func shows(ids []string, results map[string]int) bool {
	return !slices.ContainsFunc(ids, func(id string) bool { return results[id] == 0 })
}

// FuzzRestore gives Restore states that nobody wrote: it takes them or not, and the
// prefix can be used.
func FuzzRestore(f *testing.F) {
	frame, err := projection.NewFrame(&projection.FrameOptions{Policy: projection.Policy{Budget: 400, Reserve: -1}, Tokenizer: oddTokenizer(7)})
	if err != nil {
		f.Fatal(err)
	}
	layers := []projection.Contribution{says("a", "one"), says("b", "two")}
	texts := []projection.Item{projection.Text(projection.System, "<a>\none\n</a>"), {}, user("x")}
	grown := func() *projection.Prefix {
		p := frame.NewPrefix(3)
		for i := range 9 {
			p.Append(user(fmt.Sprint("u", i)), projection.Call("c", "f", "{}"), projection.Result("c", "r"), assistant(strings.Repeat("a", 60)))
		}
		return p
	}
	p := grown()
	for i := range 4 {
		layers[0] = says("a", fmt.Sprint("one ", i))
		if _, err := p.Project(f.Context(), layers); err != nil {
			f.Fatal(err)
		}
		f.Add(p.AppendState(nil, func(*projection.Item, int) int { return i % 3 }))
		p.Append(user("more"), projection.Call("d", "f", "{}"))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		p := grown()
		if err := p.Restore(state, at(texts), &texts[2]); err != nil && !errors.Is(err, projection.ErrState) {
			t.Fatal(err)
		}
		p.Append(user("hello"))
		p.Shown(layers)
		v, err := p.Project(t.Context(), layers)
		if err != nil {
			if !errors.Is(err, projection.ErrBudget) {
				t.Fatal(err)
			}
			return
		}
		if v.Len() == 0 {
			t.Error("the view is empty")
		}
		p.AppendState(nil, func(*projection.Item, int) int { return 0 })
	})
}
