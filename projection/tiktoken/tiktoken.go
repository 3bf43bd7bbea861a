// Package tiktoken counts tokens exactly as OpenAI's models do, with the
// vocabularies compiled into the program: nothing is downloaded, and no file is
// written. It also encodes, decodes, cuts a text to a number of tokens, and
// counts a growing text.
//
// The tokens of a text in cl100k_base and o200k_base are exact: the same as
// those of github.com/pkoukk/tiktoken-go, which the tests of package reference
// use as their oracle and which that package offers as a tokenizer. A text that
// spells a special token such as <|endoftext|> has the tokens of ordinary text.
// There are two exceptions: the classes of characters are those of the Go
// version with which a program is built, and OpenAI's may come from another
// Unicode version; and a contraction has ASCII letters (in OpenAI's own code 'ſ
// is one, like 's). What a message, an image or a file costs in addition to its
// text follows documented rules, see [Tokenizer.CountPart] and
// [Tokenizer.Overhead].
//
// It does not train, and supports no other vocabularies. The one decision: it
// is written for these two. Their expressions are loops over classes of
// characters, and tokens up to 15 bytes are numbers in a hash table, so that
// most words cost one lookup. Only a word that is not a token is merged, in n
// log n time for any text.
//
// The first [New] of an encoding inflates its vocabulary, in some 20 ms, into 9
// MB of heap (cl100k_base 8 MB) that the process keeps; all tokenizers of the
// encoding share it and may be used concurrently. The program grows by 1.2 MB.
// To avoid all of that, use projection.Estimate.
package tiktoken

import (
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/stratamem/strata/projection"
)

// The encodings, by OpenAI's names.
const (
	CL100K = "cl100k_base" // GPT-4 and GPT-3.5, embeddings
	O200K  = "o200k_base"  // GPT-4o and everything after it
)

// ErrUnknown is matched by the errors of [New] and [ForModel] for a name
// without a vocabulary, and of [Tokenizer.Decode] for a number that is not a
// token.
var ErrUnknown = errors.New("not in any vocabulary")

// The cost of parts that are not text.
const (
	// imageTokens is the most that an image costs under the tile rule of OpenAI's
	// guide to vision at high detail: 85, plus 170 for each tile of 512 by 512
	// pixels, of which the largest admitted size (768 by 2,048) has eight. The
	// true number depends on the pixels, which a URL does not reveal.
	imageTokens = 85 + 8*170
	// fileTokens is the cost of a file given by URL.
	fileTokens = 1024
)

// Tokenizer is a projection.Tokenizer for one encoding. It is safe for
// concurrent use; all tokenizers of an encoding share its vocabulary.
type Tokenizer struct {
	name  string
	vocab *vocabulary
}

var _ projection.Tokenizer = (*Tokenizer)(nil)

// New returns the tokenizer of an encoding: [CL100K] or [O200K].
func New(encoding string) (*Tokenizer, error) {
	load, ok := vocabularies[encoding]
	if !ok {
		return nil, fmt.Errorf("open encoding %q: %w: it must be %s or %s", encoding, ErrUnknown, CL100K, O200K)
	}
	v, err := load()
	if err != nil {
		return nil, fmt.Errorf("open encoding %q: %w", encoding, err)
	}
	return &Tokenizer{name: encoding, vocab: v}, nil
}

// models says which encoding a family of models uses; the first match holds.
var models = []struct{ family, encoding string }{
	{"gpt-5", O200K},
	{"gpt-4o", O200K},
	{"chatgpt-4o", O200K},
	{"gpt-4.1", O200K},
	{"gpt-4.5", O200K},
	{"gpt-oss", O200K},
	{"o1", O200K},
	{"o3", O200K},
	{"o4", O200K},
	{"gpt-4", CL100K},
	{"gpt-3.5", CL100K},
	{"gpt-35", CL100K}, // Azure's spelling
	{"text-embedding-3", CL100K},
	{"text-embedding-ada-002", CL100K},
}

// ForModel returns the tokenizer of an OpenAI model by its name in the API
// (gpt-4o-mini, o3-2025-04-16), also if it is fine-tuned (ft:gpt-4o:…) or has a
// router's prefix (openai/gpt-5). The name of an encoding works as well. For a
// model of another maker the error is an [ErrUnknown].
func ForModel(model string) (*Tokenizer, error) {
	name := strings.TrimPrefix(strings.ToLower(model), "ft:")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if _, ok := vocabularies[name]; ok {
		return New(name)
	}
	for _, m := range models {
		if rest, ok := strings.CutPrefix(name, m.family); ok && (rest == "" || strings.ContainsAny(rest[:1], "-.:")) {
			return New(m.encoding)
		}
	}
	return nil, fmt.Errorf("find encoding of model %q: %w: name an encoding instead (%s, %s), or use projection.Estimate",
		model, ErrUnknown, CL100K, O200K)
}

// Name returns the name of the encoding.
func (t *Tokenizer) Name() string { return t.name }

// CountPart returns the tokens of an image or a file. An image counts the most
// that the tile rule of OpenAI's guide to vision charges for any image, 1,445:
// a prompt that fits by this count fits. A text file by value counts its text,
// another file one token for every four bytes, a file by URL 1,024.
func (t *Tokenizer) CountPart(p projection.Part) int { return CountPart(p, t.Count) }

// CountPart is [Tokenizer.CountPart] for another way of counting texts.
func CountPart(p projection.Part, count func(text string) int) int {
	switch {
	case p.Type == projection.ImagePart:
		return imageTokens
	case p.Type == projection.TextPart:
		return count(p.Text)
	case p.URL != "" && len(p.Data) == 0:
		return fileTokens
	case isText(p.MediaType):
		return count(string(p.Data))
	}
	return (len(p.Data) + 3) / 4
}

// Overhead is [Tokenizer.Overhead]: four tokens per item, three that delimit a
// message and one for its role. They are tokens_per_message and the encoded
// role in "How to count tokens with tiktoken" of the OpenAI cookbook. The three
// tokens that prime the reply, once per prompt, belong in the response reserve.
const Overhead = 4

// Overhead returns [Overhead].
func (t *Tokenizer) Overhead() int { return Overhead }

func isText(mediaType string) bool {
	mt, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (strings.HasPrefix(mt, "text/") || mt == "application/json")
}
