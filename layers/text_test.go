package layers_test

import (
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
)

// TestHasUnwanted looks at bytes for what Unwanted says of characters.
func TestHasUnwanted(t *testing.T) {
	for r := range rune(0x3000) {
		for _, s := range []string{string(r), "a" + string(r) + "b", "é" + string(r) + "ü", "\u00A0" + string(r)} {
			if got, want := layers.HasUnwanted(s), strings.ContainsFunc(s, layers.Unwanted); got != want {
				t.Errorf("%q: %t, want %t", s, got, want)
			}
		}
	}
	for _, s := range []string{"", "é", "\u0080", "x\u009F", "\u00A0", "日本。\n\t", "\x7f"} {
		if got, want := layers.HasUnwanted(s), strings.ContainsFunc(s, layers.Unwanted); got != want {
			t.Errorf("%q: %t, want %t", s, got, want)
		}
	}
}
