package recall

import (
	"context"
	"fmt"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage/search"
)

// FloorScore is the effect of the floor of a ranking.
type FloorScore struct {
	Unanswerable int     // questions without evidence
	Answerable   int     // questions with evidence, of the categories 1 to 4
	Silent       float64 // share of the unanswerable for which nothing is found
	Lost         float64 // recall at 10 of the answerable that the floor costs
}

// Floor measures the floor of a ranking on questions that nothing answers and
// on those that something does.
func Floor(ctx context.Context, data []locomo.Conversation, ranking search.Ranking) (FloorScore, error) {
	var out FloorScore
	open := ranking
	open.Floor = -1
	for i := range data {
		with, err := Search("", ranking).Open(ctx, data[i].Turns)
		if err != nil {
			return out, fmt.Errorf("measure floor: %w", err)
		}
		without, err := Search("", open).Open(ctx, data[i].Turns)
		if err != nil {
			return out, fmt.Errorf("measure floor: %w", err)
		}
		for _, q := range data[i].Questions {
			found, err := with.Search(ctx, q.Text, 10)
			if err != nil {
				return out, fmt.Errorf("measure floor: %w", err)
			}
			switch {
			case len(q.Evidence) == 0:
				out.Unanswerable++
				if len(found) == 0 {
					out.Silent++
				}
			case q.Category <= 4:
				all, err := without.Search(ctx, q.Text, 10)
				if err != nil {
					return out, fmt.Errorf("measure floor: %w", err)
				}
				out.Answerable++
				out.Lost += share(q.Evidence, all) - share(q.Evidence, found)
			}
		}
	}
	out.Silent /= float64(max(out.Unanswerable, 1))
	out.Lost /= float64(max(out.Answerable, 1))
	return out, nil
}
