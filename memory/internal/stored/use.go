package stored

import (
	"fmt"

	"github.com/stratamem/strata/projection"
)

// The names of the hooks of which a turn's record says what they put into the prompt
// and what they kept out of it.
const (
	Append = "append"
	Recall = "recall"
)

// UseOf returns what became of a layer in a view; nil if it recalled nothing.
func UseOf(uses []projection.LayerUse, layer string) *projection.LayerUse {
	for i := range uses {
		if uses[i].Layer == layer {
			return &uses[i]
		}
	}
	return nil
}

// InPrompt says what of a layer whose Recall failed is in the prompt all the same:
// what it said before and stands in the stable prefix, or what was well of its
// output.
func InPrompt(use *projection.LayerUse) string {
	if use == nil || use.Items == 0 {
		return ""
	}
	return fmt.Sprintf("%d items of %d tokens of it are in the prompt", use.Items, use.Used+use.Carried)
}
