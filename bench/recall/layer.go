package recall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
)

type turn = search.Doc

// Prompts are the sizes, in tokens, of what is recalled in [Layers].
var Prompts = []int{512, 1500, 4096}

// precise is the size of prompt at which precision and silence are measured.
const precise = 1500

// LayerScore is how recall through the layers, or the alternatives, did on the
// questions of one or several categories.
type LayerScore struct {
	Case      string // "layer", "both", "messages" or "excerpts"
	Category  string // "cat1-4", "cat1" … "cat6"
	Questions int

	// For questions with evidence:
	Evidence map[int]float64 // share of it shown in a prompt of that many tokens
	First    map[int]float64 // share of it among the first 1 and 10 messages
	// For questions of complete conversations that have evidence: the share of the
	// messages shown that bear on them, and how many were shown; 0 if there were
	// none.
	Precision float64
	Shown     int
	// For questions that need nothing: the share for which nothing was shown.
	Silent float64
	Needs  int // questions with evidence
}

// LayersOptions configures [Layers].
type LayersOptions struct {
	Split     []string                  // ids of conversations; nil means all
	Tokenizer projection.Tokenizer      // nil means [projection.Estimate]
	Progress  func(conversation string) // called with each as it begins; may be nil
}

// Layers measures recall as an agent experiences it: the conversations are
// committed through memory as turns with roles, tool calls and results, each in
// threads of one person, and then each question is asked in a thread of its
// own.
//
// Cases: layer, with only [layers.SemanticRecall]; both, together with
// WorkingMemory, which has at most a third of the tokens; and, in the same run
// and packed by the same [search.Pack], messages: plain BM25 over whole
// messages and results, and excerpts: plain BM25 over excerpts of 25 to 40
// words in which a user's words count three times. Evidence counts as shown if
// the prompt has the message, or the quote if the question has one. Messages
// are ordered by their best passage, for the layer as its search tool returns
// them.
func Layers(ctx context.Context, data []locomo.Conversation, opts *LayersOptions) ([]LayerScore, error) {
	if opts == nil {
		opts = &LayersOptions{}
	}
	if opts.Tokenizer == nil {
		opts.Tokenizer = projection.Estimate{}
	}
	data, err := part(data, opts.Split)
	if err != nil {
		return nil, err
	}
	cases := []string{"layer", "both", "messages", "excerpts"}
	all := make(map[string][]seen)
	for i := range data {
		c := &data[i]
		if opts.Progress != nil {
			opts.Progress(c.ID)
		}
		l, err := newLived(ctx, c, opts.Tokenizer)
		if err != nil {
			return nil, fmt.Errorf("bench recall: %s: %w", c.ID, err)
		}
		for _, q := range c.Questions {
			for _, name := range cases {
				s, err := l.ask(ctx, name, &q)
				if err != nil {
					return nil, fmt.Errorf("bench recall: %s: %s: %w", c.ID, name, err)
				}
				s.question, s.complete = q, c.Complete
				all[name] = append(all[name], s)
			}
		}
	}
	var scores []LayerScore
	for _, name := range cases {
		for _, c := range categories {
			part := slices.DeleteFunc(slices.Clone(all[name]), func(s seen) bool { return s.question.Category < c.from || s.question.Category > c.to })
			if len(part) > 0 {
				scores = append(scores, summariseSeen(name, c.name, part))
			}
		}
	}
	return scores, nil
}

// seen is the outcome of a question.
type seen struct {
	question locomo.Question
	complete bool
	ranked   []string // ids of messages, best first
	prompts  map[int]shown
}

// shown is what a prompt shows.
type shown struct {
	ids  []string
	text string
}

// shows returns how much of the evidence is shown.
func (p *shown) shows(q *locomo.Question) float64 {
	n := 0
	for _, id := range q.Evidence {
		if slices.Contains(p.ids, id) && strings.Contains(p.text, strings.Join(strings.Fields(q.Quotes[id]), " ")) {
			n++
		}
	}
	return float64(n) / float64(len(q.Evidence))
}

func summariseSeen(name, category string, list []seen) LayerScore {
	s := LayerScore{Case: name, Category: category, Questions: len(list), Evidence: make(map[int]float64), First: make(map[int]float64)}
	silent, bears := 0, 0
	for i := range list {
		q := &list[i].question
		p := list[i].prompts[precise]
		if len(q.Evidence) == 0 {
			if len(p.ids) == 0 {
				silent++
			}
			continue
		}
		s.Needs++
		for _, n := range Prompts {
			p := list[i].prompts[n]
			s.Evidence[n] += p.shows(q)
		}
		for _, k := range []int{1, 10} {
			s.First[k] += share(q.Evidence, list[i].ranked[:min(k, len(list[i].ranked))])
		}
		if !list[i].complete {
			continue
		}
		for _, id := range p.ids {
			s.Shown++
			if slices.Contains(q.Evidence, id) || slices.Contains(q.Related, id) {
				bears++
			}
		}
	}
	for n := range s.Evidence {
		s.Evidence[n] /= float64(s.Needs)
	}
	for k := range s.First {
		s.First[k] /= float64(s.Needs)
	}
	s.Precision = float64(bears) / float64(max(s.Shown, 1))
	s.Silent = float64(silent) / float64(max(s.Questions-s.Needs, 1))
	return s
}

