package bolt

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// holder names the process that has the lock of a file, as /proc/locks lists
// it, or "" if that cannot be seen from here.
func holder(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer locks.Close()
	inode := fmt.Sprintf(":%d", stat.Ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 08:01:1234567 0 EOF
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], inode) || f[4] == "0" || f[4] == "-1" {
			continue
		}
		if f[4] == fmt.Sprint(os.Getpid()) {
			return "this process"
		}
		name, err := os.ReadFile("/proc/" + f[4] + "/comm")
		if err != nil {
			return "process " + f[4]
		}
		return "process " + f[4] + " (" + strings.TrimSpace(string(name)) + ")"
	}
	return ""
}
