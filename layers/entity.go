package layers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// EntityOptions are the options of [Entity].
type EntityOptions struct {
	// Spec overrides: ID "entity", slot [memory.SlotEntity], scope resource,
	// budget at most 600 tokens, placement live.
	Spec memory.Spec
	// TopK is how many names are recalled at most; 0 means 4.
	TopK int
	// Mentions is how many mentions of a name are recalled at most, the newest;
	// 0 means 5.
	Mentions int
	// Tail is how many of the newest items of the log are taken to be in the
	// prompt already, and are not recalled; 0 means 20, negative none.
	Tail int
	// Extract finds what is said of whom. It replaces the default, which takes
	// every sentence with a name: a run of capitalised words. Where it fails the
	// default does the turn, so that nothing is lost.
	Extract func(ctx context.Context, events []Event) ([]Mention, error)
}

// Mention is what was said of somebody or something with a name.
type Mention struct {
	Name    string    `json:"name"` // found by each of its words
	Text    string    `json:"text"` // at most 400 bytes are kept
	Speaker string    `json:"speaker"`
	Time    time.Time `json:"time,omitzero"`
	Item    string    `json:"item,omitempty"` // id
}

// Entity returns the layer that knows what was said of whom: it keeps the
// sentences of users and assistants that have a name in them, and recalls the
// newest of those names that the newest user message has, in whatever case.
// What is said again counts as said then.
//
// At most 100 mentions of a turn are kept. There is no state; the records are
// m/<word of the name>/<time>-<digest>-<number> → [Mention].
func Entity(opts *EntityOptions) memory.Layer {
	var e entity
	if opts != nil {
		e.EntityOptions = *opts
	}
	if e.TopK <= 0 {
		e.TopK = 4
	}
	if e.Mentions <= 0 {
		e.Mentions = 5
	}
	e.Tail = cmp.Or(e.Tail, 20)
	spec := override(memory.Spec{
		ID: "entity", Slot: memory.SlotEntity, Scope: memory.ScopeResource,
		Budget: projection.Exactly(600), Placement: projection.Live, Format: 1,
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
}

const (
	mentionPrefix = "m/"
	maxMention    = 400 // bytes
	maxMentions   = 100 // of a turn
	maxNameWords  = 5
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
	keys := make(map[string]string)
	for i := range in.New {
		if id := in.New[i].ID; id != "" {
			keys[id] = itemKey(in.Execution, &in.New[i], i)
		}
	}
	for i := range found[:min(len(found), maxMentions)] {
		m := &found[i]
		m.Name, m.Text = line(m.Name, 100), line(m.Text, maxMention)
		value, err := json.Marshal(m)
		if err != nil {
			return memory.Change[struct{}]{}, err
		}
		id := fmt.Sprintf("%s-%03d", cmp.Or(keys[m.Item], timeKey(m.Time)+"-"+digest(in.Execution.ID(), m.Text)), i)
		for _, w := range nameWords(m.Name) {
			c = c.Put(mentionPrefix+storage.EscapeSegment(w)+"/"+id, value)
		}
	}
	return c, nil
}

// nameWords returns the words that a name is found by.
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
	// A word that begins a sentence is capitalised anyhow: it counts as a name if
	// it is one elsewhere in the turn.
	known := make(map[string]bool)
	for i := range list {
		for s := range sentences(list[i].Text) {
			for _, n := range properNames(s) {
				if n.at > 0 || n.words > 1 {
					known[n.text] = true
				}
			}
		}
	}
	var out []Mention
	for i := range list {
		e := &list[i]
		for s := range sentences(e.Text) {
			had := make(map[string]bool)
			for _, n := range properNames(s) {
				if known[n.text] && !had[n.text] {
					had[n.text] = true
					out = append(out, Mention{Name: n.text, Text: s, Speaker: e.Speaker(), Time: e.Time, Item: e.ID})
				}
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
// words at their beginning, the pronoun I, and words that say when.
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
		if !strings.HasSuffix(word, name) { // a comma or the like ends it
			flush()
		}
	}
	flush()
	return out
}

func (e *entity) recall(ctx context.Context, in *memory.RecallInput[struct{}]) (memory.Recalled[struct{}], error) {
	var out memory.Recalled[struct{}]
	visible := tailKeys(in, e.Tail)
	cards, err := e.find(ctx, in.Records, query(in.Query), visible)
	if err != nil {
		return out, err
	}
	for _, c := range cards[:min(len(cards), e.TopK)] {
		n := min(len(c.mentions), e.Mentions)
		out.Items = append(out.Items, item(c.text(n), c.refs[:n]...))
	}
	if len(out.Items) == 0 {
		out.Note = "the query has no name that is known"
	}
	return out, nil
}

// card is what is known of a name.
type card struct {
	name     string
	asked    int // words of the query that it has
	mentions []Mention
	refs     []string
}

// text says the newest n mentions.
func (c *card) text(n int) string {
	var b strings.Builder
	b.WriteString(c.name)
	for _, m := range c.mentions[:n] {
		b.WriteString("\n- ")
		if !m.Time.IsZero() {
			b.WriteString(m.Time.Format("2006-01-02 "))
		}
		b.WriteString(m.Speaker + ": " + m.Text)
	}
	return b.String()
}

// find returns the cards of the names in a query: those with more of its words
// first, then the ones mentioned last.
func (e *entity) find(ctx context.Context, records *memory.Records, text string, visible map[string]bool) ([]*card, error) {
	asked := wordSet(text)
	order := slices.Sorted(maps.Keys(asked))
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	const most = 32 // words of a query, the longest say most
	cards := make(map[string]*card)
	for _, w := range order[:min(len(order), most)] {
		prefix := mentionPrefix + storage.EscapeSegment(w) + "/"
		for entry, err := range records.Scan(ctx, prefix, &storage.ScanOptions{Reverse: true, Limit: 4 * e.Mentions * e.TopK}) {
			if err != nil {
				return nil, err
			}
			var m Mention
			if json.Unmarshal(entry.Value, &m) != nil || visible[itemOf(entry.Key[len(prefix):])] {
				continue // damaged: the others still count
			}
			c := cards[strings.ToLower(m.Name)]
			if c == nil {
				c = &card{name: m.Name}
				for _, n := range nameWords(m.Name) {
					if asked[n] {
						c.asked++
					}
				}
				cards[strings.ToLower(m.Name)] = c
			}
			if !slices.ContainsFunc(c.mentions, func(o Mention) bool { return o.Text == m.Text }) {
				c.mentions = append(c.mentions, m)
				c.refs = append(c.refs, records.Key(entry.Key))
			}
		}
	}
	list := make([]*card, 0, len(cards))
	for _, c := range cards {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *card) int {
		return cmp.Or(cmp.Compare(b.asked, a.asked), b.mentions[0].Time.Compare(a.mentions[0].Time), cmp.Compare(a.name, b.name))
	})
	return list, nil
}
