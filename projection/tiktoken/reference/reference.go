// Package reference wraps github.com/pkoukk/tiktoken-go as a tokenizer, with
// which package tiktoken is compared and measured. It has the same tokens; a
// program that insists on those of the library itself may use it instead.
//
// It is slow: it counts a few megabytes per second, and takes quadratic time
// for a long run of one letter, sign or space, 6 s for 100 KB. It links the
// library's vocabularies, 7 MB, and takes some tenths of a second and 50 MB to
// open. Do not use it for untrusted text.
package reference

import (
	"fmt"

	bpe "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
)

// patterns divide a text into pieces before pairs are merged; they are the same
// in OpenAI's tiktoken (tiktoken_ext/openai_public.py) and in the library.
var patterns = map[string]string{
	tiktoken.CL100K: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	tiktoken.O200K: `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
}

// Tokenizer is a projection.Tokenizer for one encoding. It is safe for
// concurrent use. Each has its own vocabulary.
type Tokenizer struct {
	name    string
	library *bpe.Tiktoken
}

var _ projection.Tokenizer = (*Tokenizer)(nil)

// New returns the library's tokenizer of tiktoken.CL100K or tiktoken.O200K. For
// another name the error is a tiktoken.ErrUnknown.
//
// It avoids the library's own constructor, which goes through a package
// variable and a download.
func New(encoding string) (*Tokenizer, error) {
	pattern, ok := patterns[encoding]
	if !ok {
		return nil, fmt.Errorf("open encoding %q: %w", encoding, tiktoken.ErrUnknown)
	}
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(encoding + ".tiktoken")
	if err != nil {
		return nil, fmt.Errorf("load encoding %q: %w", encoding, err)
	}
	// No special tokens: none is ever searched for.
	core, err := bpe.NewCoreBPE(ranks, nil, pattern)
	if err != nil {
		return nil, fmt.Errorf("build encoding %q: %w", encoding, err)
	}
	enc := &bpe.Encoding{Name: encoding, PatStr: pattern, MergeableRanks: ranks}
	return &Tokenizer{name: encoding, library: bpe.NewTiktoken(core, enc, nil)}, nil
}

// Name returns the name of the encoding.
func (t *Tokenizer) Name() string { return t.name }

// Count returns the tokens of text, special tokens read as ordinary text.
func (t *Tokenizer) Count(text string) int { return len(t.Encode(text)) }

// Encode returns the ids of the tokens of text.
func (t *Tokenizer) Encode(text string) []int { return t.library.EncodeOrdinary(text) }

// CountPart is that of tiktoken.Tokenizer with the library's counts.
func (t *Tokenizer) CountPart(p projection.Part) int { return tiktoken.CountPart(p, t.Count) }

// Overhead is that of tiktoken.Tokenizer.
func (t *Tokenizer) Overhead() int { return tiktoken.Overhead }
