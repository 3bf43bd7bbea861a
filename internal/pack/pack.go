// Package pack compresses records that are written in great numbers: turns,
// states, records of layers. It knows nothing about their content.
//
// A record is stored as a Zstandard frame (RFC 8878) if that is shorter, and
// otherwise unchanged. Frames have no checksum, since engines verify their own,
// and any program that knows the format can read them.
//
// For turns of an assistant's thread, 20 KB of JSON, a frame has a third of the
// bytes. flate takes longer and compresses less; S2 takes a third of the time,
// but its blocks are half as long again.
package pack

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

const (
	// MaxRecord is the maximum size of a record to unpack, in bytes: more than any
	// value of a store.
	MaxRecord = 16 << 20

	worthwhile = 256 // bytes
)

// ErrDamaged means that a frame cannot be unpacked.
var ErrDamaged = errors.New("the packed record is damaged")

var frame = []byte{0x28, 0xB5, 0x2F, 0xFD} // the beginning of every frame

// codec is initialized completely before main, including the encoder's channel,
// which the first use creates: a channel created in a testing/synctest bubble
// is fatal to users outside it, and all bubbles of a program's tests share this
// package.
var codec = func() (c struct {
	*zstd.Encoder
	*zstd.Decoder
}) {
	const atOnce = 2
	// Each of them keeps a window, of 8 MB by default, and another eighth. Few
	// records are longer than this one.
	const window = 1 << 18
	// Records are short: with the next level, whose tables are six times as large,
	// packing a turn takes twice the time and saves three hundredths. What has no
	// repetitions, such as an index, still benefits from Huffman coding.
	const level = zstd.SpeedFastest
	var err error
	c.Encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(atOnce))
	if err == nil {
		c.Decoder, err = zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxRecord), zstd.WithDecoderConcurrency(atOnce))
	}
	if err != nil { // from the options, which are constant
		panic(err)
	}
	c.EncodeAll(nil, nil)
	return c
}()

// Pack returns how to store a record: the record itself, or a frame in buffer,
// which is replaced if it is too short. A record that begins like a frame is
// always packed.
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

// Unpack reverses Pack. Data that is not a frame is returned unchanged.
func Unpack(stored []byte) ([]byte, error) {
	var buffer []byte
	return unpack(&buffer, stored)
}

// UnpackTo is like Unpack, and appends what it unpacks to a buffer.
func UnpackTo(buffer *[]byte, stored []byte) ([]byte, error) {
	const most = 4 // times what is stored: of more, the decoder makes just the room
	*buffer = slices.Grow(*buffer, most*len(stored))
	return unpack(buffer, stored)
}

func unpack(buffer *[]byte, stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, frame) {
		return stored, nil
	}
	record, err := codec.DecodeAll(stored, *buffer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	n := len(*buffer)
	*buffer = record
	return record[n:len(record):len(record)], nil
}
