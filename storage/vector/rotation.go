package vector

import (
	"math"
	"math/bits"

	"github.com/stratamem/strata/storage"
)

// A rotation turns vectors so that each coordinate carries as much information
// as any other, whatever model they come from, and preserves all angles. It is
// part of the format.
//
// Each of its rounds changes the signs of some coordinates, and then applies
// the Hadamard transform of order p, the greatest power of two that fits, to
// the first p coordinates and to the last p (Ailon and Chazelle, "The Fast
// Johnson–Lindenstrauss Transform", 2009, on numbers of dimensions that are not
// powers of two). The signs are the bits of SplitMix64 (Steele, Lea and Flood,
// 2014) from seed 0, one number for 64 coordinates, negative where a bit is 1.
type rotation struct {
	signs [rounds][]float64
}

const rounds = 3

func newRotation(dim int) *rotation {
	r := new(rotation)
	state := uint64(0)
	for i := range r.signs {
		r.signs[i] = make([]float64, dim)
		var z uint64
		for j := range r.signs[i] {
			if j%64 == 0 {
				state += 0x9e3779b97f4a7c15
				z = state
				z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
				z = (z ^ z>>27) * 0x94d049bb133111eb
				z ^= z >> 31
			}
			r.signs[i][j] = 1 - 2*float64(z>>(j%64)&1)
		}
	}
	return r
}

func (r *rotation) apply(v []float64) {
	p := 1 << (bits.Len(uint(len(v))) - 1)
	for _, signs := range r.signs {
		for i, s := range signs {
			v[i] *= s
		}
		hadamard(v[:p])
		if p < len(v) {
			hadamard(v[len(v)-p:])
		}
	}
}

// hadamard is the orthonormal Walsh-Hadamard transform of a power-of-two number
// of coordinates.
func hadamard(v []float64) {
	for h := 1; h < len(v); h *= 2 {
		for i := 0; i < len(v); i += 2 * h {
			a, b := v[i:i+h], v[i+h:i+2*h]
			for j, x := range a {
				y := b[j]
				a[j], b[j] = x+y, x-y
			}
		}
	}
	scale := 1 / math.Sqrt(float64(len(v)))
	for i := range v {
		v[i] *= scale
	}
}

// one represents 1 as a kept coordinate. The length of a kept vector is about
// the same, so by the Cauchy–Schwarz inequality the inner product of two, and
// of any of their coordinates, fits in 32 bits.
const one = math.MaxInt16

// keep returns a vector in its kept form.
func (r *rotation) keep(values []float32, dim int) ([]int16, error) {
	if len(values) != dim {
		return nil, &storage.InvalidError{Rule: "vector has another number of dimensions than its index"}
	}
	v := make([]float64, dim)
	length := 0.0
	for i, x := range values {
		v[i] = float64(x)
		length += v[i] * v[i]
	}
	if length = math.Sqrt(length); length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil, &storage.InvalidError{Rule: "vector is zero or not finite"}
	}
	for i := range v {
		v[i] /= length
	}
	r.apply(v)
	kept := make([]int16, dim)
	for i, x := range v {
		kept[i] = int16(math.Round(max(-1, min(x, 1)) * one))
	}
	return kept, nil
}
