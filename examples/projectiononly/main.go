// Projectiononly projects a conversation with two sources of text into a
// budget, and keeps the start of the prompt still, so that a provider's cache
// holds it. There is no store and no memory: the program itself decides what to
// contribute, and when.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/stratamem/strata/projection"
)

func main() {
	ctx := context.Background()
	frame, err := projection.NewFrame(&projection.FrameOptions{
		Policy: projection.Policy{Budget: 300, Reserve: 50},
		System: []projection.Item{projection.Text(projection.System, "You help with a garden.")},
	})
	check(err)
	budgets, err := frame.Allocate([]projection.Budget{projection.Between(0, 40), projection.Exactly(30)})
	check(err)

	prefix := frame.NewPrefix(0)
	for day := range 8 {
		prefix.Append(projection.Text(projection.User, fmt.Sprintf("Day %d: what is to be done?", day+1)))
		view, err := prefix.Project(ctx, []projection.Contribution{
			{Layer: "plan", Budget: budgets.Layers[0], Texts: []projection.Passage{{Text: plan(day)}}},
			{Layer: "weather", Budget: budgets.Layers[1], Placement: projection.Live, Texts: []projection.Passage{{Text: weather(day)}}},
		})
		check(err)
		fmt.Printf("day %d: %d of %d tokens, the first %d items stay; history begins at item %d%s\n",
			day+1, view.Tokens, view.Cap, view.Stable, view.History.From, opened(view))
		if day == 7 {
			for band, it := range view.All() {
				fmt.Printf("  %-8s %q\n", band, it.Text())
			}
		}
		prefix.Append(projection.Text(projection.Assistant, "Water the beans in the morning, and look for snails under the leaves. That will do for today."))
	}
}

// plan changes once: the change is sent after the cached part, until the cache
// is lost anyway.
func plan(day int) string {
	if day < 3 {
		return "Beans go along the fence."
	}
	return "Beans go along the fence, tomatoes under the roof."
}

func weather(day int) string { return fmt.Sprintf("%d degrees, no rain", 20+day) }

func opened(v *projection.View) string {
	if v.Opened == "" {
		return ""
	}
	return " (" + v.Opened + ")"
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
