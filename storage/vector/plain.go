package vector

import "math/bits"

// plainInner is inner without special processor instructions.
func plainInner(a, b []int16) int32 {
	var s, t int32
	b = b[:len(a)]
	for len(a) >= 8 {
		x, y := (*[8]int16)(a), (*[8]int16)(b)
		s += int32(x[0])*int32(y[0]) + int32(x[1])*int32(y[1]) + int32(x[2])*int32(y[2]) + int32(x[3])*int32(y[3])
		t += int32(x[4])*int32(y[4]) + int32(x[5])*int32(y[5]) + int32(x[6])*int32(y[6]) + int32(x[7])*int32(y[7])
		a, b = a[8:], b[8:]
	}
	for i, x := range a {
		s += int32(x) * int32(b[i])
	}
	return s + t
}

// plainDifferences is differences likewise.
func plainDifferences(d *[lanes]uint16, codes, code []uint64) {
	var n0, n1, n2, n3, n4, n5, n6, n7 int
	for _, q := range code {
		c := (*[lanes]uint64)(codes)
		n0 += bits.OnesCount64(c[0] ^ q)
		n1 += bits.OnesCount64(c[1] ^ q)
		n2 += bits.OnesCount64(c[2] ^ q)
		n3 += bits.OnesCount64(c[3] ^ q)
		n4 += bits.OnesCount64(c[4] ^ q)
		n5 += bits.OnesCount64(c[5] ^ q)
		n6 += bits.OnesCount64(c[6] ^ q)
		n7 += bits.OnesCount64(c[7] ^ q)
		codes = codes[lanes:]
	}
	d[0], d[1], d[2], d[3] = uint16(n0), uint16(n1), uint16(n2), uint16(n3)
	d[4], d[5], d[6], d[7] = uint16(n4), uint16(n5), uint16(n6), uint16(n7)
}
