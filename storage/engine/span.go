package engine

import (
	"strings"

	"github.com/stratamem/strata/storage"
)

// Span is the part of the key space that a scan covers, in terms of an ordered
// cursor: go to From (or to the end, if From is empty and Reverse is set), pass
// over what it Skips, and stop at what it no longer Holds.
type Span struct {
	From    string
	Reverse bool
	Limit   int // 0 means no limit

	prefix string
	after  string
}

// NewSpan returns the span of a scan; opts may be nil.
func NewSpan(prefix string, opts *storage.ScanOptions) Span {
	if opts == nil {
		opts = &storage.ScanOptions{}
	}
	sp := Span{Reverse: opts.Reverse, Limit: max(opts.Limit, 0), prefix: prefix, after: opts.After}
	if !sp.Reverse {
		sp.From = max(prefix, opts.After)
		return sp
	}
	sp.From = PrefixEnd(prefix)
	if opts.After != "" && (sp.From == "" || opts.After < sp.From) {
		sp.From = opts.After
	}
	return sp
}

// Advance narrows the span to what comes after key.
func (sp *Span) Advance(key string) { sp.From, sp.after = key, key }

// Skips reports whether a key at the start of the walk is passed over.
func (sp *Span) Skips(key string) bool {
	if sp.Reverse {
		return sp.after != "" && key >= sp.after || key > sp.prefix && !strings.HasPrefix(key, sp.prefix)
	}
	return sp.after != "" && key <= sp.after
}

// Holds reports whether a key that is not skipped is in the span.
func (sp *Span) Holds(key string) bool { return strings.HasPrefix(key, sp.prefix) }

// HoldsBytes is Holds without copying the key.
func (sp *Span) HoldsBytes(key []byte) bool {
	return len(key) >= len(sp.prefix) && string(key[:len(sp.prefix)]) == sp.prefix
}
