package reference_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/projection/tiktoken/internal/corpus"
)

// least returns the shorter of the time that f takes and of best, if that is one.
func least(best time.Duration, f func()) time.Duration {
	began := time.Now()
	f()
	if took := time.Since(began); best == 0 || took < best {
		return took
	}
	return best
}

// ratio is the rate of Count beside the library's in the same run, of either the
// best. That of one letter is the greater the longer the text is.
func BenchmarkCount(b *testing.B) {
	for _, bench := range []struct{ name, text string }{
		{"english", english(b, 100<<10)},
		{"code", code(b, 100<<10)},
		{"cjk", cjk(b, 100<<10)},
		{"mixed", mixed(b, 100<<10)},
		{"random", random(100 << 10)},
		{"message", strings.Repeat(corpus.Prose, 2)[:400]},
		{"no space", strings.ReplaceAll(english(b, 20<<10), " ", "_")},
		{"letter", strings.Repeat("a", 4<<10)},
		{"letters", strings.Repeat("ab", 2<<10)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			tok, lib := open(b, tiktoken.O200K), library()[tiktoken.O200K]
			var ours, theirs time.Duration
			for range 5 {
				theirs = least(theirs, func() { lib.EncodeOrdinary(bench.text) })
			}
			b.SetBytes(int64(len(bench.text)))
			b.ReportAllocs()
			for b.Loop() {
				ours = least(ours, func() { tok.Count(bench.text) })
			}
			b.ReportMetric(float64(theirs)/float64(ours), "ratio")
		})
	}
}
