package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
)

// TokensOptions configures [Tokens]. The zero value means the documented
// defaults.
type TokensOptions struct {
	Rounds   int          // rounds of both sides in each case; 0 means 5
	Progress func(string) // called with the name of each case as it begins; may be nil
}

const (
	tokensBytes = 1_000_000 // what our side counts per round
	// What the library counts per round, which is less because it is slower; for
	// one repeated letter its time is quadratic.
	libraryBytes  = 100_000
	libraryLetter = 4_000
)

// Tokens measures how fast projection/tiktoken counts the tokens of o200k_base,
// compared in the same run with library: another tokenizer of that encoding,
// such as github.com/pkoukk/tiktoken-go in the form of package
// projection/tiktoken/reference. Rounds of the two alternate, and the best of
// each counts. It is an error if their counts of a text differ.
//
// The cases o200k/english, code, cjk, mixed and letter count 1 MB of a kind of
// text: sentences made of some two hundred words, the sources of this package,
// sentences in Chinese, Japanese and Korean, lines of these in turn, and one
// letter. The library counts the first 100 KB of it, and of one letter 4 KB,
// where its rate falls with the length. Metrics: MB/s, ratio, how many times the
// rate of the library, and ms for the 1 MB. The case o200k/start is what the
// first use in the process takes: ms and MB of heap that stay.
func Tokens(ctx context.Context, library projection.Tokenizer, opts *TokensOptions) (*Report, error) {
	if opts == nil {
		opts = &TokensOptions{}
	}
	rounds := opts.Rounds
	if rounds <= 0 {
		rounds = 5
	}
	progress := opts.Progress
	if progress == nil {
		progress = func(string) {}
	}
	r := NewReport("tokens")
	progress("o200k/start")
	heap := heapInUse()
	began := time.Now()
	ours, err := tiktoken.New(tiktoken.O200K)
	if err != nil {
		return nil, fmt.Errorf("bench tokens: %w", err)
	}
	took := time.Since(began)
	r.add("o200k/start", "ms", millis(took), "ms")
	r.add("o200k/start", "MB", (heapInUse()-heap)/1e6, "MB")
	for _, text := range tokensTexts(tokensBytes) {
		name := "o200k/" + text.kind
		progress(name)
		theirs := text.text[:libraryBytes]
		if text.kind == "letter" {
			theirs = text.text[:libraryLetter]
		}
		if got, want := ours.Count(theirs), library.Count(theirs); got != want {
			return nil, fmt.Errorf("bench %s: %d tokens, the library counts %d", name, got, want)
		}
		var best, libraryBest time.Duration
		for range rounds {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("bench %s: %w", name, err)
			}
			best = faster(best, func() { ours.Count(text.text) })
			libraryBest = faster(libraryBest, func() { library.Count(theirs) })
		}
		rate, libraryRate := float64(len(text.text))/micros(best), float64(len(theirs))/micros(libraryBest)
		r.add(name, "MB/s", rate, "MB/s")
		r.add(name, "ratio", rate/libraryRate, "×")
		r.add(name, "ms", millis(best), "ms")
	}
	return r, nil
}

// faster returns the time that f takes, or best if that is less and not 0.
func faster(best time.Duration, f func()) time.Duration {
	began := time.Now()
	f()
	took := time.Since(began)
	if best == 0 {
		return took
	}
	return min(best, took)
}

func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
