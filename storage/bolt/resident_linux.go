package bolt

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// resident returns how many bytes of mapped files are in the resident size of
// the process, or 0 if unknown.
func resident() int {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) < 3 {
		return 0
	}
	pages, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return 0
	}
	return pages * os.Getpagesize()
}

// release unmaps the pages of a file mapping, which itself stays: a page that
// is read again comes from the file as it is then. An error does not matter.
func release(at, size uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, size, syscall.MADV_DONTNEED)
}
