// Package pack makes records shorter that are written in great numbers: turns,
// states, what layers keep. It knows nothing of what is in them.
//
// A record is stored as a Zstandard frame (RFC 8878) where that is shorter, else
// as it is. A frame is made without a checksum, since engines verify theirs, and
// any program that knows the format reads it.
//
// On turns of an assistant's thread, 20 KB of JSON, a frame has a third of the
// bytes. flate takes longer for less; S2 takes a third of the time, and its blocks
// are half as long again.
package pack

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	// MaxRecord is how many bytes a record may have that is unpacked: more than
	// any value of a store.
	MaxRecord = 16 << 20

	worthwhile = 256 // bytes
)

// ErrDamaged says that a frame cannot be unpacked.
var ErrDamaged = errors.New("the packed record is damaged")

var frame = []byte{0x28, 0xB5, 0x2F, 0xFD} // how one begins

// codec is made whole before main, with the encoder's channel, which its first use
// makes: a channel that is made in a bubble of testing/synctest is fatal to who uses
// it outside, and the bubbles of a program's tests share this package.
var codec = func() (c struct {
	*zstd.Encoder
	*zstd.Decoder
}) {
	const atOnce = 2
	// Each of them keeps a window, of 8 MB by default. Few records are longer than this.
	const window = 1 << 20
	// Records are short: with the tables of the next level, which are six times as
	// large, a turn is packed in twice the time, and is three hundredths shorter.
	// What has no repetitions, as an index, is still worth its Huffman codes.
	const level = zstd.SpeedFastest
	var err error
	c.Encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(atOnce))
	if err == nil {
		c.Decoder, err = zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxRecord), zstd.WithDecoderConcurrency(atOnce))
	}
	if err != nil { // of the options, which are constant
		panic(err)
	}
	c.EncodeAll(nil, nil)
	return c
}()

// Pack returns what to store of a record: the record itself, or a frame in
// buffer, which it replaces where it is too short. A record that begins as a frame
// does is always packed.
func Pack(buffer *[]byte, record []byte) []byte {
	alike := bytes.HasPrefix(record, frame)
	if len(record) < worthwhile && !alike {
		return record
	}
	*buffer = codec.EncodeAll(record, (*buffer)[:0])
	if len(*buffer) < len(record) || alike {
		return *buffer
	}
	return record
}

// Unpack returns the record that Pack made something of. It is stored itself
// where that is no frame.
func Unpack(stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, frame) {
		return stored, nil
	}
	record, err := codec.DecodeAll(stored, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return record, nil
}
