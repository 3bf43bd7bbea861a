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
// An entry that the file is too short for was being written when the process
// ended: nobody was told that it is there, and it is cut off. One that is all
// there and does not agree with its checksums is damage.
const (
	logMagic  = "tiny-2\n"
	entryHead = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// change is an op that was made.
type change struct {
	Key    string
	Value  []byte `json:",omitempty"`
	Delete bool   `json:",omitempty"`
}

// batchLog is the open log of one process. Its callers take turns.
type batchLog struct {
	f, lock *os.File
	sync    bool
	end     int64 // of the last entry that is whole
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

// createLog puts an empty log there whole, so that one without its head is
// damage and not a beginning.
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

// lockFile locks a file, which names the process that has it. The system
// unlocks it when that ends, however it ends.
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
		holder, _ := io.ReadAll(f) // empty is unknown
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

// entry returns the batch that text begins with, and the size of its entry; 0
// if it is not all there.
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

// rewind cuts off what follows the last whole entry, and goes there.
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

// append writes a batch. After an error it is not there.
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
