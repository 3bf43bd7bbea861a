package vault

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// access determines who may use the files that are created.
//
// What agents were told and decided is only for those who run them: records,
// _data, the index, the audit log and the lock are 0600, their directories
// 0700. Documents, _vault.json and .gitignore follow the umask. If the
// directory of the vault is writable for its group, it is shared on purpose:
// everything created then belongs to that group, which may read and write it,
// and others may do no more than the directory permits.
type access struct {
	shared bool
	setgid fs.FileMode // of new directories
	others fs.FileMode // what others may do if the vault is shared
	group  int
}

// accessTo determines how the directory of a vault is shared.
func accessTo(root string) (access, error) {
	info, err := os.Stat(root)
	if err != nil {
		return access{}, err
	}
	group, _, ok := owners(info)
	mode := info.Mode()
	return access{shared: ok && mode&0o020 != 0, setgid: mode & fs.ModeSetgid, others: mode & 0o007, group: group}, nil
}

// mode returns the mode of a private or other file or directory.
func (a access) mode(private, dir bool) fs.FileMode {
	mode := fs.FileMode(0o644)
	if private {
		mode = 0o600
	}
	if a.shared {
		mode = mode&(0o770|a.others) | 0o060
	}
	if dir { // what may be read may also be entered
		mode |= mode >> 2 & 0o111
	}
	return mode
}

// open opens a file, creating it with the right access if flag has O_CREATE.
func (a access) open(path string, flag int, private bool) (*os.File, error) {
	f, err := os.OpenFile(path, flag, a.mode(private, false))
	if err != nil || !a.shared {
		return f, err
	}
	info, err := f.Stat()
	if err == nil {
		err = a.settle(f.Chown, f.Chmod, info, a.mode(private, false))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mkdirAll creates a directory of the vault, relative to root, and its parents.
// A link in place of one is an error.
func (a access) mkdirAll(root, dir string) error {
	if dir == rootFolder {
		return nil
	}
	private := dir[0] == '_'
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		path := filepath.Join(root, dir[:i])
		err := os.Mkdir(path, a.mode(private, true))
		if errors.Is(err, fs.ErrExist) {
			if info, err := os.Lstat(path); err == nil && !info.IsDir() {
				return errLinked
			}
			continue
		}
		if err != nil {
			return err
		}
		if a.shared {
			if err := a.settlePath(path, private); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle sets the group and mode of something that is ours. If we are not in
// the group we cannot set it, and the file stays private to us.
func (a access) settle(chown func(uid, gid int) error, chmod func(fs.FileMode) error, info fs.FileInfo, mode fs.FileMode) error {
	group, ours, ok := owners(info)
	if !ok || !ours {
		return nil
	}
	if a.shared && group != a.group {
		if err := chown(-1, a.group); errors.Is(err, fs.ErrPermission) {
			mode &^= 0o070
		} else if err != nil {
			return err
		}
	}
	if info.IsDir() {
		mode |= a.setgid | info.Mode()&(fs.ModeSetgid|fs.ModeSticky)
	}
	if info.Mode()&^fs.ModeType == mode {
		return nil
	}
	return chmod(mode)
}

func (a access) settlePath(path string, private bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	return a.settle(
		func(uid, gid int) error { return os.Chown(path, uid, gid) },
		func(mode fs.FileMode) error { return os.Chmod(path, mode) },
		info, a.mode(private, info.IsDir()))
}

// settleAll settles what exists: it may have been created by an older program,
// by version control, or before the vault was shared. If it is not shared, the
// directories of records in files are made private, and documents are left
// alone.
func (a access) settleAll(root string, l *layout) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(root, name)
		travels := name == markerName || name == ignoreName || l.holdsDocuments(name)
		_, theirs := l.kind(name)
		switch {
		case theirs: // a person's folder keeps the access that person gave it
		case name == dataDir, a.shared && (l.holdsFiles(name) || travels):
			err = filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
				if err == nil {
					err = a.settlePath(path, !travels)
				}
				return forgive(err)
			})
		case name == indexName, name == lockName, strings.HasPrefix(name, "_mutations."), l.isSpace(name):
			err = forgive(a.settlePath(path, true))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgive ignores that another process has removed a file, or that we may not
// list a directory.
func forgive(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
