package tiktoken_test

import (
	"strings"
	"sync"
	"testing"

	bpe "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"github.com/stratamem/strata/projection/tiktoken"
)

// library is github.com/pkoukk/tiktoken-go as it comes: the counts must be its
// counts.
var library = sync.OnceValue(func() map[string]*bpe.Tiktoken {
	bpe.SetBpeLoader(loader.NewOfflineLoader())
	all := map[string]*bpe.Tiktoken{}
	for _, name := range []string{tiktoken.CL100K, tiktoken.O200K} {
		enc, err := bpe.GetEncoding(name)
		if err != nil {
			panic(err)
		}
		all[name] = enc
	}
	return all
})

func sameAsLibrary(t *testing.T, text string) {
	t.Helper()
	for name, enc := range library() {
		if got, want := open(t, name).Count(text), len(enc.EncodeOrdinary(text)); got != want {
			t.Errorf("%s: %d tokens, the library counts %d, of %d bytes %.200q", name, got, want, len(text), text)
		}
	}
}

const prose = `The deadline isn't Friday any more, it's the 14th: we'll cut over at 02:30 UTC.
	if err := db.Ping(ctx); err != nil { return fmt.Errorf("ping replica %d: %w", i, err) }
Größe: 12,5 € … 東京で会いましょう 👩‍💻 (тест) <|endoftext|> https://example.com/a?b=c#d
`

// A text of several chunks, and texts with runs long enough to be merged here.
func TestCountsAreTheLibrarys(t *testing.T) {
	sameAsLibrary(t, strings.Repeat(prose, 400))
	sameAsLibrary(t, strings.Repeat(prose+strings.Repeat(" ", 700)+"\n", 100))
	for _, run := range []string{"ab", "xyzzy", "Ab", " ", " \n", "\t", "=", "-=*", "日本", "é", "\xff", "a\u0301", "/", "/\n", "!\u0301"} {
		long := strings.Repeat(run, 900/len(run))
		sameAsLibrary(t, long)
		sameAsLibrary(t, prose+long+prose)
		sameAsLibrary(t, " "+long+"'s\n")
	}
}

func FuzzCount(f *testing.F) {
	f.Add(prose, "a", uint16(300))
	f.Add("", " ", uint16(600))
	f.Add("it's\r\n", "=\xff", uint16(280))
	f.Fuzz(func(t *testing.T, text, run string, times uint16) {
		if len(text) > 2000 || len(run) > 20 || times > 1000 {
			t.Skip()
		}
		long := strings.Repeat(run, int(times))
		sameAsLibrary(t, text+long)
		sameAsLibrary(t, long+text+long)
	})
}

func BenchmarkCount(b *testing.B) {
	for _, bench := range []struct{ name, text string }{
		{"message", strings.Repeat(prose, 2)[:400]},
		{"page", strings.Repeat(prose, 12)},
		{"page with no space", strings.ReplaceAll(strings.Repeat(prose, 12), " ", "_")},
		{"run of 2 KB", strings.Repeat("ab", 1<<10)},
		{"run of 100 KB", strings.Repeat("ab", 50<<10)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			tok := open(b, tiktoken.O200K)
			b.SetBytes(int64(len(bench.text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Count(bench.text)
			}
		})
	}
}
