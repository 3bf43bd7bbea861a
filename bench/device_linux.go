package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// deviceWrites is how many bytes were ever written to the device that a directory
// is on, by all programs; false if the system does not tell. The counter of the
// process in /proc is of no use: it counts a whole folio of the page cache for
// each write to a part of one.
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

// flush has the system write what it holds back.
func flush() { unix.Sync() }

// writeCalls is how many bytes this process has given to write calls; false if
// the system does not tell. What is written to a mapped file is not among them.
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
