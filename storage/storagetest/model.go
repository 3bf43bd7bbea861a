package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
)

func modelCases() []testCase {
	return []testCase{{name: "random-operations", run: func(t *testing.T, e Engine) {
		for seed := range uint64(5) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			script := make([]byte, 1500)
			for i := range script {
				script[i] = byte(rnd.Uint32())
			}
			against(t, e, script)
		}
	}}}
}

// Fuzz feeds random operations to an engine and to a map, and compares the
// results.
func Fuzz(f *testing.F, e Engine) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7}, 40))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 2000 {
			script = script[:2000]
		}
		against(t, e, script)
	})
}

// model is what a store should hold.
type model struct {
	t        *testing.T
	e        Engine
	dir      string
	a        storage.Adapter
	content  map[string]string
	versions map[string]storage.Version // as last seen; some are outdated
	script   []byte
}

// next takes a number below n from the script.
func (m *model) next(n int) int {
	if len(m.script) == 0 {
		return 0
	}
	b := m.script[0]
	m.script = m.script[1:]
	return int(b) % n
}

func (m *model) key() string {
	return []string{"a/", "ab/", "b/", "_a/", "_b/x/"}[m.next(5)] + []string{"1", "2", "3", "4", "é", "%00", "x/y"}[m.next(7)]
}

func (m *model) value(key string) string {
	if !storage.IsDocument(key) {
		letter, n := string(rune('a'+m.next(26))), m.next(64)
		if n >= 56 { // more than an engine keeps next to a key
			limits := storage.LimitsOf(m.a)
			n = min((n-55)*1500, limits.Value, limits.Batch/8-len(key))
		}
		return strings.Repeat(letter, n)
	}
	return fmt.Sprintf(`{"p":"%d","q":["%d",%d],"n":%d}`, m.next(3), m.next(3), m.next(3), m.next(200))
}

func against(t *testing.T, e Engine, script []byte) {
	m := &model{t: t, e: e, dir: t.TempDir(), content: map[string]string{}, versions: map[string]storage.Version{}, script: script}
	m.a = e.openIn(t, m.dir)
	declare(t, m.a, "p")
	for len(m.script) > 0 && !t.Failed() {
		m.step()
	}
	m.compare()
	sound(t, e, m.a)
}

func (m *model) step() {
	switch m.next(12) {
	case 0, 1, 2:
		key := m.key()
		m.content[key] = m.value(key)
		set(m.t, m.a, key, m.content[key])
	case 3:
		key := m.key()
		delete(m.content, key)
		remove(m.t, m.a, key)
	case 4, 5, 6:
		m.batch()
	case 7:
		key := m.key()
		value, _, err := m.a.Get(m.t.Context(), key)
		was, ok := m.content[key]
		if !ok {
			wantErr(m.t, "Get "+key, err, storage.ErrNotFound)
		} else if err != nil || !equal(key, value, []byte(was)) {
			m.t.Errorf("Get %q = %q, %v, want %q", key, value, err, was)
		}
	case 8:
		m.look()
	case 9:
		opts := storage.ScanOptions{Limit: m.next(6), Reverse: m.next(2) == 0}
		if m.next(2) == 0 {
			opts.After = m.key()
		}
		prefix := []string{"", "_", "a", "a/", "b/", "_b/x/"}[m.next(6)]
		got := keysOf(m.t, storage.Scan(m.t.Context(), m.a, prefix, &opts))
		diff(m.t, fmt.Sprintf("Scan %q %+v", prefix, opts), got, naiveScan(sortedKeys(m.content), prefix, opts))
	case 10:
		q := storage.Query{Prefix: []string{"", "a", "a/"}[m.next(3)], Equal: fields{"p": fmt.Sprint(m.next(4))}, Limit: m.next(3)}
		if m.next(3) == 0 {
			q.Range = &storage.Range{Field: "p", From: fmt.Sprint(m.next(3)), To: fmt.Sprint(m.next(4))}
		}
		if m.next(3) == 0 {
			declare(m.t, m.a, "q")
			q.Equal["q"] = fmt.Sprint(m.next(3))
		}
		wantFound(m.t, m.a, q, naiveFind(m.content, q)...)
	case 11:
		m.reopenOrCompact()
	}
}

// look reads versions, for preconditions of later batches.
func (m *model) look() {
	key := m.key()
	_, v, err := m.a.Get(m.t.Context(), key)
	if _, ok := m.content[key]; ok != (err == nil) {
		m.t.Errorf("Get %q: %v", key, err)
	}
	m.versions[key] = v
}

func (m *model) batch() {
	var ops []storage.Op
	next := map[string]string{}
	maps.Copy(next, m.content)
	refused := map[string]bool{}
	for range 1 + m.next(5) {
		key := m.key()
		op := storage.Remove(key)
		if m.next(3) > 0 {
			op = storage.Put(key, []byte(m.value(key)))
		}
		switch m.next(4) {
		case 0:
			op = op.IfAbsent()
			if _, ok := m.content[key]; ok {
				refused[key] = true
			}
		case 1:
			v, err := storage.Version(""), error(nil)
			if _, ok := m.content[key]; ok {
				_, v, err = m.a.Get(m.t.Context(), key)
			}
			if err != nil {
				m.t.Errorf("Get %q: %v", key, err)
			}
			if seen, ok := m.versions[key]; ok {
				if seen != v {
					refused[key] = true
				}
				v = seen
			}
			op = op.IfVersion(v)
		}
		ops = append(ops, op)
		if op.Delete {
			delete(next, key)
		} else {
			next[key] = string(op.Value)
		}
	}
	err := m.a.Apply(m.t.Context(), ops...)
	var conflict *storage.ConflictError
	switch {
	case len(refused) == 0 && err == nil:
		m.content = next
	case len(refused) == 0 || !errors.As(err, &conflict) || !refused[conflict.Key]:
		m.t.Errorf("Apply: %v, want a conflict of %v", err, refused)
	}
}

func (m *model) reopenOrCompact() {
	if m.next(4) > 0 {
		return
	}
	if m.e.has("Compacter") {
		if err := storage.Compact(m.t.Context(), m.a); err != nil {
			m.t.Errorf("Compact: %v", err)
		}
	}
	if !m.e.Volatile {
		if err := m.a.Close(); err != nil {
			m.t.Errorf("Close: %v", err)
		}
		m.a = m.e.openIn(m.t, m.dir)
	}
	m.compare()
}

func (m *model) compare() {
	m.t.Helper()
	diff(m.t, "keys", list(m.t, m.a, ""), sortedKeys(m.content))
	for key, value := range m.content {
		want(m.t, m.a, key, value)
	}
}
