package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
)

func processCases() []testCase {
	return []testCase{
		{name: "several-processes", run: severalProcesses, durable: true},
		{name: "second-process-is-kept-out", run: secondProcess, durable: true},
	}
}

const (
	processes       = 4
	processWrites   = 25
	processCounter  = "_process/counter"
	processDocument = "process/%d-%d" // process, number
)

// severalProcesses lets processes create documents and count in one record, in
// a store that this process has open too.
func severalProcesses(t *testing.T, e Engine) {
	if !e.Shared {
		return // see second-process-is-kept-out
	}
	if dir, ok := childOf(t); ok {
		a := openChild(e.Open, dir)
		for n := range processWrites {
			document := fmt.Appendf(nil, `{"process":"%d"}`, os.Getpid())
			err := storage.Set(context.Background(), a, fmt.Sprintf(processDocument, os.Getpid(), n), document)
			if err == nil {
				err = increment(a, processCounter)
			}
			if err != nil {
				fail(err)
			}
			acknowledge(os.Getpid(), n)
		}
		if err := a.Close(); err != nil {
			fail(err)
		}
		os.Exit(0)
	}
	dir := t.TempDir()
	a := e.openIn(t, dir)
	declare(t, a, "process")
	var mu sync.Mutex
	content := map[string]string{}
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			follow(t, child(t, dir), func() {}, func(process, n int) {
				mu.Lock()
				defer mu.Unlock()
				content[fmt.Sprintf(processDocument, process, n)] = fmt.Sprintf(`{"process":"%d"}`, process)
			})
		})
	}
	wg.Wait()
	if len(content) != processes*processWrites {
		t.Errorf("%d writes acknowledged, want %d", len(content), processes*processWrites)
	}
	for _, b := range []storage.Adapter{a, e.openIn(t, dir)} {
		want(t, b, processCounter, strconv.Itoa(processes*processWrites))
		diff(t, "documents", list(t, b, "process/"), sortedKeys(content))
		for _, document := range content {
			process := strings.Split(document, `"`)[3]
			q := storage.Query{Equal: fields{"process": process}}
			wantFound(t, b, q, naiveFind(content, q)...)
		}
		sound(t, e, b)
	}
}

// secondProcess opens a store that another process has open.
func secondProcess(t *testing.T, e Engine) {
	if e.Shared {
		return // see several-processes
	}
	if dir, ok := childOf(t); ok {
		a := openChild(e.Open, dir)
		acknowledge(os.Getpid(), 0)
		_, err := io.Copy(io.Discard, os.Stdin) // until the parent has looked
		if err = errors.Join(err, a.Close()); err != nil {
			fail(err)
		}
		os.Exit(0)
	}
	dir := t.TempDir()
	cmd := child(t, dir)
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	follow(t, cmd, func() {}, func(process, _ int) {
		defer hold.Close()
		start := time.Now()
		a, err := e.Open(t.Context(), dir)
		if err == nil {
			t.Errorf("two processes have the store open: %v", a.Close())
			return
		}
		var locked *storage.LockedError
		if !errors.As(err, &locked) || !strings.HasPrefix(locked.Path, filepath.Clean(dir)) {
			t.Errorf("Open: %v, want a LockedError with the path of what is locked", err)
		} else if runtime.GOOS == "linux" && !strings.Contains(locked.Holder, strconv.Itoa(process)) {
			t.Errorf("Open: %v, want a LockedError that names process %d", err, process)
		}
		if took := time.Since(start); took > openBound {
			t.Errorf("Open waited %v", took)
		}
	})
	set(t, e.openIn(t, dir), "_process/after", "")
}

// increment adds one to a counter that others add to.
func increment(a storage.Adapter, key string) error {
	ctx := context.Background()
	for {
		value, v, err := a.Get(ctx, key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		n, _ := strconv.Atoi(string(value))
		err = a.Apply(ctx, storage.Put(key, strconv.AppendInt(nil, int64(n+1), 10)).IfVersion(v))
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
}
