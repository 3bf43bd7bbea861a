package tiktoken_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
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

// hostile are texts that are one piece, or pieces that are divided again.
var hostile = []string{"a", "ab", "xyzzy", " ", "\n", " \n", "/", "é", "日", "日A", "\u0301", "\xff", "1", "'", "'s", "\u00a0", "!\u0301", "Aa", "\U00020000"}

// growth is how many times longer 16 times the text takes: 16 if time is linear,
// 256 if it is quadratic.
func BenchmarkHostile(b *testing.B) {
	const size = 64 << 10
	for _, run := range hostile {
		b.Run(fmt.Sprintf("%+q", run), func(b *testing.B) {
			tok := open(b, tiktoken.O200K)
			short, long := strings.Repeat(run, size/len(run)), strings.Repeat(run, 16*size/len(run))
			var one, sixteen time.Duration
			for range 5 {
				one = least(one, func() { tok.Count(short) })
			}
			b.SetBytes(int64(len(long)))
			for b.Loop() {
				sixteen = least(sixteen, func() { tok.Count(long) })
			}
			b.ReportMetric(float64(sixteen)/float64(one), "growth")
		})
	}
}

// A text that is appended in small parts is counted after each: ns for each.
func BenchmarkCounter(b *testing.B) {
	text := strings.Repeat(corpus.Prose, 300)
	tok := open(b, tiktoken.O200K)
	c, at := tok.Counter(), 0
	b.ReportAllocs()
	for b.Loop() {
		if at+4 > len(text) {
			c, at = tok.Counter(), 0
		}
		c.Append(text[at : at+4])
		c.Count()
		at += 4
	}
}

// startVariable is set for a process of its own that does nothing but open an
// encoding.
const startVariable = "STRATA_TOKENS_START"

func TestMain(m *testing.M) {
	name := os.Getenv(startVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	before := heap()
	began := time.Now()
	if _, err := tiktoken.New(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(time.Since(began).Nanoseconds(), heap()-before)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// start opens an encoding in a process of its own.
func start(t testing.TB, name string) (took time.Duration, bytes int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), startVariable+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &took, &bytes); err != nil {
		t.Fatalf("scan %q: %v", out, err)
	}
	return took, bytes
}

func BenchmarkStart(b *testing.B) {
	for _, name := range encodings {
		b.Run(name, func(b *testing.B) {
			var all time.Duration
			var bytes int64
			for b.Loop() {
				var took time.Duration
				took, bytes = start(b, name)
				all += took
			}
			b.ReportMetric(float64(all)/float64(b.N)/1e6, "start-ms")
			b.ReportMetric(float64(bytes)/1e6, "heap-MB")
		})
	}
}

func TestVocabularyIsSmall(t *testing.T) {
	for _, name := range encodings {
		if _, bytes := start(t, name); bytes > 12<<20 {
			t.Errorf("%s keeps %d bytes", name, bytes)
		}
	}
}
