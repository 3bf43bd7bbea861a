package vault

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher reads file system events directly from inotify, because a query must
// know that it has seen the events of all earlier changes: the kernel queues an
// event before the call that caused it returns, so a read that finds the queue
// empty has seen everything.
type watcher struct {
	root string
	fd   int
	f    *os.File // of fd, for waiting
	buf  []byte

	mu   sync.Mutex // Close may be called while others read
	open bool

	dirs map[int32]string
	ids  map[string]int32
}

const (
	fileEvents = unix.IN_CLOSE_WRITE | unix.IN_MODIFY | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE |
		unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK
	rootEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ATTRIB | unix.IN_ONLYDIR
	logEvents  = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_ONLYDIR
)

// newWatcher watches the directories of the vault; it returns nil if the system
// does not allow it.
func newWatcher(root string) *watcher {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	w := &watcher{
		root: root, fd: fd, f: os.NewFile(uintptr(fd), "inotify"), open: true,
		buf: make([]byte, 64<<10), dirs: map[int32]string{}, ids: map[string]int32{},
	}
	if w.watch("", rootEvents) != nil {
		w.close()
		return nil
	}
	return w
}

func (w *watcher) watch(dir string, events uint32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open {
		return os.ErrClosed
	}
	id, err := unix.InotifyAddWatch(w.fd, filepath.Join(w.root, dir), events)
	if err != nil {
		return os.NewSyscallError("inotify_add_watch", err)
	}
	w.dirs[int32(id)] = dir
	w.ids[dir] = int32(id)
	return nil
}

// add watches a directory of documents. A directory that was recreated counts
// as another one.
func (w *watcher) add(dir string) error {
	events := uint32(fileEvents)
	if dir == rootFolder { // it is watched already, and may be reached through a link
		dir, events = "", rootEvents|fileEvents&^(unix.IN_DONT_FOLLOW|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	}
	err := w.watch(dir, events)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// addLog makes wait also return for changes of records.
func (w *watcher) addLog() { _ = w.watch(dataDir, logEvents) }

// drain reads all pending events. gone means that the directory was removed. It
// reports whether events were lost.
func (w *watcher) drain(each func(dir, name string, gone bool)) (overflow bool) {
	for {
		w.mu.Lock()
		if !w.open {
			w.mu.Unlock()
			return overflow
		}
		n, err := unix.Read(w.fd, w.buf)
		w.mu.Unlock()
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return overflow
		}
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			id := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			size := int(binary.NativeEndian.Uint32(b[12:]))
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], "\x00"))
			b = b[unix.SizeofInotifyEvent+size:]
			if mask&unix.IN_Q_OVERFLOW != 0 {
				overflow = true
				continue
			}
			dir, ok := w.dirs[id]
			if !ok || dir == dataDir {
				continue
			}
			gone := mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0
			if mask&unix.IN_IGNORED != 0 {
				delete(w.dirs, id)
				if w.ids[dir] == id {
					delete(w.ids, dir)
				}
			}
			if gone || name != "" {
				each(dir, name, gone)
			}
		}
	}
}

// wait returns when there are events, and false after close.
func (w *watcher) wait() bool {
	conn, err := w.f.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err != nil && err != unix.EINTR || n > 0
	})
	return err == nil
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open {
		w.open = false
		w.f.Close()
	}
}
