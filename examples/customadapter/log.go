//go:build unix

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stratamem/strata/storage"
)

// The log is a file that begins with logMagic. Each batch follows as an entry:
//
//	length    of the batch, 4 bytes, little-endian
//	checksum  CRC-32C of the length, 4 bytes
//	checksum  CRC-32C of the batch, 4 bytes
//	batch     its changes as JSON
//
// If the file is too short for an entry, the entry was being written when the
// process ended: it was never acknowledged, and is cut off. An entry that is
// complete but does not match its checksums is damage.
const (
	logMagic  = "tiny-2\n"
	entryHead = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// change is an op that was applied.
type change struct {
	Key    string
	Value  []byte `json:",omitempty"`
	Delete bool   `json:",omitempty"`
}

// batchLog is the open log of one process. Its callers take turns.
type batchLog struct {
	f, lock *os.File
	sync    bool
	end     int64 // end of the last whole entry
}

func openLog(dir string, sync bool) (*batchLog, error) {
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "log")
	if _, err = os.Stat(path); errors.Is(err, os.ErrNotExist) {
		err = createLog(path)
	}
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), lock.Close())
	}
	return &batchLog{f: f, lock: lock, sync: sync}, nil
}

// createLog puts an empty log in place as a whole, so that a file without its
// head is damage, not a beginning.
func createLog(path string) error {
	temp := path + ".new"
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteString(logMagic)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// lockFile locks a file and writes into it which process has it. The system
// unlocks it when that process ends, however it ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = fmt.Fprintf(f, "process %d", os.Getpid())
		}
	} else if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(f) // empty means unknown
		err = &storage.LockedError{Path: path, Holder: strings.TrimSpace(string(holder))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// replay calls do for each batch, and leaves the log ready for more.
func (l *batchLog) replay(do func([]change)) error {
	content, err := io.ReadAll(l.f)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if !strings.HasPrefix(string(content), logMagic) {
		return &storage.FormatError{Path: l.f.Name(), Reason: "is not a log of this engine: name another directory"}
	}
	l.end = int64(len(logMagic))
	for {
		batch, n, err := l.entry(content[l.end:])
		if err != nil {
			return err
		}
		if n == 0 {
			return l.rewind()
		}
		do(batch)
		l.end += int64(n)
	}
}

// entry returns the batch with which text begins, and the size of its entry, or
// 0 if it is incomplete.
func (l *batchLog) entry(text []byte) (batch []change, size int, err error) {
	if len(text) < entryHead {
		return nil, 0, nil
	}
	damage := &storage.CorruptError{
		Path: l.f.Name(), Repair: "restore a backup",
		Reason: fmt.Sprintf("the entry at %d does not agree with its checksum", l.end),
	}
	if binary.LittleEndian.Uint32(text[4:]) != crc32.Checksum(text[:4], castagnoli) {
		return nil, 0, damage
	}
	size = entryHead + int(binary.LittleEndian.Uint32(text))
	if size > len(text) {
		return nil, 0, nil
	}
	body := text[entryHead:size]
	if binary.LittleEndian.Uint32(text[8:]) != crc32.Checksum(body, castagnoli) {
		return nil, 0, damage
	}
	return batch, size, json.Unmarshal(body, &batch)
}

// rewind cuts off what follows the last whole entry, and moves there.
func (l *batchLog) rewind() error {
	err := l.f.Truncate(l.end)
	if err == nil {
		_, err = l.f.Seek(l.end, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("cut log: %w", err)
	}
	return nil
}

// append writes a batch. After an error the batch is not in the log.
func (l *batchLog) append(batch []change) error {
	body, err := json.Marshal(batch)
	if err != nil {
		return err
	}
	entry := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	entry = binary.LittleEndian.AppendUint32(entry, crc32.Checksum(entry, castagnoli))
	entry = binary.LittleEndian.AppendUint32(entry, crc32.Checksum(body, castagnoli))
	entry = append(entry, body...)
	_, err = l.f.Write(entry)
	if err == nil && l.sync {
		err = l.f.Sync()
	}
	if err != nil {
		return errors.Join(err, l.rewind())
	}
	l.end += int64(len(entry))
	return nil
}

func (l *batchLog) close() error { return errors.Join(l.f.Close(), l.lock.Close()) }
