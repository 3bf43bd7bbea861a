//go:build !(linux && (amd64 || arm64))

package storagetest

import (
	"errors"
	"os/exec"
)

// killAtCall returns [errors.ErrUnsupported] here.
func killAtCall(*exec.Cmd, int) (killed bool, calls, status int, err error) {
	return false, 0, 0, errors.ErrUnsupported
}
