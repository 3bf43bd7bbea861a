package engine

import (
	"encoding/binary"
	"hash/crc32"
	"unsafe"
)

// A stored value is framed as
//
//	sequence number   8 bytes, big-endian: its version
//	CRC-32C           4 bytes, big-endian: of the key, the sequence number and the value
//	value
//
// The checksum covers the key, so that a value that ends up under another key
// is detected too.
const frameHead = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal frames a value. The frame shares nothing with value.
func Seal(key string, seq uint64, value []byte) []byte {
	return AppendSealed(make([]byte, 0, frameHead+len(value)), key, seq, value)
}

// AppendSealed appends the frame of a value.
func AppendSealed(out []byte, key string, seq uint64, value []byte) []byte {
	from := len(out)
	out = binary.BigEndian.AppendUint64(out, seq)
	out = append(append(out, 0, 0, 0, 0), value...)
	frame := out[from:]
	binary.BigEndian.PutUint32(frame[8:], checksum(key, frame))
	return out
}

// Unseal returns the sequence number and the value, which is part of frame. It
// is false if the checksum does not match.
func Unseal(key string, frame []byte) (seq uint64, value []byte, ok bool) {
	if len(frame) < frameHead || binary.BigEndian.Uint32(frame[8:]) != checksum(key, frame) {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(frame), frame[frameHead:], true
}

// Seq returns the sequence number of a frame without verifying it, or 0, which
// stands for absent, if it is not a frame.
func Seq(frame []byte) uint64 {
	if len(frame) < frameHead {
		return 0
	}
	return binary.BigEndian.Uint64(frame)
}

func checksum(key string, frame []byte) uint32 {
	// An argument of crc32 escapes, so a copy of the key would be on the heap. It
	// is only read.
	sum := crc32.Update(0, castagnoli, unsafe.Slice(unsafe.StringData(key), len(key)))
	sum = crc32.Update(sum, castagnoli, frame[:8])
	return crc32.Update(sum, castagnoli, frame[frameHead:])
}
