package pack_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stratamem/strata/internal/pack"
)

// TestBubbles: whoever packs first does so perhaps in a bubble, whose channels are
// fatal to all who are outside. It is the first test of the package for that.
func TestBubbles(t *testing.T) {
	record := bytes.Repeat([]byte("a record "), 100)
	use := func(t *testing.T) {
		got, err := pack.Unpack(pack.Pack(new([]byte), record))
		if err != nil || !bytes.Equal(got, record) {
			t.Errorf("%q, %v", got, err)
		}
	}
	synctest.Test(t, use)
	synctest.Test(t, use)
	use(t)
}
