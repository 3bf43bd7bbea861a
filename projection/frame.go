package projection

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Frame is what is the same in every prompt of a program: the policy, the items
// that come first and last, the tools, and the tokenizer that measures them. It
// is measured once, does not change, and is safe for concurrent use.
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

// FrameOptions configures a [Frame]. The zero value means the default policy,
// measured by [Estimate].
type FrameOptions struct {
	Policy    Policy
	Tokenizer Tokenizer // nil means Estimate
	System    []Item    // first in every view
	Tail      []Item    // last in every view
	// Tools are the names and schemas that requests carry, in any form that
	// changes when they do: a change invalidates the provider's cache.
	Tools string
	// Layers names the layers that may contribute. No text of a layer, and no
	// summary, can spell their tags, nor those of layers that contribute without
	// being named here; [Frame.Fits] takes only the named ones into account.
	Layers []string
}

// NewFrame measures a frame; nil opts mean the zero FrameOptions. It fails if
// the policy or an item is invalid.
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

// Cap returns the most tokens that a view may have.
func (f *Frame) Cap() int { return f.policy.Cap() }

// Tokenizer returns the tokenizer that measures the views.
func (f *Frame) Tokenizer() Tokenizer { return f.tok }

// Allocate divides the tokens of a view, minus the system items, among layers:
// see [Allocate].
func (f *Frame) Allocate(layers []Budget) (Allocation, error) {
	return Allocate(f.Cap(), f.systemSize, 0, layers)
}

// Fits returns how many tokens a text takes as a view shows it for a layer of an
// authority, including its wrapper, and whether that is at most limit. For a text
// that is far too long it returns a lower bound without counting.
func (f *Frame) Fits(layer string, authority Authority, text string, limit int) (tokens int, ok bool) {
	it := f.markers.wrap(layer, authority, "", text)
	tokens = sizeWithin(f.tok, &it, limit)
	return tokens, tokens <= limit
}
