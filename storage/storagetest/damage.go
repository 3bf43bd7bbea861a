package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
)

// damagedBatches is how many batches a store has before it is damaged.
const damagedBatches = 12

func damageCases() []testCase {
	return []testCase{
		{name: "torn-logs", run: tornLogs, durable: true},
		{name: "flipped-values", run: flippedValues, durable: true},
		{name: "flipped-files", run: flippedFiles, durable: true},
		{name: "cut-files", run: cutFiles, durable: true},
	}
}

// samples is roughly how many places of a file are damaged: more if there are
// many kills.
func samples() int { return max(5, kills()/20) }

// tornLogs restores the logs to what they were when a write had just begun to
// reach them: the files of a killed process, with more and more of the next
// write at the end of each log. The store opens and continues, with everything
// that was acknowledged. If more is missing, what is left is a beginning of the
// history, or the damage is reported.
func tornLogs(t *testing.T, e Engine) {
	if dir, ok := childOf(t); ok {
		writeAndCopy(t, e, dir)
	}
	dir := t.TempDir()
	later, earlier := filepath.Join(dir, "later"), filepath.Join(dir, "earlier")
	if err := errors.Join(os.Mkdir(later, 0o755), os.Mkdir(earlier, 0o755)); err != nil {
		t.Fatal(err)
	}
	if !follow(t, child(t, dir), func() {}, func(int, int) {}) {
		t.Fatal("child ended by itself")
	}
	before, after := readTree(t, earlier), readTree(t, later)
	for _, name := range after.matching(t, e.Logs) {
		whole := after[name]
		begin, end := len(before[name].content), len(whole.content)
		for _, at := range slices.Concat(places(0, begin), places(begin, end)) {
			torn := file{content: whole.content[:at], size: int64(at)}
			if whole.size-int64(end) >= 512 { // the file is preallocated
				torn.size = whole.size
			}
			least := 0
			if at >= begin {
				least = damagedBatches
			}
			what := fmt.Sprintf("%s cut to %d bytes, of which %d are acknowledged", name, at, begin)
			recovered(t, e, before.with(t, name, torn), what, least)
			if t.Failed() {
				t.Fatal(what)
			}
		}
	}
}

// writeAndCopy is the child of tornLogs: between two writes, it copies its
// files as they are while the store is open.
func writeAndCopy(t *testing.T, e Engine, dir string) {
	later := filepath.Join(dir, "later")
	a := openChild(e.Open, later)
	for n := 1; n <= damagedBatches+1; n++ {
		if err := e.write(a, 0, n); err != nil {
			fail(err)
		}
		if n == damagedBatches {
			readTree(t, later).write(t, filepath.Join(dir, "earlier"))
		}
	}
	die()
}

// recovered examines a store with the end of a log missing. It must have at
// least the given number of batches.
func recovered(t *testing.T, e Engine, dir, what string, least int) {
	t.Helper()
	start := time.Now()
	a, err := e.Open(t.Context(), dir)
	if took := time.Since(start); took > openBound {
		t.Errorf("%s: Open took %v", what, took)
	}
	if err != nil {
		if least > 0 || !isDamage(err) {
			t.Errorf("%s: Open: %v", what, err)
		}
		return
	}
	n := reached(a, e, 0)
	if n < least {
		t.Errorf("%s: batches 1 to %d of %d are left", what, n, least)
	}
	wantState(t, e, a, []int{n})
	// What is written after a torn end must not be lost because of it.
	n++
	if err := errors.Join(e.write(a, 0, n), a.Close()); err != nil {
		t.Errorf("%s: write and Close: %v", what, err)
	}
	if a, err = e.Open(t.Context(), dir); err != nil {
		t.Errorf("%s: Open after a write: %v", what, err)
		return
	}
	wantState(t, e, a, []int{n})
	if err := a.Close(); err != nil {
		t.Errorf("%s: Close: %v", what, err)
	}
}

