package layers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stratamem/strata/internal/secret"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// SecretsOptions configures [Secrets].
type SecretsOptions struct {
	// Spec overrides: ID "secrets", slot 0. Its Append hook has no timeout:
	// nothing may pass unchecked.
	Spec memory.Spec
}

// Secrets returns the layer that removes credentials from what users and tools
// say, before anything is stored or sent to a model. Each becomes "[redacted:
// NAME]", where NAME is its kind; the turn report, which is stored with the
// turn, says how many of each kind there were. Give it to [memory.New] as the
// first layer, so that no other layer's Append hook sees a secret.
//
// It recognizes credentials by their form: keys and tokens of some thirty
// providers, JSON Web Tokens, private keys, passwords in URLs, and
// authorization headers. It examines texts, files that are UTF-8 text, URLs and
// the arguments of calls. A password that is just a word in a sentence is not
// found.
//
// It has no state. What the model says does not pass through Append hooks: a
// host whose models learn secrets in other ways should pass a response through
// [Redact] before committing it.
func Secrets(opts *SecretsOptions) memory.Layer {
	var o SecretsOptions
	if opts != nil {
		o = *opts
	}
	spec := override(memory.Spec{ID: "secrets", Name: "Secrets"}, o.Spec)
	spec.Timeouts.Append = -1
	return memory.Define(spec, memory.Hooks[struct{}]{
		Append: func(_ context.Context, in *memory.AppendInput[struct{}]) ([]projection.Item, error) {
			items, found := Redact(in.Items)
			if len(found) > 0 {
				in.Note(redacted(found))
			}
			return items, nil
		},
	})
}

// Redact returns items with their secrets replaced, as [Secrets] does, and the
// kind of each secret, in order. It does not modify the given items, and
// returns them if they contain no secret.
func Redact(items []projection.Item) (_ []projection.Item, found []string) {
	given := items
	for i := range given {
		it, kinds := redactItem(given[i])
		if len(kinds) == 0 {
			continue
		}
		if len(found) == 0 {
			items = slices.Clone(given)
		}
		items[i] = it
		found = append(found, kinds...)
	}
	return items, found
}

// redactItem returns an item without its secrets. The two share only what did
// not change.
func redactItem(it projection.Item) (_ projection.Item, found []string) {
	clean := func(text string) string {
		text, kinds := secret.Redact(text)
		found = append(found, kinds...)
		return text
	}
	it.Arguments = clean(it.Arguments)
	own := false // whether it.Parts is a copy
	for i, p := range it.Parts {
		known := len(found)
		p.Text, p.URL, p.Name = clean(p.Text), clean(p.URL), clean(p.Name)
		if p.Type == projection.FilePart && utf8.Valid(p.Data) {
			if text := clean(string(p.Data)); text != string(p.Data) {
				p.Data = []byte(text)
			}
		}
		if len(found) == known {
			continue
		}
		if !own {
			it.Parts, own = slices.Clone(it.Parts), true
		}
		it.Parts[i] = p
	}
	return it, found
}

// redacted says what kinds of secrets were found, without quoting them.
func redacted(found []string) string {
	count := make(map[string]int)
	for _, kind := range found {
		count[kind]++
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(found)))
	for i, kind := range kinds {
		if n := count[kind]; n > 1 {
			kinds[i] = fmt.Sprintf("%s (%d)", kind, n)
		}
	}
	if len(found) == 1 {
		return "1 secret was redacted: " + kinds[0]
	}
	return fmt.Sprintf("%d secrets were redacted: %s", len(found), strings.Join(kinds, ", "))
}
