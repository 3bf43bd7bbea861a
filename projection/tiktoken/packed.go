package tiktoken

import (
	"compress/flate"
	_ "embed" // the vocabularies
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

//go:generate go run ./reference/generate

// The vocabularies as reference/generate writes them. Numbers are little-endian.
//
//   - the number of tokens, the number of their bytes, and the number of bytes
//     that are deflated, four bytes each
//   - of the tokens, in the order of their bytes, the low two bytes of their ids,
//     and then the two bits above those, four to a byte, the lowest first: these
//     do not deflate
//   - deflated: for each token a byte, in its upper half how many bytes the token
//     has in common with the one before, below that how many it has beside those,
//     or 0 if one of them is over 15; and then for each token what it has not in
//     common, in the latter case behind the two numbers, a byte each
//
// This is a fifth smaller than deflating the tokens in the order of their ids,
// and inflates in a third of the time.
var (
	//go:embed cl100k_base.bin
	cl100kTokens string
	//go:embed o200k_base.bin
	o200kTokens string
)

// packed is a vocabulary that is read token by token.
type packed struct {
	n, size int // number of tokens, and of their bytes
	ids     string
	forms   []byte
	rest    []byte // what remains to be read of the tokens, and padding
	at      int    // the next token
	last    []byte // the previous token
	lo, hi  uint64 // its first 16 bytes, with anything after its end
}

// padding is how far beyond an end may be read or written, so that 16 bytes are
// always available.
const padding = 16

func unpack(data string) (*packed, error) {
	header := []byte(data[:12])
	p := &packed{n: int(binary.LittleEndian.Uint32(header)), size: int(binary.LittleEndian.Uint32(header[4:]))}
	deflated := 12 + 2*p.n + (p.n+3)/4
	p.ids = data[12:deflated]
	forms := make([]byte, binary.LittleEndian.Uint32(header[8:]), binary.LittleEndian.Uint32(header[8:])+padding)
	if _, err := io.ReadFull(flate.NewReader(strings.NewReader(data[deflated:])), forms); err != nil {
		return nil, fmt.Errorf("inflate vocabulary: %w", err)
	}
	p.forms, p.rest = forms[:p.n], forms[p.n:cap(forms)]
	return p, nil
}

// id returns the id of token i in the order of their bytes.
func (p *packed) id(i int) uint32 {
	return uint32(p.ids[2*i]) | uint32(p.ids[2*i+1])<<8 | uint32(p.ids[2*p.n+i/4]>>(i%4*2)&3)<<16
}

// next writes the next token to the beginning of dst, which must be followed by
// padding, and returns its length. dst must not change before the next call.
func (p *packed) next(dst []byte) int {
	common, own := int(p.forms[p.at]>>4), int(p.forms[p.at]&15)
	if own == 0 {
		common, own, p.rest = int(p.rest[0]), int(p.rest[1]), p.rest[2:]
	}
	if length := common + own; length < 16 {
		p.lo, p.hi = follow(p.lo, p.hi, common, binary.LittleEndian.Uint64(p.rest), binary.LittleEndian.Uint64(p.rest[8:]))
		binary.LittleEndian.PutUint64(dst, p.lo)
		binary.LittleEndian.PutUint64(dst[8:], p.hi)
	} else {
		copy(dst, p.last[:common])
		copy(dst[common:], p.rest[:own])
		p.lo, p.hi = binary.LittleEndian.Uint64(dst), binary.LittleEndian.Uint64(dst[8:])
	}
	p.rest, p.last = p.rest[own:], dst
	p.at++
	return common + own
}

// follow returns 16 bytes: the first common bytes, fewer than 16, of those in
// lo and hi, followed by the bytes of lo2 and hi2.
func follow(lo, hi uint64, common int, lo2, hi2 uint64) (uint64, uint64) {
	if common < 8 {
		return lo&(1<<(8*common)-1) | lo2<<(8*common), hi2<<(8*common) | lo2>>(64-8*common)
	}
	return lo, hi&(1<<(8*common-64)-1) | lo2<<(8*common-64)
}
