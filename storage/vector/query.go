package vector

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// Query says what to find.
type Query struct {
	// Vector is the target, with the dimensions of the index.
	Vector []float32
	// Limit is the maximum number of hits; 0 means 10.
	Limit int
	// MinScore is the least score of a hit; 0 means no minimum.
	MinScore float64
	// Only lists the IDs that may be found, for example the hits of another index;
	// nil means all. With it, the search is exact.
	Only []string
	// Filter reports whether an ID may be found, for example because it is not in
	// a view yet; nil means all. It is called for some IDs, at most once each, and
	// must not call the index.
	Filter func(id string) bool
	// Exact computes the cosine of every vector, which takes some fifteen times as
	// long with a hundred thousand. Without it, some vectors may be missed, and
	// which ones may depend on the order in which the index grew.
	Exact bool
	// Candidates is the least number of vectors, among those that pass Filter, for
	// which the cosine is computed. 0 means one in a hundred, but at least 1,000
	// and 20 for each hit, multiplied by (256/d)² if the number of dimensions d is
	// below 256. If the index has less than twice as many vectors, the search is
	// exact.
	//
	// Of the ten closest among 100,000 vectors distributed like embeddings, of 64
	// to 384 dimensions, and among 50,000 of 768, the default finds 99.3 % or more
	// in each of four kinds of data. With 384 dimensions half as many candidates
	// find 98.8 %, a tenth 86 % (TestRecall with STRATA_VECTORS=100000).
	Candidates int
}

const (
	defaultLimit = 10
	worthIt      = 2 // ratio of vectors to candidates
)

// candidates returns how many suffice for a number of hits.
func (p *picture) candidates(hits int) int {
	n := max(1000, p.len()/100, 20*hits)
	if bits := 256; p.dim < bits {
		n = n * bits * bits / (p.dim * p.dim)
	}
	return n
}

// Hit is a vector that was found.
type Hit struct {
	ID    string
	Score float64 // the cosine, from -1 to 1
}

// Search finds the vectors closest to that of q, closest first and in the order
// of their IDs among equals. It returns ctx's error if ctx ends.
func (ix *Index) Search(ctx context.Context, r storage.Reader, q Query) ([]Hit, error) {
	if q.Limit < 0 || q.Candidates < 0 {
		return nil, &storage.InvalidError{Rule: "limit or number of candidates is negative"}
	}
	kept, err := ix.rotation.keep(q.Vector, ix.dim)
	if err != nil {
		return nil, err
	}
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	p := ix.picture
	s := &search{ctx: ctx, picture: p, query: kept, filter: q.Filter, least: math.MinInt32, want: min(cmp.Or(q.Limit, defaultLimit), p.len())}
	if q.MinScore != 0 {
		s.least = int32(math.Ceil(max(-2, min(q.MinScore, 2)) * one * one))
	}
	candidates := cmp.Or(q.Candidates, p.candidates(s.want))
	switch {
	case s.want == 0:
	case q.Only != nil:
		err = s.these(q.Only)
	case q.Exact || p.len()/worthIt < candidates:
		err = s.all()
	default:
		w, _ := ix.scratch.Get().(*scratch)
		if w == nil {
			w = new(scratch)
		}
		err = s.closest(w, candidates)
		ix.scratch.Put(w)
	}
	if err != nil || s.want == 0 {
		return nil, err
	}
	s.cut()
	hits := make([]Hit, len(s.best))
	for i, f := range s.best {
		hits[i] = Hit{ID: s.id(f.row), Score: max(-1, min(float64(f.score)/(one*one), 1))}
	}
	return hits, nil
}

// search is a search in progress.
type search struct {
	ctx     context.Context
	picture *picture
	query   []int16
	filter  func(id string) bool
	least   int32 // lowest score among the best
	want    int
	best    []found // the best, and others until cut
}

// found is a row and its inner product with the query.
type found struct {
	score int32
	row   uint32
}

func (s *search) id(row uint32) string { return s.picture.slots[s.picture.owners[row]].id }

// admits asks the filter about a row.
func (s *search) admits(row uint32) bool { return s.filter == nil || s.filter(s.id(row)) }

