//go:build goexperiment.simd && amd64

package vector

import "simd/archsimd"

// These are built with GOEXPERIMENT=simd, and return the same as the plain
// ones.
var (
	hasPairs  = archsimd.X86.AVX2()
	hasCounts = archsimd.X86.AVX512() && archsimd.X86.AVX512VPOPCNTDQ()
)

// inner returns the inner product of two vectors of equal length.
func inner(a, b []int16) int32 {
	if !hasPairs {
		return plainInner(a, b)
	}
	var s, t archsimd.Int32x8
	b = b[:len(a)]
	for len(a) >= 32 {
		x, y := (*[32]int16)(a), (*[32]int16)(b)
		s = s.Add(archsimd.LoadInt16x16((*[16]int16)(x[:16])).DotProductPairs(archsimd.LoadInt16x16((*[16]int16)(y[:16]))))
		t = t.Add(archsimd.LoadInt16x16((*[16]int16)(x[16:])).DotProductPairs(archsimd.LoadInt16x16((*[16]int16)(y[16:]))))
		a, b = a[32:], b[32:]
	}
	var parts [8]int32
	s.Add(t).Store(&parts)
	archsimd.ClearAVXUpperBits()
	sum := plainInner(a, b)
	for _, p := range parts {
		sum += p
	}
	return sum
}

// differences returns, for each of eight interleaved codes, the number of bits
// in which it differs from code.
func differences(d *[lanes]uint16, codes, code []uint64) {
	if !hasCounts {
		plainDifferences(d, codes, code)
		return
	}
	var n archsimd.Uint64x8
	for _, q := range code {
		c := archsimd.LoadUint64x8((*[lanes]uint64)(codes))
		n = n.Add(c.Xor(archsimd.BroadcastUint64x8(q)).OnesCount())
		codes = codes[lanes:]
	}
	n.TruncateToUint16().Store(d)
	archsimd.ClearAVXUpperBits()
}
