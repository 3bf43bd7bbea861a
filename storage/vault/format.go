package vault

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// A directory is a vault if it has _vault.json:
//
//	{"format":"strata-vault","version":2}
//
// which version control carries, or _data/vault.json, which it does not:
//
//	{"format":"strata-vault","version":2,"id":"…","salt":"…"}
//
// id is random; salt is for the digests in the audit log. A program opens
// versions up to its own, refuses newer ones, and converts an older one to
// version 2 when it opens it for writing. Version 1 had no records in files,
// and counted the newline at the end of a file as part of the body. Version 3
// is for a _vault.json with folders, see layout.go, which older programs would
// ignore.
const (
	markerName    = "_vault.json"
	ignoreName    = ".gitignore"
	vaultName     = "_data/vault.json"
	formatName    = "strata-vault"
	plainVersion  = 2
	formatVersion = 3 // with folders
)

type vaultFile struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	ID      string `json:"id,omitempty"`
	Salt    []byte `json:"salt,omitempty"`

	Folders map[string]string `json:"folders,omitempty"`
}

// readFormat reads one of the two files.
func (s *Store) readFormat(name string) (vaultFile, error) {
	path := filepath.Join(s.root, name)
	var v vaultFile
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if err != nil {
		return v, fmt.Errorf("open %s: %w", path, engine.DiskError(err))
	}
	if err := json.Unmarshal(text, &v); err != nil || v.Format != formatName {
		return v, &storage.FormatError{Path: path, Reason: "is not a vault's: delete it if the directory is one"}
	}
	known := formatVersion
	if name != markerName {
		known = plainVersion
	}
	if v.Version > known {
		return v, newer(path, v.Version, known)
	}
	return v, nil
}

func newer(path string, version, known int) error {
	return &storage.FormatError{Path: path, Newer: true, Reason: fmt.Sprintf(
		"has format version %d, newer than the %d this program reads: use a newer one", version, known)}
}

// readMarker refuses a vault of a newer version.
func (s *Store) readMarker() error {
	_, err := s.readFormat(markerName)
	return err
}

// recognize reads the version, and adds what is missing or older. The caller
// holds the lock.
func (s *Store) recognize() error {
	v, err := s.readFormat(vaultName)
	s.salt = v.Salt
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := s.readLayout(); err != nil {
		return err
	}
	if s.opts.ReadOnly { // perhaps a clone
		return nil
	}
	if s.opts.Adopt {
		if err := s.adopt(); err != nil {
			return fmt.Errorf("adopt: %w", engine.DiskError(err))
		}
	}
	if dirs := s.makeDirs(); dirs != nil {
		return dirs
	}
	if err := s.who.settleAll(s.root, s.layout.Load()); err != nil {
		return fmt.Errorf("open %s: %w", s.root, engine.DiskError(err))
	}
	if err != nil {
		s.salt = make([]byte, 16)
		rand.Read(s.salt)
		v = vaultFile{ID: rand.Text(), Salt: s.salt}
	}
	if v.Version < plainVersion {
		if err := s.writeFormat(vaultName, v); err != nil {
			return err
		}
	}
	if v, err = s.readFormat(markerName); v.Version < plainVersion && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		err = s.writeFormat(markerName, vaultFile{})
	}
	if err != nil {
		return err
	}
	return s.ignore()
}

func (s *Store) writeFormat(name string, v vaultFile) error {
	v.Format, v.Version = formatName, plainVersion
	if len(v.Folders) > 0 {
		v.Version = formatVersion
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = s.putWhole(filepath.Join(s.root, name), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", s.root, engine.DiskError(err))
	}
	return nil
}

func (s *Store) makeDirs() error {
	for _, dir := range []string{logDir, tempDir} {
		if err := s.who.mkdirAll(s.root, dir); err != nil {
			return fmt.Errorf("create %s: %w", s.root, engine.DiskError(err))
		}
	}
	return nil
}

// ignoreText lists what version control should not carry: what can be rebuilt
// from the rest, and what belongs to one place.
const ignoreText = `# Written by strata; yours to change. What is ignored stays where it is: the
# threads and states of agents, the log of changes, and what is made anew.
/_data/
/_index.json
/_mutations*.jsonl
/_vault.lock
.tmp.*
`

// ignore writes a .gitignore if there is none.
func (s *Store) ignore() error {
	path := filepath.Join(s.root, ignoreName)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // theirs
	}
	if err := s.putWhole(path, []byte(ignoreText)); err != nil {
		return fmt.Errorf("create %s: %w", path, engine.DiskError(err))
	}
	return nil
}
