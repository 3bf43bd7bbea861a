package projection

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Frame is what is the same in every prompt of a program: the policy, the items
// that stand first and last, the tools, and the tokenizer that measures them. It is
// measured once, does not change, and is safe for concurrent use.
type Frame struct {
	policy     Policy
	tok        Tokenizer
	system     []Item
	systemSize int
	tail       []Item
	tailSize   int
	digest     string // of system items and tools
	markers    *markers
}

// FrameOptions are what a [Frame] is made of. The zero value is a policy of
// defaults, measured by [Estimate].
type FrameOptions struct {
	Policy    Policy
	Tokenizer Tokenizer // nil means Estimate
	System    []Item    // first in every view
	Tail      []Item    // last in every view
	// Tools are the names and schemas that requests carry, in any form that changes
	// when they do: a provider's cache ends with them.
	Tools string
	// Layers are names of layers that may contribute. No text of a layer, and no
	// summary, can spell their tags, nor those of layers that contribute without being
	// named here; what [Frame.Fits] measures reckons with those that are.
	Layers []string
}

// NewFrame measures a frame; nil opts are the zero FrameOptions. It fails if the
// policy is none, or if an item is none.
func NewFrame(opts *FrameOptions) (*Frame, error) {
	if opts == nil {
		opts = &FrameOptions{}
	}
	f := &Frame{policy: opts.Policy, tok: opts.Tokenizer, system: slices.Clone(opts.System), tail: slices.Clone(opts.Tail), markers: newMarkers(opts.Layers)}
	if f.tok == nil {
		f.tok = Estimate{}
	}
	faults := []error{f.policy.Validate()}
	sum := sha256.New()
	var encoded []byte
	for i := range f.system {
		it := &f.system[i]
		if err := it.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("system item %d: %w", i, err))
		}
		f.systemSize = add(f.systemSize, Size(f.tok, it))
		encoded = append(it.AppendJSON(encoded[:0]), '\n')
		sum.Write(encoded)
	}
	sum.Write([]byte(opts.Tools))
	f.digest = hex.EncodeToString(sum.Sum(nil)[:16])
	for i := range f.tail {
		it := &f.tail[i]
		if err := it.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("tail item %d: %w", i, err))
		}
		f.tailSize = add(f.tailSize, Size(f.tok, it))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("new frame: %w", err)
	}
	return f, nil
}

// Cap is the most tokens that a view may have.
func (f *Frame) Cap() int { return f.policy.Cap() }

// Tokenizer returns what measures the views.
func (f *Frame) Tokenizer() Tokenizer { return f.tok }

// Allocate divides what a view may have, the system items taken off, among layers:
// see [Allocate].
func (f *Frame) Allocate(layers []Budget) (Allocation, error) {
	return Allocate(f.Cap(), f.systemSize, 0, layers)
}

// Fits returns how many tokens a text takes as a view shows it for a layer, what
// stands around it included, and whether that is at most limit. Of a text that is far
// too long it returns a lower bound, and does not count it.
func (f *Frame) Fits(layer, text string, limit int) (tokens int, ok bool) {
	it := f.markers.wrap(layer, "", text)
	tokens = sizeWithin(f.tok, &it, limit)
	return tokens, tokens <= limit
}
