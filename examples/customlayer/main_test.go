package main

import (
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/layertest"
	"github.com/stratamem/strata/storage"
)

func TestMood(t *testing.T) {
	layertest.Run(t, layertest.Layer{
		New:   func(*testing.T, storage.Adapter) memory.Layer { return Mood() },
		Turns: []layertest.Turn{{User: "The total is wrong.", Assistant: "I look into it."}, {User: "Wrong again!", Assistant: "Sorry."}},
		Ask:   "And now?",
		Shows: "complained 2 times",
	})
}

func Example() {
	main()
	// Output:
	// <mood>
	// The user complained 2 times: apologise, be brief.
	// </mood>
}
