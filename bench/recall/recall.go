// Package recall measures how well questions about conversations find the turns
// that answer them, on data in the format of LoCoMo and on our own generated
// conversations in testdata. It judges what is found, not what a model does
// with it. [Run] measures rankers of turns, and [Layers] what an agent gets
// from them, through memory and its layers.
//
// The one decision: a ranker is anything that orders turns, so that ours, its
// parts and those of others are in one table, measured in one run.
package recall

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage/search"
)

// Options configures [Run].
type Options struct {
	Rankers  []Ranker              // nil means [Rankers]; the first three of them for threads with an assistant
	Split    []string              // ids of conversations; nil means all
	Count    func(text string) int // tokens of a text; nil means a token for four bytes
	Progress func(ranker string)   // called with each as it begins; may be nil
}

// Cutoffs are the ranks at which recall is measured, and Budgets the sizes of
// prompts in tokens.
var (
	Cutoffs = []int{1, 5, 10, 20, 50}
	Budgets = []int{256, 512, 1024, 2048, 4096, 8192}
)

// depth is how many turns are requested: enough to fill the largest budget.
const depth = 400

// Score is how a ranker did on the questions of one or several categories.
type Score struct {
	Ranker    string
	Category  string // "cat1-4", "cat1" … "cat5"
	Questions int
	Recall    map[int]Estimate // by cutoff
	Budget    map[int]Estimate // by budget
	MRR, NDCG Estimate
	Micros    float64 // median per question
	Bytes     float64 // of the indexes, without the turns, per conversation
}

// Estimate is a mean over questions, with the interval that holds 95 % of the
// means of 1,000 bootstrap samples of them.
type Estimate struct{ Mean, Low, High float64 }

// judged is the outcome of one question: a value per measure.
type judged struct {
	category int
	values   []float64
	took     time.Duration
}

// Run judges rankers by the questions that have evidence. Recall at k is the
// share of a question's evidence among the first k turns. Recall under a budget
// is that of the output of [search.Pack] for the ranked turns, one after
// another, each with the line of its session and its speaker. MRR uses the
// first turn of evidence, and nDCG@10 gains of 0 and 1.
func Run(ctx context.Context, data []locomo.Conversation, opts *Options) ([]Score, error) {
	if opts == nil {
		opts = &Options{}
	}
	rankers := opts.Rankers
	if rankers == nil {
		if rankers = Rankers(); withAssistant(data) {
			rankers = rankers[:3]
		}
	}
	data, err := part(data, opts.Split)
	if err != nil {
		return nil, err
	}
	count := cached(opts.Count)
	var scores []Score
	for _, r := range rankers {
		if opts.Progress != nil {
			opts.Progress(r.Name)
		}
		var all []judged
		var bytes int64
		for i := range data {
			list, n, err := judge(ctx, r, &data[i], count)
			if err != nil {
				return nil, fmt.Errorf("bench recall: %s: %s: %w", r.Name, data[i].ID, err)
			}
			all = append(all, list...)
			bytes += n
		}
		for _, c := range categories {
			part := slices.DeleteFunc(slices.Clone(all), func(j judged) bool { return j.category < c.from || j.category > c.to })
			if len(part) > 0 {
				s := summarise(part)
				s.Ranker, s.Category, s.Bytes = r.Name, c.name, float64(bytes)/float64(len(data))
				scores = append(scores, s)
			}
		}
	}
	return scores, nil
}

// withAssistant reports whether data consists of threads with an assistant,
// whose turns are long: there, measuring each cue is not worth the minutes.
func withAssistant(data []locomo.Conversation) bool {
	return !slices.ContainsFunc(data, func(c locomo.Conversation) bool {
		return slices.ContainsFunc(c.Turns, func(d search.Doc) bool {
			return d.Speaker != "user" && d.Speaker != "assistant" && c.Acts[d.ID].Role == ""
		})
	})
}

// part returns the conversations with ids, or all if that is nil.
func part(data []locomo.Conversation, ids []string) ([]locomo.Conversation, error) {
	if ids == nil {
		return data, nil
	}
	for _, id := range ids {
		if !slices.ContainsFunc(data, func(c locomo.Conversation) bool { return c.ID == id }) {
			return nil, fmt.Errorf("bench recall: there is no conversation %q", id)
		}
	}
	return slices.DeleteFunc(slices.Clone(data), func(c locomo.Conversation) bool { return !slices.Contains(ids, c.ID) }), nil
}