// offer adds a row if it may be one of the best and the filter, which is called
// only if ask is set, admits it.
func (s *search) offer(row uint32, ask bool) {
	score := inner(s.query, s.picture.vector(row))
	if score < s.least || ask && !s.admits(row) {
		return
	}
	if s.best = append(s.best, found{score, row}); len(s.best) >= 2*s.want+64 {
		s.cut()
	}
}

// cut keeps the best of the rows added, in order.
func (s *search) cut() {
	slices.SortFunc(s.best, func(a, b found) int {
		if a.score != b.score {
			return cmp.Compare(b.score, a.score)
		}
		return strings.Compare(s.id(a.row), s.id(b.row))
	})
	if len(s.best) >= s.want {
		s.best = s.best[:s.want]
		s.least = s.best[s.want-1].score
	}
}

// these examines some IDs.
func (s *search) these(ids []string) error {
	var rows []uint32
	for _, id := range ids {
		if row, ok := s.picture.find(id); ok {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	for _, row := range slices.Compact(rows) {
		s.offer(row, true)
	}
	return s.ctx.Err()
}

// all examines every row.
func (s *search) all() error {
	for row := range uint32(s.picture.len()) {
		if row%blockRows == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		s.offer(row, true)
	}
	return nil
}

// scratch is the working memory of a search.
type scratch struct {
	ranks  []uint16 // by row: its estimated distance
	counts []int    // by rank: number of rows
}

// closest examines the rows estimated to be closest: enough to have the
// required candidates, and all others of the same rank, so that the order of
// rows does not matter.
func (s *search) closest(w *scratch, candidates int) error {
	if err := s.rank(w); err != nil {
		return err
	}
	near, passed, from := 0, 0, 0 // rows examined, rows that passed, their rank
	for want := candidates; passed < candidates && near < s.picture.len(); want = near + max(near, candidates) {
		to := from
		for ; to < ranks && near < want; to++ {
			near += w.counts[to]
		}
		for row, n := range w.ranks {
			if int(n) >= from && int(n) < to && s.admits(uint32(row)) {
				passed++
				s.offer(uint32(row), false)
			}
		}
		from = to
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// With m for the average, and vector x and query q of length 1, the inner
// product x·q is (x−m)·(q−m) − |x−m|²/2 plus what is the same for all x. The
// angle between x−m and q−m is about π times the share of bits in which their
// codes differ. A rank is the resulting estimate of x·q, the highest first, in
// steps of 1/rankScale. What is computed of x is its radius,
//
//	ρ = |x−m| √(rankScale/2)
//
// so that with τ = |q−m| √(2·rankScale) cos(angle) the rank is a constant minus
// ρ(τ−ρ), which is from −6 to 2 times rankScale.
const (
	rankScale = 512
	highest   = 2 * rankScale
	ranks     = 8*rankScale + 1
)

// rank fills w.
func (s *search) rank(w *scratch) error {
	p := s.picture
	code := make([]uint64, p.words)
	for i := range code {
		code[i] = p.word(s.query, i)
	}
	length := p.fromAverage(s.query) * math.Sqrt(2*rankScale)
	cosines := make([]float32, p.dim+1) // τ by number of differing bits
	for n := range cosines {
		cosines[n] = float32(length * math.Cos(math.Pi*float64(n)/float64(p.dim)))
	}
	rows := (p.len() + lanes - 1) / lanes * lanes
	w.ranks = slices.Grow(w.ranks[:0], rows)[:rows]
	w.counts = slices.Grow(w.counts[:0], ranks)[:ranks]
	clear(w.counts)
	counts := (*[ranks]int)(w.counts)
	at := 0
	for i := range p.blocks {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		codes, radii := p.blocks[i].codes, p.blocks[i].radii
		for ; at < min((i+1)*blockRows, rows); at += lanes {
			var d [lanes]uint16
			differences(&d, codes, code)
			out, radius := (*[lanes]uint16)(w.ranks[at:]), (*[lanes]float32)(radii)
			for j, r := range radius {
				n := max(0, min(int(highest-r*(cosines[d[j]]-r)), ranks-1))
				out[j] = uint16(n)
				counts[n]++
			}
			codes, radii = codes[lanes*p.words:], radii[lanes:]
		}
	}
	for _, n := range w.ranks[p.len():] { // lanes without a row
		counts[n]--
	}
	w.ranks = w.ranks[:p.len()]
	return nil
}
