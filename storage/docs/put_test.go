package docs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/docs"
)

// limited breaks off before its n-th batch, and counts them.
type limited struct {
	storage.Adapter
	left    int
	batches int
	between func()
}

var errBroken = errors.New("broken off")

func (l *limited) Apply(ctx context.Context, ops ...storage.Op) error {
	if l.left == 0 {
		return errBroken
	}
	l.left--
	l.batches++
	if err := l.Adapter.Apply(ctx, ops...); err != nil {
		return err
	}
	if l.between != nil {
		l.between()
	}
	return nil
}

func lines(n int, word string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s number%d", word, i)
	}
	return list
}

// A document that takes many batches is in order between any two of them, and
// one that was broken off at any of them is made whole by the next put.
func TestManyBatches(t *testing.T) {
	store := openMem(t)
	put(t, collection(t, store, docs.Owner{}, "x"), document("small.md", "a pebble"))
	check := func(big bool) {
		t.Helper()
		c := collection(t, store, docs.Owner{}, "x")
		expect(t, c, "pebble", "small.md:1-2")
		list, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range store.List(t.Context(), "_docs/%/%/x/i/d/") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		sound(t, store, n)
		for _, f := range list {
			if f.Name == "big.md" && !f.Partial && (f.Passages != n-1 || f.Digest == "") || f.Partial && f.Digest != "" {
				t.Errorf("%+v has %d passages", f, n-1)
			}
			if f.Partial && !big {
				t.Error("it is partial in the end")
			}
		}
	}
	versions := []docs.Document{document("big.md", lines(900, "granite")...), document("big.md", lines(700, "marble")...), document("big.md", "sand")}
	for _, d := range versions {
		for stop := 1; ; stop++ {
			l := &limited{Adapter: store, left: stop, between: func() { check(true) }}
			c := collection(t, l, docs.Owner{}, "x")
			err := c.Put(t.Context(), d)
			if err != nil && !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			if err == nil {
				break
			}
			check(true)
		}
		check(false)
		sound(t, store, 1+len(d.Passages))
		expect(t, collection(t, store, docs.Owner{}, "x"), d.Passages[len(d.Passages)-1].Text,
			fmt.Sprintf("big.md:%d-%d", 2*len(d.Passages)-1, 2*len(d.Passages)))
	}
	l := &limited{Adapter: store, left: 1000}
	c := collection(t, l, docs.Owner{}, "x")
	var many []docs.Document
	for i := range 300 {
		many = append(many, document(fmt.Sprintf("n%03d.md", i), lines(2, fmt.Sprintf("slate%d", i))...))
	}
	put(t, c, many...)
	if l.batches > 4 {
		t.Errorf("%d batches for 600 passages in 300 documents", l.batches)
	}
	l.batches = 0
	put(t, c, many...)
	if l.batches > 3 {
		t.Errorf("%d batches for 300 documents that did not change", l.batches)
	}
	sound(t, store, 602)
	all := names(t, c)
	for i := range all {
		all[i], _, _ = strings.Cut(all[i], " ")
	}
	if _, err := c.Remove(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	sound(t, store, 0)
	if left := names(t, c); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// A passage that stays, lines included, is not written again.
func TestUnchangedPassages(t *testing.T) {
	store := openMem(t)
	c := collection(t, store, docs.Owner{}, "x")
	d := document("a.md", lines(20, "granite")...)
	put(t, c, d)
	written := 0
	l := &counting{Adapter: store, count: func(op storage.Op) {
		if strings.Contains(op.Key, "/i/d/") {
			written++
		}
	}}
	d.Passages[19].Text = "marble"
	put(t, collection(t, l, docs.Owner{}, "x"), d)
	if written != 2 { // out with one, in with one
		t.Errorf("%d passages were written, want 2", written)
	}
}

type counting struct {
	storage.Adapter
	count func(op storage.Op)
}

func (s *counting) Apply(ctx context.Context, ops ...storage.Op) error {
	for _, op := range ops {
		s.count(op)
	}
	return s.Adapter.Apply(ctx, ops...)
}

// Writers that do not know of each other lose nothing, while others search.
func TestConcurrentWriters(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		const writers, rounds = 3, 6
		var wg sync.WaitGroup
		for w := range writers {
			c := collection(t, store, docs.Owner{}, "x") // as in a process of its own
			wg.Go(func() {
				for r := range rounds {
					own := fmt.Sprintf("w%d-%d.md", w, r)
					for {
						err := c.Put(t.Context(), document(own, lines(5, "granite"+own[:2])...), document("shared.md", fmt.Sprintf("basalt w%d r%d", w, r)))
						if errors.Is(err, storage.ErrConflict) {
							continue
						}
						if err != nil {
							t.Error(err)
						}
						break
					}
					if r%2 == 1 {
						for {
							_, err := c.Remove(t.Context(), fmt.Sprintf("w%d-%d.md", w, r-1))
							if errors.Is(err, storage.ErrConflict) {
								continue
							}
							if err != nil {
								t.Error(err)
							}
							break
						}
					}
				}
			})
			wg.Go(func() {
				for range 2 * rounds {
					if _, err := c.Search(t.Context(), docs.Query{Text: "granite basalt"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		c := collection(t, store, docs.Owner{}, "x")
		if got := names(t, c); len(got) != 1+writers*rounds/2 {
			t.Errorf("%q", got)
		}
		sound(t, store, 1+5*writers*rounds/2)
		expect(t, c, "basalt", "shared.md:1-2")
	})
}
