package tiktoken_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
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

// The first four texts and their counts stand in "How to count tokens with
// tiktoken" of the OpenAI cookbook.
func TestCount(t *testing.T) {
	for _, test := range []struct {
		text          string
		cl100k, o200k int
	}{
		{"tiktoken is great!", 6, 6},
		{"antidisestablishmentarianism", 6, 6},
		{"2 + 2 = 4", 7, 7},
		{"お誕生日おめでとう", 9, 8},
		{"", 0, 0},
		{"hello world", 2, 2},
		{"<|endoftext|>", 7, 7}, // one token if it were special
		{"\xff", 1, 1},          // as U+FFFD
		{strings.Repeat("a", 10_000), 1250, 1250},
		{strings.Repeat("日", 10_000), 10_000, 5000},
		{strings.Repeat("\xff", 10_000), 2500, 1250},
	} {
		for encoding, want := range map[string]int{tiktoken.CL100K: test.cl100k, tiktoken.O200K: test.o200k} {
			if got := open(t, encoding).Count(test.text); got != want {
				t.Errorf("%s: %.20q (%d bytes) has %d tokens, want %d", encoding, test.text, len(test.text), got, want)
			}
		}
	}
}

// The conversation and its counts are the cookbook's: 129 tokens with GPT-4 and
// 124 with GPT-4o, the three that prime the reply and one for each name
// included.
func TestConversation(t *testing.T) {
	messages := []struct{ role, name, text string }{
		{"system", "", "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
		{"system", "example_user", "New synergies will help drive top-line growth."},
		{"system", "example_assistant", "Things working well together will increase revenue."},
		{"system", "example_user", "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
		{"system", "example_assistant", "Let's talk later when we're less busy about how to do better."},
		{"user", "", "This late pivot means we don't have time to boil the ocean for the client deliverable."},
	}
	for model, want := range map[string]int{"gpt-4-0613": 129, "gpt-4o": 124} {
		tok, err := tiktoken.ForModel(model)
		if err != nil {
			t.Fatal(err)
		}
		got := 3
		for _, m := range messages {
			it := projection.Text(projection.Role(m.role), m.text)
			got += projection.Size(tok, &it)
			if m.name != "" {
				got += tok.Count(m.name) + 1
			}
		}
		if got != want {
			t.Errorf("%s: %d tokens, want %d", model, got, want)
		}
	}
}

func TestForModel(t *testing.T) {
	for model, want := range map[string]string{
		"gpt-4o":                    tiktoken.O200K,
		"gpt-4o-mini-2024-07-18":    tiktoken.O200K,
		"chatgpt-4o-latest":         tiktoken.O200K,
		"gpt-4.1-nano":              tiktoken.O200K,
		"gpt-5":                     tiktoken.O200K,
		"gpt-5.1-codex":             tiktoken.O200K,
		"o1":                        tiktoken.O200K,
		"o3-mini":                   tiktoken.O200K,
		"o4-mini-2025-04-16":        tiktoken.O200K,
		"openai/gpt-oss-120b":       tiktoken.O200K,
		"ft:gpt-4o-mini:org::id":    tiktoken.O200K,
		"GPT-4O":                    tiktoken.O200K,
		"o200k_base":                tiktoken.O200K,
		"gpt-4":                     tiktoken.CL100K,
		"gpt-4-turbo":               tiktoken.CL100K,
		"gpt-3.5-turbo":             tiktoken.CL100K,
		"gpt-35-turbo-16k":          tiktoken.CL100K,
		"text-embedding-3-small":    tiktoken.CL100K,
		"cl100k_base":               tiktoken.CL100K,
		"":                          "",
		"claude-opus-4":             "",
		"o11y":                      "",
		"gpt-40":                    "",
		"p50k_base":                 "",
		"vendor/with/path/llama-3":  "",
		"text-embedding-ada-002/x/": "",
	} {
		tok, err := tiktoken.ForModel(model)
		switch {
		case want == "" && (!errors.Is(err, tiktoken.ErrUnknown) || !strings.Contains(err.Error(), "projection.Estimate")):
			t.Errorf("%q: error %v, want ErrUnknown and what to do", model, err)
		case want != "" && err != nil:
			t.Errorf("%q: %v", model, err)
		case want != "" && tok.Name() != want:
			t.Errorf("%q: encoding %s, want %s", model, tok.Name(), want)
		}
	}
	if _, err := tiktoken.New("gpt-4o"); !errors.Is(err, tiktoken.ErrUnknown) {
		t.Errorf("New of a model: error %v, want ErrUnknown", err)
	}
}

func TestCountPart(t *testing.T) {
	tok := open(t, tiktoken.O200K)
	for _, test := range []struct {
		name string
		part projection.Part
		want int
	}{
		{"image by value", projection.Part{Type: projection.ImagePart, Data: make([]byte, 1<<20)}, 1445},
		{"image by URL", projection.Part{Type: projection.ImagePart, URL: "https://example.com/a.png"}, 1445},
		{"text file", projection.Part{Type: projection.FilePart, MediaType: "text/plain; charset=utf-8", Data: []byte("hello world")}, 2},
		{"JSON file", projection.Part{Type: projection.FilePart, MediaType: "application/json", Data: []byte("hello world")}, 2},
		{"other file", projection.Part{Type: projection.FilePart, MediaType: "application/pdf", Data: make([]byte, 1001)}, 251},
		{"no media type", projection.Part{Type: projection.FilePart, Data: make([]byte, 8)}, 2},
		{"file by URL", projection.Part{Type: projection.FilePart, URL: "https://example.com/a.pdf"}, 1024},
		{"empty file", projection.Part{Type: projection.FilePart}, 0},
	} {
		if got := tok.CountPart(test.part); got != test.want {
			t.Errorf("%s: %d tokens, want %d", test.name, got, test.want)
		}
	}
}

// A long run of one letter, sign or broken byte is what costs the library the
// square of its length; BenchmarkCount has what it costs here.
func TestHostileTextReturns(t *testing.T) {
	for _, encoding := range []string{tiktoken.CL100K, tiktoken.O200K} {
		tok := open(t, encoding)
		for _, s := range []string{"a", "Aa", "é", " ", "\n", "!", "日", "\xff", "\u0301", "a\xff", "\x00", "1", "'", " \u00a0", "!\u0301", "/\n"} {
			text := strings.Repeat(s, 20_000/len(s))
			if n := tok.Count(text); n <= 0 || n > len(text)*3 {
				t.Errorf("%s: %q: %d tokens", encoding, s, n)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	text := strings.Repeat("All of us count the same words. ", 50) + strings.Repeat("x", 2000)
	want := open(t, tiktoken.CL100K).Count(text)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tok, err := tiktoken.ForModel("gpt-4")
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if got := tok.Count(text); got != want {
					t.Errorf("%d tokens, want %d", got, want)
				}
			}
		})
	}
	wg.Wait()
}
