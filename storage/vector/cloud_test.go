package vector_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/storage/vector"
)

// cloud says how points lie that look like the embeddings of a model: about a
// common mean, in subjects that fall into topics, some of them talked about
// much more than others, in a few directions more than in the rest.
type cloud struct {
	name  string
	mean  float64 // length of the common mean; topics have 0.55, subjects 0.45
	decay float64 // of the spread, by direction: its rank to this power
	axes  bool    // the directions are the axes; otherwise they are any
	noise float64 // of questions; that of points is 0.5
}

var clouds = []cloud{
	{"mild", 0.3, 0.5, false, 0.6},
	{"far from the origin", 1.5, 0.3, false, 0.8},
	{"few axes", 0.8, 0.6, true, 0.5},
	{"few directions", 0.8, 0.6, false, 0.8},
}

// make returns points and questions of a cloud.
func (c cloud) make(n, questions, dim int, seed uint64) (points, asked [][]float32) {
	rng := rand.New(rand.NewPCG(seed, 1))
	spread := make([]float64, dim)
	even := make([]float64, dim)
	for i, axis := range rng.Perm(dim) {
		spread[axis] = math.Pow(float64(i+1), -c.decay)
		even[axis] = 1
	}
	for _, s := range [][]float64{spread, even} {
		scale := 1 / math.Sqrt(inner(s, s))
		for i := range s {
			s[i] *= scale
		}
	}
	drawn := func(spread []float64, length float64) []float64 {
		v := make([]float64, len(spread))
		for i, s := range spread {
			v[i] = rng.NormFloat64() * s * length
		}
		return v
	}
	mean := drawn(spread, c.mean)
	topics := make([][]float64, 40)
	for i := range topics {
		topics[i] = sum(mean, drawn(spread, 0.55))
	}
	subjects := make([][]float64, 1200)
	for i := range subjects {
		subjects[i] = sum(topics[rng.IntN(len(topics))], drawn(spread, 0.45))
	}
	type turn struct {
		a, b     int
		sin, cos float64
	}
	var turns []turn
	for i := range 3 * dim {
		if a, b := i%dim, rng.IntN(dim); a != b && !c.axes {
			sin, cos := math.Sincos(rng.Float64() * 2 * math.Pi)
			turns = append(turns, turn{a, b, sin, cos})
		}
	}
	zipf := rand.NewZipf(rng, 1.1, 20, uint64(len(subjects)-1))
	draw := func(noise float64) []float32 {
		v := sum(subjects[zipf.Uint64()], sum(drawn(spread, noise), drawn(even, noise*0.4)))
		for _, t := range turns {
			v[t.a], v[t.b] = t.cos*v[t.a]-t.sin*v[t.b], t.sin*v[t.a]+t.cos*v[t.b]
		}
		out := make([]float32, dim)
		for i, x := range v {
			out[i] = float32(x)
		}
		return out
	}
	for range n {
		points = append(points, draw(0.5))
	}
	for range questions {
		asked = append(asked, draw(c.noise))
	}
	return points, asked
}

func sum(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

func inner(a, b []float64) float64 {
	s := 0.0
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

func cosine(a, b []float32) float64 {
	var s, x, y float64
	for i, f := range a {
		p, q := float64(f), float64(b[i])
		s += p * q
		x += p * p
		y += q * q
	}
	return s / math.Sqrt(x*y)
}

// closest returns the k of points that are closest to q, by float64.
func closest(points []vector.Point, q []float32, k int, admit func(string) bool) []vector.Hit {
	var list []vector.Hit
	for _, p := range points {
		if admit == nil || admit(p.ID) {
			list = append(list, vector.Hit{ID: p.ID, Score: cosine(p.Vector, q)})
		}
	}
	slices.SortFunc(list, func(a, b vector.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return list[:min(k, len(list))]
}

// crowd is 100,000 points and questions of a cloud, made once.
var crowd = sync.OnceValues(func() (points, asked [][]float32) {
	return clouds[3].make(100_000, 100, 384, 1)
})

func named(vectors [][]float32, from int) []vector.Point {
	list := make([]vector.Point, len(vectors))
	for i, v := range vectors {
		list[i] = vector.Point{ID: fmt.Sprintf("turn-%07d", from+i), Vector: v}
	}
	return list
}

func must[T any](v T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}
