package layers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// EntityOptions configures [Entity].
type EntityOptions struct {
	// Spec overrides: ID "entity", slot [memory.SlotEntity], scope resource,
	// budget at most 600 tokens, placement live.
	Spec memory.Spec
	// TopK is how many names are recalled at most; 0 means 4.
	TopK int
	// Mentions is how many mentions of a name are recalled at most, newest first;
	// 0 means 5.
	Mentions int
	// Extract finds what is said about whom. It replaces the default, which takes
	// every sentence with a name: a run of capitalised words. If it fails, the
	// default handles the turn, so nothing is lost.
	Extract func(ctx context.Context, events []Event) ([]Mention, error)
}

// Mention is what was said about somebody or something with a name.
type Mention struct {
	Name    string    `json:"name"` // found by each of its words
	Text    string    `json:"text"` // at most 400 bytes are kept
	Speaker string    `json:"speaker"`
	Time    time.Time `json:"time,omitzero"`
	Item    string    `json:"item,omitempty"` // id
}

// Entity returns the layer that knows what was said about whom: it keeps
// sentences of users and assistants that contain a name, and recalls the newest
// ones for the names in the newest user message, in any case. A repeated
// statement counts as said at the later time.
//
// At most 100 mentions of a turn are kept. There is no state. The records are
// n/d/<time>-<digest> → what was said in a turn, and an index of the names,
// which finds at least the newest 256 mentions of each. The indexes of the 64
// scopes used last are kept in memory.
func Entity(opts *EntityOptions) memory.Layer {
	e := entity{heard: newHeard()}
	if opts != nil {
		e.EntityOptions = *opts
	}
	if e.TopK <= 0 {
		e.TopK = 4
	}
	if e.Mentions <= 0 {
		e.Mentions = 5
	}
	e.names.make = newNameIndex
	spec := override(memory.Spec{
		ID: "entity", Slot: memory.SlotEntity, Scope: memory.ScopeResource,
		Budget: projection.Between(0, 600), Placement: projection.Live, Format: 1,
	}, e.Spec)
	hooks := memory.Hooks[struct{}]{Recall: e.recall, Store: e.store}
	if e.Extract != nil {
		hooks.Dispose = func(ctx context.Context, in *memory.DisposeInput[struct{}]) error {
			return e.calls.wait(ctx, in.Execution)
		}
	}
	return memory.Define(spec, hooks)
}

type entity struct {
	EntityOptions
	calls calls
	names indexes[nameIndex]
	heard *heard
}

const (
	maxMention   = 400 // bytes
	maxMentions  = 100 // of a turn
	maxNameWords = 5
)

func (e *entity) store(ctx context.Context, in *memory.StoreInput[struct{}]) (memory.Change[struct{}], error) {
	var c memory.Change[struct{}]
	list := events(in.Execution, in.New, false)
	if len(list) == 0 {
		return c, nil
	}
	var found []Mention
	var err error
	if e.Extract != nil {
		found, err = attempt(ctx, &e.calls, in.Execution, func(ctx context.Context) ([]Mention, error) { return e.Extract(ctx, list) })
	}
	if e.Extract == nil || err != nil {
		found = mentions(list)
	}
	items := make(map[string]string)
	for i := range in.New {
		if id := in.New[i].ID; id != "" {
			items[id] = itemKey(in.Execution, &in.New[i], i)
		}
	}
	found = found[:min(len(found), maxMentions)]
	if len(found) == 0 {
		return c, nil
	}
	keys := make([]string, len(found))
	said, tidied := "", ""
	for i := range found {
		m := &found[i]
		if m.Text != said { // a sentence may have several names
			said, tidied = m.Text, line(m.Text, maxMention)
		}
		m.Name, m.Text = line(m.Name, 100), tidied
		if keys[i] = items[m.Item]; keys[i] == "" {
			keys[i] = timeKey(m.Time) + "-" + digest(in.Execution.ID(), m.Text)
		}
	}
	x, err := e.names.of(in.Records)
	if err != nil {
		return c, err
	}
	return x.add(ctx, in.Records, c, strings.TrimPrefix(list[0].key, eventPrefix), found, keys)
}

