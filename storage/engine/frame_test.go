package engine_test

import (
	"bytes"
	"testing"

	"github.com/stratamem/strata/storage/engine"
)

func TestFrame(t *testing.T) {
	for _, value := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("value"), 300)} {
		frame := engine.Seal("_rec/a", 42, value)
		seq, got, ok := engine.Unseal("_rec/a", frame)
		if !ok || seq != 42 || !bytes.Equal(got, value) || engine.Seq(frame) != 42 {
			t.Errorf("Unseal = %d, %q, %t", seq, got, ok)
		}
		if _, _, ok := engine.Unseal("_rec/b", frame); ok {
			t.Error("a frame is good under another key")
		}
		for i := range frame {
			for bit := range 8 {
				frame[i] ^= 1 << bit
				if _, _, ok := engine.Unseal("_rec/a", frame); ok {
					t.Errorf("bit %d of byte %d flipped: not found", bit, i)
				}
				frame[i] ^= 1 << bit
			}
		}
		for n := range frame {
			if _, _, ok := engine.Unseal("_rec/a", frame[:n]); ok {
				t.Errorf("cut to %d bytes: not found", n)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	for _, seq := range []uint64{0, 1, 35, 36, 1 << 40, 1<<64 - 1} {
		v := engine.Version(seq)
		if !engine.IsVersion(v, seq) || engine.IsVersion(v, seq+1) || (v == "") != (seq == 0) {
			t.Errorf("version of %d is %q", seq, v)
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "a/": "a0", "a\xff": "b", "\xff\xff": ""} {
		if got := engine.PrefixEnd(prefix); got != want {
			t.Errorf("PrefixEnd(%q) = %q, want %q", prefix, got, want)
		}
	}
}
