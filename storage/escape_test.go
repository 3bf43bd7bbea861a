package storage_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/storage"
)

func TestEscapeSegment(t *testing.T) {
	for text, want := range map[string]string{
		"": "%", ".": "%2E", "..": "%2E%2E", "...": "...", ".a": ".a", "a.b": "a.b",
		"a/b": "a%2Fb", "%": "%25", "%2F": "%252F", "_a": "%5Fa", "a_b": "a_b", "_": "%5F",
		"a b": "a b", "a\nb": "a%0Ab", "\x00": "%00", "\x7f": "%7F", "\u0085": "%C2%85", "\u00a0": "\u00a0",
		"é": "é", "日本": "日本", "\xff": "%FF", "a\xc3": "a%C3", "\xed\xa0\x80": "%ED%A0%80", "\ufffd": "\ufffd",
	} {
		if got := storage.EscapeSegment(text); got != want {
			t.Errorf("EscapeSegment(%q) = %q, want %q", text, got, want)
		}
	}
	for _, segment := range []string{
		"", ".", "..", "a/b", "%2", "%zz", "%2f", "a%", "%41", "%%", "_a", "a%5Fb", "\n", "\xff", "%C3%A9", "%2E%2E%2E", "\u0085",
	} {
		if text, err := storage.UnescapeSegment(segment); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("UnescapeSegment(%q) = %q, %v, want ErrInvalid", segment, text, err)
		}
	}
	if got, want := storage.Join("a/b", "", "é"), "a%2Fb/%/é"; got != want {
		t.Errorf("Join = %q, want %q", got, want)
	}
	if got := storage.Join(); got != "" {
		t.Errorf("Join of nothing = %q", got)
	}
}

func FuzzEscapeSegment(f *testing.F) {
	for _, s := range []string{"", ".", "..", "a/b", "%", "%2F", "_", "é", "\xff", "\u0085", "a\x00b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		segment := storage.EscapeSegment(text)
		back, err := storage.UnescapeSegment(segment)
		if err != nil || back != text {
			t.Fatalf("%q escapes to %q and back to %q, %v", text, segment, back, err)
		}
		if !utf8.ValidString(segment) || strings.Contains(segment, "/") || strings.ContainsFunc(segment, unicode.IsControl) {
			t.Errorf("%q escapes to the unsafe %q", text, segment)
		}
		if key := "doc/" + segment; len(key) <= storage.MaxKey {
			if err := storage.ValidateKey(key); err != nil {
				t.Error(err)
			}
		}
		// Taken as a segment, the text is refused or is what is escaped to itself.
		if other, err := storage.UnescapeSegment(text); err == nil && storage.EscapeSegment(other) != text {
			t.Errorf("%q unescapes to %q, which does not escape to it", text, other)
		}
	})
}
