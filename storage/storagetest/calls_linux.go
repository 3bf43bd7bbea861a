//go:build linux && (amd64 || arm64)

package storagetest

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"unsafe"
)

// changing are the system calls that change a file or make it durable.
var changing = []uint64{
	syscall.SYS_OPENAT, syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_WRITEV, syscall.SYS_PWRITEV, syscall.SYS_FTRUNCATE,
	syscall.SYS_FALLOCATE, syscall.SYS_FSYNC, syscall.SYS_FDATASYNC, syscall.SYS_MSYNC, syscall.SYS_RENAMEAT, syscall.SYS_LINKAT,
	syscall.SYS_UNLINKAT, syscall.SYS_MKDIRAT,
}

// changingToo are those that package syscall does not name on every
// architecture: rename, link, unlink, mkdir, renameat2, pwritev2.
var changingToo = map[string][]uint64{"amd64": {82, 86, 87, 83, 316, 328}, "arm64": {276, 287}}

const (
	ptraceSyscallInfo = 0x420e   // PTRACE_GET_SYSCALL_INFO
	ptraceExitKill    = 0x100000 // PTRACE_O_EXITKILL
	waitNoThread      = 0x20000000
	syscallStop       = syscall.SIGTRAP | 0x80
)

// syscallInfo is struct ptrace_syscall_info.
type syscallInfo struct {
	op   uint8 // 1 is entry
	_    [23]byte
	nr   uint64
	args [7]uint64
}

// killAtCall starts a command and kills it before it makes the nth of the
// changing system calls, counted over all its threads. It returns when the
// command has ended: whether it was killed, how many of the calls it had begun,
// and its exit status.
func killAtCall(cmd *exec.Cmd, n int) (killed bool, calls, status int, err error) {
	runtime.LockOSThread() // only this thread may trace
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return false, 0, 0, err
	}
	pid := cmd.Process.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WALL, nil); err != nil {
		return false, 0, 0, fmt.Errorf("wait: %w", err)
	}
	err = syscall.PtraceSetOptions(pid, ptraceExitKill|syscall.PTRACE_O_TRACESYSGOOD|
		syscall.PTRACE_O_TRACECLONE|syscall.PTRACE_O_TRACEFORK|syscall.PTRACE_O_TRACEVFORK)
	if err == nil {
		err = syscall.PtraceSyscall(pid, 0)
	}
	if err != nil {
		return false, 0, 0, errors.Join(fmt.Errorf("trace: %w", err), syscall.Kill(pid, syscall.SIGKILL))
	}
	kinds := slices.Concat(changing, changingToo[runtime.GOARCH])
	known := map[int]bool{pid: true}
	for {
		tid, err := syscall.Wait4(-1, &ws, syscall.WALL|waitNoThread, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD): // all threads have ended
			return killed, calls, status, nil
		case err != nil:
			return killed, calls, status, fmt.Errorf("wait: %w", err)
		case !ws.Stopped():
			if tid == pid {
				status = ws.ExitStatus()
			}
			continue
		}
		deliver := 0
		switch sig := ws.StopSignal(); {
		case sig == syscallStop:
			if !killed && enters(tid, kinds) {
				if calls++; calls == n {
					killed = true
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						return killed, calls, status, fmt.Errorf("kill: %w", err)
					}
					continue
				}
			}
		case !known[tid]: // the stop with which a new thread begins
			known[tid] = true
		case ws.TrapCause() <= 0:
			deliver = int(sig)
		}
		if err := syscall.PtraceSyscall(tid, deliver); err != nil && !errors.Is(err, syscall.ESRCH) {
			return killed, calls, status, fmt.Errorf("trace: %w", err)
		}
	}
}

// enters reports whether a stopped thread is about to make a call of one of
// these kinds.
func enters(tid int, kinds []uint64) bool {
	var info syscallInfo
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, ptraceSyscallInfo, uintptr(tid),
		unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	return errno == 0 && info.op == 1 && slices.Contains(kinds, info.nr)
}
