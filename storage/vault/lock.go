package vault

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// lockName is the file that the writer of a commit locks, among all processes
// that share the vault. While locked, the file contains the process and host,
// for people; only the system's lock counts.
const lockName = "_vault.lock"

const defaultLockWait = 5 * time.Second

// lockFile is an open lock file.
type lockFile struct {
	f      *os.File
	fd     uintptr // asking f each time costs two system calls
	wait   time.Duration
	holder []byte
}

func openLock(dir string, who access, wait time.Duration) (*lockFile, error) {
	f, err := who.open(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|noFollow, true)
	if err != nil {
		return nil, engine.DiskError(err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	if wait == 0 {
		wait = defaultLockWait
	}
	return &lockFile{f: f, fd: f.Fd(), wait: wait, holder: fmt.Appendf(nil, "%d %s\n", os.Getpid(), host)}, nil
}

// lock waits for the lock, but no longer than the bound.
func (l *lockFile) lock(ctx context.Context) error {
	start := time.Now()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		ok, err := tryLock(l.fd)
		if err != nil {
			return fmt.Errorf("lock %s: %w", l.f.Name(), err)
		}
		if ok {
			_, err := l.f.WriteAt(l.holder, 0)
			if err != nil {
				_ = unlock(l.fd)
				return fmt.Errorf("lock %s: %w", l.f.Name(), engine.DiskError(err))
			}
			return nil
		}
		if waited := time.Since(start); waited >= l.wait {
			return &storage.LockedError{Path: l.f.Name(), Holder: l.held(), Waited: max(waited, 0)}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// held names the holder, as far as the file reveals it.
func (l *lockFile) held() string {
	b := make([]byte, 300)
	n, _ := l.f.ReadAt(b, 0)
	pid, host, ok := bytes.Cut(bytes.TrimSpace(b[:n]), []byte(" "))
	if _, err := strconv.Atoi(string(pid)); !ok || err != nil {
		return ""
	}
	if string(pid) == strconv.Itoa(os.Getpid()) {
		return "this process"
	}
	return fmt.Sprintf("process %s on %s", pid, host)
}

func (l *lockFile) unlock() {
	_ = l.f.Truncate(0)
	_ = unlock(l.fd)
}
