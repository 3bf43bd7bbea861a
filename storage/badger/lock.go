package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lockFile contains the id of the process that holds the lock, for people.
// badger's own tools write it too.
const lockFile = "LOCK"

// errHeld means that another process holds the lock.
var errHeld = errors.New("the lock is held")

// dirLock is the lock of a directory. It is the same lock as badger's own, so
// badger's tools respect it.
type dirLock struct {
	dir    *os.File // nil where badger locks
	signed string
}

// sign writes into the directory who holds the lock.
func (l *dirLock) sign() error {
	if l.dir == nil {
		return nil
	}
	path := filepath.Join(l.dir.Name(), lockFile)
	if err := os.WriteFile(path, fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	l.signed = path
	return nil
}

// release removes the signature, then the lock.
func (l *dirLock) release() error {
	if l.dir == nil {
		return nil
	}
	var err error
	if l.signed != "" {
		err = os.Remove(l.signed)
	}
	return errors.Join(err, l.dir.Close())
}

// holder names the process that holds the lock, or "" if that is unknown:
// readers do not sign.
func holder(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	if pid == os.Getpid() {
		return "this process"
	}
	if !running(pid) {
		return "" // signed by a process that was killed; now readers hold the lock
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
}
