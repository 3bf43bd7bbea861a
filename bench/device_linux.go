package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// deviceWrites returns how many bytes were ever written, by all programs, to
// the device that holds a directory, and false if the system does not reveal
// it. The counter of the process in /proc is useless: it counts a whole folio
// of the page cache for each write to part of one.
func deviceWrites(dir string) (int64, bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0, false
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return 0, false
	}
	field := strings.Fields(string(text))
	if len(field) < 7 {
		return 0, false
	}
	sectors, err := strconv.ParseInt(field[6], 10, 64)
	return sectors * 512, err == nil
}

// flush makes the system write out what it holds back.
func flush() { unix.Sync() }

// writeCalls returns how many bytes this process has passed to write calls, and
// false if the system does not reveal it. It does not include writes to mapped
// files.
func writeCalls() (int64, bool) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "wchar: "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