// flippedValues flips a bit at every place with a value. Reading it must then
// be right or an error, and Check must find every error.
func flippedValues(t *testing.T, e Engine) {
	rnd := rand.New(rand.NewPCG(3, 4))
	good := t.TempDir()
	a := e.openIn(t, good)
	needles := map[string]string{}
	for i := range 10 {
		text := make([]byte, 40)
		for j := range text {
			text[j] = byte('a' + rnd.IntN(26))
		}
		needles[fmt.Sprintf("_needle/%d", i)] = string(text)
		set(t, a, fmt.Sprintf("_needle/%d", i), string(text))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	whole := readTree(t, good)
	for _, key := range sortedKeys(needles) {
		bad, at, n := maps.Clone(whole), rnd.IntN(40), 0
		for _, name := range whole.matching(t, e.Files) {
			f := whole[name]
			f.content = bytes.Clone(f.content)
			for from := 0; ; n++ {
				i := bytes.Index(f.content[from:], []byte(needles[key]))
				if i < 0 {
					break
				}
				f.content[from+i+at] ^= 1 << rnd.IntN(5)
				from += i + 1
			}
			bad[name] = f
		}
		if n == 0 { // flipped-files is enough
			t.Log("values are stored in another form")
			return
		}
		dir := t.TempDir()
		bad.write(t, dir)
		damaged(t, e, dir, fmt.Sprintf("bit flipped in %s, in %d places", key, n), needles, -1)
	}
}

// flippedFiles flips bits all over the files. Whatever is read then must be
// right or an error, and Check must find what is missing.
func flippedFiles(t *testing.T, e Engine) {
	rnd := rand.New(rand.NewPCG(5, 6))
	eachDamage(t, e, 1, func(f file, at int) (file, string) {
		bit := rnd.IntN(8)
		f.content = bytes.Clone(f.content)
		f.content[at] ^= 1 << bit
		return f, fmt.Sprintf("bit %d of byte %d of %d flipped", bit, at, len(f.content))
	})
}

// cutFiles truncates the files of a store that was closed. A truncated log
// looks like a torn one.
func cutFiles(t *testing.T, e Engine) {
	eachDamage(t, e, damagedBatches, func(f file, at int) (file, string) {
		return file{f.content[:at], int64(at)}, fmt.Sprintf("cut to %d bytes of %d", at, f.size)
	})
}

// eachDamage damages each file in many places, one at a time. A damaged log may
// have lost its last batches.
func eachDamage(t *testing.T, e Engine, lost int, damage func(f file, at int) (file, string)) {
	t.Helper()
	if len(e.Files) == 0 {
		t.Error("the Engine names no Files: nothing can be damaged")
	}
	good := t.TempDir()
	a := e.openIn(t, good)
	declare(t, a, "writer", "n")
	for n := 1; n <= damagedBatches; n++ {
		if err := e.write(a, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	whole := readTree(t, good)
	for _, name := range whole.matching(t, e.Files) {
		torn := 0
		if matches(e.Logs, name) {
			torn = lost
		}
		for _, at := range places(0, len(whole[name].content)) {
			bad, what := damage(whole[name], at)
			damaged(t, e, whole.with(t, name, bad), name+": "+what, nil, torn)
		}
	}
}

// damaged examines a store that was damaged. It may have lost as many batches
// as may be taken for torn ones; torn is negative if it holds no batches.
func damaged(t *testing.T, e Engine, dir, what string, content map[string]string, torn int) {
	t.Helper()
	a, err := e.Open(t.Context(), dir)
	if err != nil {
		if !isDamage(err) {
			t.Errorf("%s: Open: %v, want an error that is ErrCorrupt, ErrFormat or ErrNewer", what, err)
		}
		return
	}
	defer a.Close()
	if torn >= 0 {
		content = e.state(0, max(reached(a, e, 0), damagedBatches-torn))
	}
	missing := ""
	for _, key := range sortedKeys(content) {
		got, _, err := a.Get(t.Context(), key)
		switch {
		case errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrNotFound):
			missing = fmt.Sprintf("Get %q: %v", key, err)
		case err != nil:
			t.Errorf("%s: Get %q: %v", what, key, err)
		case equal(key, got, []byte(content[key])):
		case e.hadValue(key, got): // the newest value is missing
			missing = fmt.Sprintf("Get %q = %.200q, an older value", key, got)
		default:
			t.Errorf("%s: Get %q = %.200q, want %.200q or an error", what, key, got, content[key])
		}
	}
	keys := []string{}
	for key, err := range a.List(t.Context(), "") {
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: List: %v", what, err)
		}
		if err != nil {
			missing = fmt.Sprintf("List: %v", err)
			break
		}
		keys = append(keys, key)
	}
	if missing == "" && !slices.Equal(keys, sortedKeys(content)) {
		missing = fmt.Sprintf("List yields %d keys of %d: %q", len(keys), len(content), keys)
	}
	if torn >= 0 && missing == "" && len(content) > 0 { // otherwise no field may be declared
		missing = notFound(t, a, what, content)
	}
	if missing != "" && !faulty(t, e, a) {
		t.Errorf("%s: Check finds nothing, but %s", what, missing)
	}
}

// notFound returns what Find misses of what writer 0 wrote.
func notFound(t *testing.T, a storage.Adapter, what string, content map[string]string) (missing string) {
	t.Helper()
	q := storage.Query{Equal: fields{"writer": "0"}}
	found := []string{}
	for entry, err := range storage.Find(t.Context(), a, q) {
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: Find: %v", what, err)
		}
		if err != nil {
			return fmt.Sprintf("Find: %v", err)
		}
		found = append(found, entry.Key)
	}
	if !slices.Equal(found, naiveFind(content, q)) {
		return fmt.Sprintf("Find yields %q", found)
	}
	return ""
}

// hadValue reports whether one of the batches set a key to a value.
func (e Engine) hadValue(key string, value []byte) bool {
	for n := 1; n <= damagedBatches; n++ {
		for _, op := range e.batch(0, n) {
			if op.Key == key && !op.Delete && equal(key, value, op.Value) {
				return true
			}
		}
	}
	return false
}

// isDamage reports whether an error of Open means that files are not what was
// written.
func isDamage(err error) bool {
	return errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrFormat) || errors.Is(err, storage.ErrNewer)
}

// faulty reports whether Check finds damage.
func faulty(t *testing.T, e Engine, a storage.Adapter) bool {
	t.Helper()
	if !e.has("Checker") {
		return false
	}
	for _, err := range storage.Check(t.Context(), a) {
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("Check: %v", err)
		}
		return true
	}
	return false
}

// places returns the offsets of a file to damage: the last eight bytes, and
// others evenly spaced.
func places(begin, end int) []int {
	step := max(1, (end-begin)/samples())
	at := []int{}
	for i := begin + step/2; i < end-8; i += step {
		at = append(at, i)
	}
	for i := max(begin, end-8); i < end; i++ {
		at = append(at, i)
	}
	return at
}
