package stored

import (
	"fmt"

	"github.com/stratamem/strata/projection"
)

// The names of the hooks whose effect on the prompt a turn's record explains.
const (
	Append = "append"
	Recall = "recall"
)

// UseOf returns what became of a layer's output in a view, or nil if it
// recalled nothing.
func UseOf(uses []projection.LayerUse, layer string) *projection.LayerUse {
	for i := range uses {
		if uses[i].Layer == layer {
			return &uses[i]
		}
	}
	return nil
}

// InPrompt says what the prompt has of a layer whose Recall failed: earlier
// output in the stable prefix, or the valid part of its output.
func InPrompt(use *projection.LayerUse) string {
	if use == nil || use.Items == 0 {
		return ""
	}
	return fmt.Sprintf("%d items of %d tokens of it are in the prompt", use.Items, use.Used+use.Carried)
}
