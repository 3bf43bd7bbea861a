package reference_test

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	bpe "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/projection/tiktoken/internal/corpus"
)

var encodings = []string{tiktoken.CL100K, tiktoken.O200K}

func open(t testing.TB, encoding string) *tiktoken.Tokenizer {
	t.Helper()
	tok, err := tiktoken.New(encoding)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// library is github.com/pkoukk/tiktoken-go as it comes: the tokens must be its
// tokens.
var library = sync.OnceValue(func() map[string]*bpe.Tiktoken {
	bpe.SetBpeLoader(loader.NewOfflineLoader())
	all := map[string]*bpe.Tiktoken{}
	for _, name := range encodings {
		enc, err := bpe.GetEncoding(name)
		if err != nil {
			panic(err)
		}
		all[name] = enc
	}
	return all
})

// sameAsLibrary reports whether the tokens of text are the library's, and those
// are the text.
func sameAsLibrary(t testing.TB, text string) bool {
	t.Helper()
	same := true
	for _, name := range encodings {
		tok := open(t, name)
		got, want := tok.Encode(text), library()[name].EncodeOrdinary(text)
		if !slices.Equal(got, want) {
			i := 0
			for i < len(got) && i < len(want) && got[i] == want[i] {
				i++
			}
			before, _ := tok.Decode(got[:i])
			t.Errorf("%s: token %d of %.200q, behind %q, is not the library's", name, i, text, before[max(0, len(before)-80):])
			same = false
		}
		if n := tok.Count(text); n != len(got) {
			t.Errorf("%s: %.200q counts %d tokens and has %d", name, text, n, len(got))
			same = false
		}
		if back, err := tok.Decode(got); err != nil || back != string([]rune(text)) {
			t.Errorf("%s: the tokens of %.200q are another text, %.200q: %v", name, text, back, err)
			same = false
		}
	}
	return same
}

// Every rune stands behind a word and before one, where its class and its case
// decide, and alone; of the many ideographs and syllables few, unless
// STRATA_TOKENS is set.
func TestEveryRuneIsSplitAsTheLibrarySplits(t *testing.T) {
	var text strings.Builder
	step := rune(101)
	if longMode() > 0 {
		step = 1
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0x3000 && r%step != 0 && !unicode.In(r, unicode.M, unicode.N, unicode.Lm, unicode.Lu, unicode.Zs) {
			continue
		}
		fmt.Fprintf(&text, "Az%cb'%c Q%[1]cR  %[1]c\n", r, r)
		if text.Len() > 16<<10 {
			if !sameAsLibrary(t, text.String()) {
				return
			}
			text.Reset()
		}
	}
	sameAsLibrary(t, text.String())
}

// A token stands on a line of its own: those that no text has, because the
// expressions divide it, are among them. Without STRATA_TOKENS it is one in five.
func TestEveryTokenIsTheLibrarys(t *testing.T) {
	for _, name := range encodings {
		ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
		if err != nil {
			t.Fatal(err)
		}
		tok := open(t, name)
		var text strings.Builder
		for token, id := range ranks {
			got, err := tok.Decode([]int{id})
			if err != nil || got != token {
				t.Fatalf("%s: token %d is %q, %v, want %q", name, id, got, err, token)
			}
			if longMode() == 0 && id%5 != 0 {
				continue
			}
			fmt.Fprintf(&text, "%s\n", token)
			if text.Len() > 16<<10 {
				if !sameAsLibrary(t, text.String()) {
					return
				}
				text.Reset()
			}
		}
		for _, id := range []int{-1, len(ranks), 199_999, 1 << 40} {
			if _, err := tok.Decode([]int{0, id}); !errors.Is(err, tiktoken.ErrUnknown) {
				t.Errorf("%s: token %d: error %v, want ErrUnknown", name, id, err)
			}
		}
	}
}

// Runs of a length at which they are merged one way or the other.
func TestRunsAreTheLibrarys(t *testing.T) {
	for _, run := range []string{"a", "ab", "xyzzy", "Ab", " ", " \n", "\t", "=", "-=*", "日本", "é", "\xff", "a\u0301", "/", "/\n", "!\u0301", "\r\n", "日A", "aB", "\u00a0", "'"} {
		for _, n := range []int{2, 20, 25, 60, 129, 700} {
			long := strings.Repeat(run, n/len(run)+1)
			if !sameAsLibrary(t, long+"\n"+corpus.Prose+long+corpus.Prose+" "+long+"'s\n"+long) {
				return
			}
		}
	}
}

// longMode is the number of strings to compare in TestRandomTextsAreTheLibrarys,
// and if it is set all runes and tokens and 5 MB of each text are compared too.
func longMode() int {
	n, _ := strconv.Atoi(os.Getenv("STRATA_TOKENS"))
	return n
}

// STRATA_TOKENS=1000000 compares a million strings, in some minutes.
func TestRandomTextsAreTheLibrarys(t *testing.T) {
	n := longMode()
	if n == 0 {
		n = 3_000
	}
	token := func(id int) string {
		text, err := open(t, tiktoken.O200K).Decode([]int{id})
		if err != nil {
			t.Error(err)
		}
		return text
	}
	for seed := range 2 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 4))
			for range n / 2 {
				if !sameAsLibrary(t, corpus.Random(rng, token)) {
					return
				}
			}
		})
	}
}