// nameWords returns the words by which a name is found.
func nameWords(name string) []string {
	var list []string
	for w := range words(name) {
		if !slices.Contains(list, w) && len(list) < maxNameWords {
			list = append(list, w)
		}
	}
	return list
}

// mentions is the default of Extract.
func mentions(list []Event) []Mention {
	type said struct {
		event    *Event
		sentence string
		names    []foundName
	}
	var all []said
	// The first word of a sentence is capitalised anyway: it counts as a name if
	// it is one elsewhere in the turn.
	known := make(map[string]bool)
	for i := range list {
		for s := range sentences(list[i].Text) {
			names := properNames(s)
			for _, n := range names {
				if n.at > 0 || n.words > 1 {
					known[n.text] = true
				}
			}
			if len(names) > 0 {
				all = append(all, said{&list[i], s, names})
			}
		}
	}
	var out []Mention
	for _, s := range all {
		for i, n := range s.names {
			again := slices.ContainsFunc(s.names[:i], func(o foundName) bool { return o.text == n.text })
			if known[n.text] && !again {
				out = append(out, Mention{Name: n.text, Text: s.sentence, Speaker: s.event.Speaker(), Time: s.event.Time, Item: s.event.ID})
			}
		}
	}
	return out
}

type foundName struct {
	text  string
	at    int // index of its first word in the sentence
	words int
}

// properNames returns the runs of capitalised words in a sentence, without stop
// words at their beginning, the pronoun I, and words for dates and times.
func properNames(sentence string) []foundName {
	var out []foundName
	var run []string
	at := 0
	flush := func() {
		for len(run) > 0 && (stopWords[strings.ToLower(run[0])] || tellsWhen("in "+run[0])) {
			run = run[1:]
			at++
		}
		if len(run) > 0 && len(run) <= maxNameWords {
			out = append(out, foundName{strings.Join(run, " "), at, len(run)})
		}
		run = nil
	}
	for i, word := range strings.Fields(sentence) {
		name := strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		name = strings.TrimSuffix(strings.TrimSuffix(name, "'s"), "’s")
		first, size := utf8.DecodeRuneInString(name)
		capital := unicode.IsUpper(first) && size < len(name)
		if !capital {
			flush()
			continue
		}
		if len(run) == 0 {
			at = i
		}
		run = append(run, name)
		if !strings.HasSuffix(word, name) { // punctuation ends it
			flush()
		}
	}
	flush()
	return out
}

func (e *entity) recall(ctx context.Context, in *memory.RecallInput[struct{}]) (memory.Recalled[struct{}], error) {
	var out memory.Recalled[struct{}]
	x, err := e.names.of(in.Records)
	if err != nil {
		return out, err
	}
	shown := shownIn(in)
	cards, err := x.find(ctx, in.Records, asked(query(in.Query)), shown, 2*e.TopK)
	if err != nil {
		return out, err
	}
	for _, c := range cards {
		if len(out.Items) == e.TopK {
			break
		}
		list, refs, err := e.heard.read(ctx, in.Records, c.mentions(shown), e.Mentions)
		if err != nil {
			return out, err
		}
		if len(list) > 0 {
			out.Items = append(out.Items, item(say(c.name, list), refs...))
		}
	}
	if len(out.Items) == 0 {
		out.Note = "the query contains no known name"
	}
	return out, nil
}

// say formats mentions of a name.
func say(name string, mentions []Mention) string {
	var b strings.Builder
	b.WriteString(name)
	for _, m := range mentions {
		b.WriteString("\n- ")
		if !m.Time.IsZero() {
			b.WriteString(m.Time.Format("2006-01-02 "))
		}
		b.WriteString(m.Speaker + ": " + m.Text)
	}
	return b.String()
}

// asked returns the most informative words of a query: the longest.
func asked(text string) []string {
	list := slices.Sorted(maps.Keys(wordSet(text)))
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return list[:min(len(list), maxAsked)]
}
