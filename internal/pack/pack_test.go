package pack_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/stratamem/strata/internal/pack"
)

var frame = []byte{0x28, 0xB5, 0x2F, 0xFD}

func FuzzPack(f *testing.F) {
	for _, s := range []string{"", "a", strings.Repeat("once more ", 100), string(frame), string(frame) + strings.Repeat("x", 400)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		var buffer []byte
		stored := pack.Pack(&buffer, record)
		if len(stored) > len(record) && !bytes.HasPrefix(record, frame) {
			t.Errorf("%d bytes are %d packed", len(record), len(stored))
		}
		got, err := pack.Unpack(stored)
		if err != nil || !bytes.Equal(got, record) {
			t.Errorf("%q comes back as %q, %v", record, got, err)
		}
		if got, err := pack.Unpack(record); err != nil && !errors.Is(err, pack.ErrDamaged) || len(got) > pack.MaxRecord {
			t.Errorf("%q is unpacked to %d bytes, %v", record, len(got), err)
		}
	})
}

func TestPack(t *testing.T) {
	record := []byte(strings.Repeat("What is said once is said again. ", 100))
	var buffer []byte
	stored := pack.Pack(&buffer, record)
	if !bytes.HasPrefix(stored, frame) || len(stored) > len(record)/10 {
		t.Errorf("%d bytes are %d packed", len(record), len(stored))
	}
	// Others read it.
	r, err := zstd.NewReader(bytes.NewReader(stored))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(r); err != nil || !bytes.Equal(got.Bytes(), record) {
		t.Errorf("another reader has %q, %v", got.Bytes(), err)
	}
	for n := len(frame); n < len(stored); n++ {
		if _, err := pack.Unpack(stored[:n]); !errors.Is(err, pack.ErrDamaged) {
			t.Errorf("cut at %d of %d: %v", n, len(stored), err)
		}
	}
}

// A frame that claims to be larger than any record takes no memory.
func TestBomb(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := w.EncodeAll(make([]byte, 4*pack.MaxRecord), nil)
	if _, err := pack.Unpack(bomb); !errors.Is(err, pack.ErrDamaged) {
		t.Errorf("%d bytes are unpacked to %d: %v", len(bomb), 4*pack.MaxRecord, err)
	}
}

func BenchmarkPack(b *testing.B) {
	record := []byte(strings.Repeat(`{"kind":"message","role":"assistant","parts":[{"type":"text","text":"An answer."}]},`, 200))
	var buffer []byte
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	for b.Loop() {
		pack.Pack(&buffer, record)
	}
}

// TestHeld shows that what packing keeps for the next record is small beside a
// store's heap.
func TestHeld(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	record := bytes.Repeat([]byte("what a segment of an index says of one document\n"), 20_000)
	before := heap()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var buffer []byte
			for range 20 {
				pack.Pack(&buffer, record)
			}
		})
	}
	wg.Wait()
	if after := heap(); after > before+8<<20 {
		t.Errorf("%d KB are kept", (after-before)>>10)
	}
}

// TestUnpackTo shows that records unpacked into one buffer stand there side by
// side, and that a buffer with room enough is not replaced.
func TestUnpackTo(t *testing.T) {
	buffer := make([]byte, 0, 1<<16)
	room := &buffer[:1][0]
	var got [][]byte
	for i := range 3 {
		record, err := pack.UnpackTo(&buffer, pack.Pack(new([]byte), bytes.Repeat([]byte{byte('a' + i)}, 1000)))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record)
	}
	for i, record := range got {
		if !bytes.Equal(record, bytes.Repeat([]byte{byte('a' + i)}, 1000)) {
			t.Errorf("record %d is %.20q…", i, record)
		}
	}
	if &buffer[0] != room || len(buffer) != 3000 {
		t.Errorf("the buffer was replaced, or has %d bytes", len(buffer))
	}
	if _, err := pack.UnpackTo(&buffer, []byte("\x28\xb5\x2f\xfdrubbish")); !errors.Is(err, pack.ErrDamaged) || len(buffer) != 3000 {
		t.Errorf("error %v, buffer of %d bytes", err, len(buffer))
	}
}