var categories = []struct {
	name     string
	from, to int
}{{"cat1-4", 1, 4}, {"cat1", 1, 1}, {"cat2", 2, 2}, {"cat3", 3, 3}, {"cat4", 4, 4}, {"cat5", 5, 5}, {"cat6", 6, 6}}

// cached caches counts, because a turn is packed for many questions.
func cached(count func(string) int) func(string) int {
	if count == nil {
		return nil
	}
	had := make(map[string]int)
	return func(text string) int {
		n, ok := had[text]
		if !ok {
			n = count(text)
			had[text] = n
		}
		return n
	}
}

func judge(ctx context.Context, r Ranker, c *locomo.Conversation, count func(string) int) (list []judged, bytes int64, err error) {
	s, err := r.Open(ctx, c.Turns)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	turns := make(map[string]search.Doc)
	for _, t := range c.Turns {
		turns[t.ID] = t
	}
	for _, q := range c.Questions {
		if len(q.Evidence) == 0 {
			continue
		}
		// Time what a prompt would request.
		start := time.Now()
		if _, err := s.Search(ctx, q.Text, 10); err != nil {
			return nil, 0, err
		}
		took := time.Since(start)
		ids, err := s.Search(ctx, q.Text, depth)
		if err != nil {
			return nil, 0, err
		}
		hits := make([]search.Hit, len(ids))
		for i, id := range ids {
			hits[i].Doc = turns[id]
		}
		list = append(list, judged{q.Category, measure(ids, hits, q.Evidence, count), took})
	}
	bytes, err = s.Bytes(ctx)
	return list, bytes, err
}

// measure returns recall at the cutoffs, recall under the budgets, the
// reciprocal rank and nDCG@10.
func measure(ids []string, hits []search.Hit, evidence []string, count func(string) int) []float64 {
	var values []float64
	for _, k := range Cutoffs {
		values = append(values, share(evidence, ids[:min(k, len(ids))]))
	}
	for _, b := range Budgets {
		values = append(values, share(evidence, search.Pack(hits, b, count).IDs))
	}
	reciprocal, gain, ideal := 0.0, 0.0, 0.0
	for i, id := range ids {
		if !slices.Contains(evidence, id) {
			continue
		}
		if reciprocal == 0 {
			reciprocal = 1 / float64(i+1)
		}
		if i < 10 {
			gain += 1 / math.Log2(float64(i+2))
		}
	}
	for i := range min(len(evidence), 10) {
		ideal += 1 / math.Log2(float64(i+2))
	}
	return append(values, reciprocal, gain/ideal)
}

// share returns what fraction of the evidence is among ids.
func share(evidence, ids []string) float64 {
	n := 0
	for _, e := range evidence {
		if slices.Contains(ids, e) {
			n++
		}
	}
	return float64(n) / float64(len(evidence))
}

func summarise(list []judged) Score {
	s := Score{Questions: len(list), Recall: make(map[int]Estimate), Budget: make(map[int]Estimate)}
	estimates := bootstrap(list)
	for i, k := range Cutoffs {
		s.Recall[k] = estimates[i]
	}
	for i, b := range Budgets {
		s.Budget[b] = estimates[len(Cutoffs)+i]
	}
	s.MRR, s.NDCG = estimates[len(estimates)-2], estimates[len(estimates)-1]
	slices.SortFunc(list, func(a, b judged) int { return int(a.took - b.took) })
	s.Micros = float64(list[len(list)/2].took.Nanoseconds()) / 1000
	return s
}

// bootstrap estimates every measure. Its samples are the same every time.
func bootstrap(list []judged) []Estimate {
	const samples = 1000
	rng := rand.New(rand.NewPCG(1, uint64(len(list))))
	n := len(list[0].values)
	means := make([][]float64, n)
	sums := make([]float64, n)
	for range samples {
		clear(sums)
		for range list {
			for m, v := range list[rng.IntN(len(list))].values {
				sums[m] += v
			}
		}
		for m := range sums {
			means[m] = append(means[m], sums[m]/float64(len(list)))
		}
	}
	out := make([]Estimate, n)
	for m := range out {
		for _, j := range list {
			out[m].Mean += j.values[m] / float64(len(list))
		}
		slices.Sort(means[m])
		out[m].Low, out[m].High = means[m][samples*25/1000], means[m][samples*975/1000-1]
	}
	return out
}
