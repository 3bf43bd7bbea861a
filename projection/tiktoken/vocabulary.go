package tiktoken

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
	bpe "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// vocabularies are loaded once in a process: they are constants, too large to
// have twice.
var vocabularies = map[string]func() (*vocabulary, error){
	CL100K: sync.OnceValues(func() (*vocabulary, error) { return load(CL100K, cl100kPieces) }),
	O200K:  sync.OnceValues(func() (*vocabulary, error) { return load(O200K, o200kPieces) }),
}

// The expressions that split a text into pieces before pairs are merged, from
// OpenAI's tiktoken (tiktoken_ext/openai_public.py).
const (
	cl100kPieces = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200kPieces  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// vocabulary counts the tokens of one encoding. It is not changed once loaded.
type vocabulary struct {
	ranks   map[string]int // token → the order in which pairs are merged
	library *bpe.Tiktoken
	pieces  *regexp2.Regexp
}

// load reads an encoding from the files compiled into the loader. It builds the
// library's counter itself: the library's own way leads through a package
// variable, and to a download.
func load(name, pieces string) (*vocabulary, error) {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
	if err != nil {
		return nil, fmt.Errorf("load vocabulary: %w", err)
	}
	// No special tokens: none is ever looked for.
	core, err := bpe.NewCoreBPE(ranks, nil, pieces)
	if err != nil {
		return nil, fmt.Errorf("build vocabulary: %w", err)
	}
	re, err := regexp2.Compile(pieces, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("compile pieces: %w", err)
	}
	enc := &bpe.Encoding{Name: name, PatStr: pieces, MergeableRanks: ranks}
	return &vocabulary{ranks: ranks, library: bpe.NewTiktoken(core, enc, nil), pieces: re}, nil
}

// longRun is the length in bytes from which on the library's merging, quadratic
// in a piece, is the slower of the two.
const longRun = 256

// count returns the tokens of text.
func (v *vocabulary) count(text string) int {
	if !hasLongRun(text) {
		return len(v.library.EncodeOrdinary(text))
	}
	n := 0
	// The expression has no time limit, so that its matches have no errors.
	for m, _ := v.pieces.FindStringMatch(text); m != nil; m, _ = v.pieces.FindNextMatch(m) {
		piece := m.String()
		if _, ok := v.ranks[piece]; ok {
			n++
		} else {
			n += merge(piece, v.ranks)
		}
	}
	return n
}

// hasLongRun reports whether a piece of text may be long. No piece goes on over
// a digit, unless it is of digits, or from anything else into a space.
func hasLongRun(text string) bool {
	start := 0
	for i := range len(text) {
		c := text[i]
		if '0' <= c && c <= '9' || c == ' ' && i > 0 && text[i-1] > ' ' && text[i-1] < utf8.RuneSelf {
			start = i
		} else if i-start >= longRun {
			return true
		}
	}
	return false
}

// chunk is the length from which on a text is counted in parts, so that what
// the library allocates for it is bounded.
const chunk = 32 << 10

// cut returns where to divide a text so that the parts have the tokens of the
// whole: between an ASCII sign, digit or letter and a space that follows it. No
// piece of either encoding spans the two, and only white space looks ahead.
func cut(text string) int {
	if len(text) <= chunk {
		return len(text)
	}
	for i := chunk; i > 0; i-- {
		if isCut(text, i) {
			return i
		}
	}
	for i := chunk + 1; ; i++ {
		j := strings.IndexByte(text[i:], ' ')
		if j < 0 {
			return len(text)
		}
		if i += j; isCut(text, i) {
			return i
		}
	}
}

func isCut(text string, i int) bool {
	return text[i] == ' ' && text[i-1] > ' ' && text[i-1] < 0x7F
}