// lived is a conversation after it was played.
type lived struct {
	turns    map[string]*turn
	count    func(string) int
	memories map[string]map[int]*memory.Memory // by case and prompt
	plain    map[string]*plainRanker           // by case
	asked    int
}

// clock returns the time of the conversation.
type clock struct{ now time.Time }

func newLived(ctx context.Context, c *locomo.Conversation, tokens projection.Tokenizer) (*lived, error) {
	store := mem.New()
	l := &lived{turns: make(map[string]*turn), count: tokens.Count, memories: make(map[string]map[int]*memory.Memory)}
	for i := range c.Turns {
		l.turns[c.Turns[i].ID] = &c.Turns[i]
	}
	list := sittings(c)
	now := &clock{end(list).Add(time.Hour)}
	open := func(layers ...memory.Layer) (*memory.Memory, error) {
		return memory.New(store, layers, &memory.Options{Tokenizer: tokens, Clock: func() time.Time { return now.now }})
	}
	m, err := open(layers.WorkingMemory(nil), layers.SemanticRecall(nil))
	if err != nil {
		return nil, err
	}
	if err := play(ctx, m, list); err != nil {
		return nil, err
	}
	for name, with := range map[string]bool{"layer": false, "both": true} {
		l.memories[name] = make(map[int]*memory.Memory)
		for _, n := range Prompts {
			var set []memory.Layer
			rest := n
			if with {
				rest -= n / 3
				set = append(set, layers.WorkingMemory(&layers.WorkingMemoryOptions{Spec: memory.Spec{Budget: projection.Between(0, n/3)}}))
			}
			set = append(set, layers.SemanticRecall(&layers.SemanticRecallOptions{Spec: memory.Spec{Budget: projection.Between(0, rest)}}))
			if l.memories[name][n], err = open(set...); err != nil {
				return nil, err
			}
		}
	}
	l.plain = map[string]*plainRanker{}
	for name, make := range map[string]func(*locomo.Conversation) []turn{"messages": whole, "excerpts": excerpts} {
		if l.plain[name], err = newPlain(ctx, make(c)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// ask returns the outcome of a question in a case.
func (l *lived) ask(ctx context.Context, name string, q *locomo.Question) (seen, error) {
	s := seen{prompts: make(map[int]shown)}
	if p, ok := l.plain[name]; ok {
		hits, err := p.search(ctx, q.Text)
		if err != nil {
			return s, err
		}
		s.ranked = messages(hits)
		for _, n := range Prompts {
			packed := search.Pack(hits, n, l.count)
			s.prompts[n] = shown{messages(kept(hits, packed.IDs)), packed.Text}
		}
		return s, nil
	}
	for _, n := range Prompts {
		var err error
		if s.prompts[n], err = l.prompt(ctx, l.memories[name][n], q.Text); err != nil {
			return s, err
		}
	}
	var err error
	s.ranked, err = l.tool(ctx, l.memories[name][precise], q.Text)
	return s, err
}

// begin begins a thread to ask in.
func (l *lived) begin(ctx context.Context, m *memory.Memory) (*memory.Run, error) {
	l.asked++
	return m.Begin(ctx, memory.Identity{Thread: fmt.Sprint("asked-", l.asked), Resource: person})
}

// prompt returns what layers show when a question is asked.
func (l *lived) prompt(ctx context.Context, m *memory.Memory, question string) (p shown, err error) {
	run, err := l.begin(ctx, m)
	if err != nil {
		return p, err
	}
	defer func() {
		if e := run.Discard(ctx); err == nil {
			err = e
		}
	}()
	view, err := run.Project(ctx, projection.Text(projection.User, question))
	if err != nil {
		return p, err
	}
	var b strings.Builder
	for _, it := range view.All() {
		if it.Layer == "" {
			continue
		}
		b.WriteString(strings.Join(strings.Fields(it.Text()), " ") + "\n")
		for _, ref := range it.Refs {
			if l.turns[ref] != nil && !slices.Contains(p.ids, ref) {
				p.ids = append(p.ids, ref)
			}
		}
	}
	p.text = b.String()
	return p, nil
}

// tool returns the messages that the search tool finds, best first.
func (l *lived) tool(ctx context.Context, m *memory.Memory, question string) (ids []string, err error) {
	run, err := l.begin(ctx, m)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := run.Discard(ctx); err == nil {
			err = e
		}
	}()
	args, err := json.Marshal(map[string]any{"query": question, "limit": 20})
	if err != nil {
		return nil, err
	}
	out, err := run.Call(ctx, "semantic-recall_search", args)
	if err != nil {
		return nil, err
	}
	var found struct {
		Passages []struct {
			Item string `json:"item"`
		} `json:"passages"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, err
	}
	for _, p := range found.Passages {
		if !slices.Contains(ids, p.Item) {
			ids = append(ids, p.Item)
		}
	}
	return ids, nil
}
