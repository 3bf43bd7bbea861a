package appendjson_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/internal/appendjson"
)

type record struct {
	Text  string    `json:"text"`
	Int   int       `json:"int"`
	Bool  bool      `json:"bool"`
	Time  time.Time `json:"time"`
	Texts []string  `json:"texts"`
	Ints  []int     `json:"ints"`
	Value any       `json:"value"`
}

func FuzzRecord(f *testing.F) {
	f.Add("", "", 0, int64(0))
	f.Add("a \"b\" \\ \n\t\r\x00\x7f é日本🙂 \xff \u2028", "<&>", -7, int64(1_700_000_000_000_000_000))
	f.Add("eight by", "te\xe2\x82", 1<<60, int64(1))
	f.Fuzz(func(t *testing.T, text, other string, n int, nanos int64) {
		want := record{Text: text, Int: n, Bool: n > 0, Texts: []string{text, other}, Ints: []int{n, -n}, Value: other}
		if nanos > 0 {
			want.Time = time.Unix(0, nanos).UTC()
		}
		b := append([]byte(nil), '{')
		b = appendjson.Text(b, "text", want.Text)
		b = appendjson.Int(b, "int", want.Int)
		b = appendjson.Bool(b, "bool", want.Bool)
		b = appendjson.Time(b, "time", want.Time)
		b = appendjson.Texts(b, "texts", want.Texts)
		b = appendjson.Ints(b, "ints", want.Ints)
		b = append(appendjson.Value(appendjson.Field(b, "value"), want.Value), '}')
		var got record
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		valid := func(s string) string { return string([]rune(s)) } // each broken byte is a U+FFFD
		if got.Text != valid(text) || got.Int != n || got.Bool != want.Bool || !got.Time.Equal(want.Time) ||
			!slices.Equal(got.Texts, []string{valid(text), valid(other)}) || !slices.Equal(got.Ints, want.Ints) || got.Value != valid(other) {
			t.Errorf("%q is %+v, want %+v", b, got, want)
		}
	})
}

func TestEmptyIsLeftOut(t *testing.T) {
	b := []byte{'{'}
	b = appendjson.Text(b, "a", "")
	b = appendjson.Int(b, "b", 0)
	b = appendjson.Bool(b, "c", false)
	b = appendjson.Time(b, "d", time.Time{})
	b = appendjson.Texts(b, "e", nil)
	b = appendjson.Ints(b, "f", nil)
	b = append(appendjson.String(appendjson.Field(b, "g"), strings.Repeat("x", 20)), '}')
	if want := `{"g":"xxxxxxxxxxxxxxxxxxxx"}`; string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
}

// BenchmarkString pays for looking at eight bytes, and at a run of letters beyond
// ASCII, at once.
func BenchmarkString(b *testing.B) {
	for name, text := range map[string]string{"ascii": strings.Repeat("lorem \"ipsum\" dolor\n", 50), "japanese": strings.Repeat("日本語の文章です。", 100)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				buf = appendjson.String(buf[:0], text)
			}
		})
	}
}