// The sources of Go are the code; the comments in them, and our own pages, are
// the English.
func TestCorpusIsTheLibrarys(t *testing.T) {
	size := 100 << 10
	if longMode() > 0 {
		size = 5 << 20
	}
	for name, text := range map[string]string{
		"code":    code(t, size),
		"english": english(t, size),
		"cjk":     cjk(t, size),
		"mixed":   mixed(t, size),
		"random":  random(size),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%d bytes", len(text))
			for len(text) > 0 { // not at once: the library's memory is a hundred times the text
				n := min(64<<10, len(text))
				if !sameAsLibrary(t, text[:n]) {
					return
				}
				text = text[n:]
			}
		})
	}
}

// sources calls f for the files of Go's standard library until it returns false.
func sources(t testing.TB, f func(source string) bool) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(build.Default.GOROOT, "src"), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "cmd" || d.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(name) != ".go":
			return nil
		}
		source, err := os.ReadFile(name)
		if err == nil && !f(string(source)) {
			err = fs.SkipAll
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func code(t testing.TB, size int) string {
	t.Helper()
	var all strings.Builder
	sources(t, func(source string) bool {
		all.WriteString(source)
		return all.Len() < size
	})
	if all.Len() < size {
		t.Fatalf("the sources of Go are %d bytes", all.Len())
	}
	return all.String()
}

// english returns our own pages and the comments in Go's sources.
func english(t testing.TB, size int) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"README.md", "DESIGN.md", "CONTRIBUTING.md"} {
		page, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(page)
	}
	sources(t, func(source string) bool {
		for line := range strings.Lines(source) {
			if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok {
				all.WriteString(comment)
				all.WriteByte(" \n"[len(comment)/60%2])
			}
		}
		return all.Len() < size
	})
	if all.Len() < size {
		t.Fatalf("there are %d bytes of comments", all.Len())
	}
	return all.String()
}

// cjk returns Chinese, Japanese and Korean text made of the tokens of those
// scripts, the most frequent the most.
func cjk(t testing.TB, size int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 4))
	scripts := [][]*unicode.RangeTable{{unicode.Han}, {unicode.Han, unicode.Hiragana, unicode.Katakana}, {unicode.Hangul}}
	words := make([][]string, len(scripts))
	for id := range 199_998 {
		word, err := open(t, tiktoken.O200K).Decode([]int{id})
		if err != nil {
			t.Fatal(err)
		}
		for i, script := range scripts {
			if !strings.ContainsFunc(word, func(r rune) bool { return !unicode.In(r, script...) }) {
				words[i] = append(words[i], word)
			}
		}
	}
	var all strings.Builder
	for all.Len() < size {
		script := rng.IntN(len(words))
		for range 3 + rng.IntN(8) {
			of := words[script]
			all.WriteString(of[int(float64(len(of))*rng.Float64()*rng.Float64())])
			if script == 2 {
				all.WriteByte(' ')
			}
		}
		all.WriteString([]string{"，", "。", "、", "！\n", "：", "「", "」", "。\n\n", " 2026年", " Go "}[rng.IntN(10)])
	}
	return all.String()
}

// mixed returns lines of all of these in turn.
func mixed(t testing.TB, size int) string {
	t.Helper()
	var all strings.Builder
	var texts [][]string
	for _, text := range []string{code(t, size/2), english(t, size/2), cjk(t, size/2), strings.Repeat(corpus.Prose, size/2/len(corpus.Prose))} {
		texts = append(texts, slices.Collect(strings.Lines(text)))
	}
	for i := 0; all.Len() < size; i++ {
		for _, lines := range texts {
			all.WriteString(lines[i%len(lines)])
		}
	}
	return all.String()
}

func random(size int) string {
	rng := rand.New(rand.NewPCG(2, 4))
	var text []byte
	for len(text) < size {
		switch rng.IntN(64) {
		case 0:
			text = append(text, byte(rng.Uint32()))
		default:
			text = utf8.AppendRune(text, rune(rng.IntN(1<<(5+rng.IntN(16)))))
		}
	}
	return string(text)
}

// FuzzEncode has the library as its oracle.
func FuzzEncode(f *testing.F) {
	f.Add(corpus.Prose, "a", uint16(300))
	f.Add("", " ", uint16(600))
	f.Add("it's\r\n", "=\xff", uint16(280))
	f.Add("日本ABCd\u0301", "日A", uint16(70))
	f.Fuzz(func(t *testing.T, text, run string, times uint16) {
		if len(text) > 2000 || len(run)*int(times) > 1500 { // the library takes its square
			t.Skip()
		}
		long := strings.Repeat(run, int(times))
		sameAsLibrary(t, text+long)
		sameAsLibrary(t, long+text+long)
	})
}
