package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stratamem/strata/storage/docs"
)

// Options configures [Update]. The zero value means the defaults.
type Options struct {
	// MaxBytes is the size of the largest file that is read; 0 means 4 MiB.
	MaxBytes int64
	// Passage is the most bytes in a passage; 0 means [DefaultPassage]. Files that
	// were cut with another limit are cut again.
	Passage int
	// Exclude reports whether a file or folder is to be skipped, by its name in
	// the collection; nil skips none. A file that is newly excluded is removed, as
	// if it were gone.
	Exclude func(name string) bool
	// Progress, unless nil, is called with the name of each file that is looked
	// at.
	Progress func(name string)
}

// Report lists what an update did, by the names of the files, in order.
type Report struct {
	Added     []string  `json:"added"`
	Updated   []string  `json:"updated"`
	Removed   []string  `json:"removed"` // gone from the folder
	Unchanged int       `json:"unchanged"`
	Skipped   []Skipped `json:"skipped"`
}

// Skipped is a file or folder that could not be read. What the collection has
// of it stays.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

const (
	defaultMaxBytes = 4 << 20
	cutFormat       = "1" // of Split: changes when Split cuts differently

	// A file modified this shortly before it was read may have changed again
	// within the resolution of its timestamp.
	grain = 2 * time.Second

	batchPassages = 250 // put at once; a batch holds that many
	batchFiles    = 200
)

// Update brings a collection up to date with a file or folder: it puts what is
// new or changed and removes what is gone from the folder. A document is named
// by its path, cleaned and with slashes: path itself for a file, and path
// joined with the relative path for a file in a folder. So pass the same path
// each time.
//
// A file counts as unchanged if its size and modification time are unchanged
// and it had not been modified just before it was read; otherwise its content's
// digest decides. In a folder, names that begin with "." are skipped and
// symbolic links are not followed; links that lead outside or nowhere are
// reported. path itself may be hidden, or a link.
//
// If a file in a folder is unreadable, too large, or not text, the report lists
// it, the other files are processed, and the collection keeps what it had. An
// error means that path itself could not be read, or that the collection could
// not be read or written; even then, the report says what was done. Memory: the
// files that are put at once.
func Update(ctx context.Context, c *docs.Collection, path string, opts *Options) (*Report, error) {
	u := updater{
		collection: c, known: make(map[string]docs.File), seen: make(map[string]bool),
		report: &Report{Added: []string{}, Updated: []string{}, Removed: []string{}, Skipped: []Skipped{}},
	}
	if opts != nil {
		u.Options = *opts
	}
	if u.MaxBytes <= 0 {
		u.MaxBytes = defaultMaxBytes
	}
	if u.Passage == 0 {
		u.Passage = DefaultPassage
	}
	u.cut = fmt.Sprintf("%s/%d", cutFormat, u.Passage)
	list, err := c.List(ctx)
	if err != nil {
		return u.report, err
	}
	for _, f := range list {
		u.known[f.Name] = f
	}
	if err := u.path(ctx, path); err != nil {
		return u.report, err
	}
	return u.report, nil
}

type updater struct {
	Options
	collection *docs.Collection
	cut        string // how files are cut
	known      map[string]docs.File
	seen       map[string]bool // names in the folder
	kept       []string        // names below which nothing could be read
	report     *Report

	wait     []docs.Document // to be put
	passages int             // in wait
}

func (u *updater) path(ctx context.Context, where string) error {
	info, err := os.Stat(where)
	if err != nil {
		return fmt.Errorf("read %s: %w", where, cause(err))
	}
	name := filepath.ToSlash(filepath.Clean(where))
	if !info.IsDir() {
		if err := u.file(name, info, func() (*os.File, error) { return os.Open(where) }); err != nil {
			return fmt.Errorf("read %s: %w", where, err)
		}
		return u.flush(ctx)
	}
	root, err := os.OpenRoot(where)
	if err != nil {
		return fmt.Errorf("read %s: %w", where, cause(err))
	}
	defer root.Close()
	if err := u.folder(ctx, root, name); err != nil {
		return err
	}
	if err := u.flush(ctx); err != nil {
		return err
	}
	return u.vanished(ctx, name)
}

// folder processes all files of a folder.
func (u *updater) folder(ctx context.Context, root *os.Root, folder string) error {
	return fs.WalkDir(root.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		name := path.Join(folder, rel)
		if rel == "." {
			if err != nil {
				err = fmt.Errorf("read %s: %w", folder, cause(err))
			}
			return err
		}
		switch hidden := strings.HasPrefix(path.Base(rel), "."); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			u.kept = append(u.kept, name)
			u.skip(name, cause(err))
			return nil
		case (hidden || u.Exclude != nil && u.Exclude(name)) && d.IsDir():
			return fs.SkipDir
		case d.IsDir() || hidden || u.Exclude != nil && u.Exclude(name):
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			if _, err := root.Stat(rel); err != nil {
				u.skip(name, fmt.Errorf("it is a link out of the folder, or to nothing: %w", cause(err)))
			}
			return nil
		}
		u.seen[name] = true
		info, err := d.Info()
		if err == nil {
			err = u.file(name, info, func() (*os.File, error) { return root.Open(rel) })
		}
		if err != nil {
			u.skip(name, cause(err))
		}
		if u.passages >= batchPassages || len(u.wait) >= batchFiles {
			return u.flush(ctx)
		}
		return nil
	})
}

func (u *updater) skip(name string, why error) {
	u.report.Skipped = append(u.report.Skipped, Skipped{name, why.Error()})
}

// cause returns the error without the path, which is known already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// file processes a file if it changed.
func (u *updater) file(name string, info fs.FileInfo, open func() (*os.File, error)) error {
	if u.Progress != nil {
		u.Progress(name)
	}
	known, ok := u.known[name]
	switch modified := info.ModTime(); {
	case !utf8.ValidString(name):
		return errors.New("its name is not UTF-8")
	case !info.Mode().IsRegular(): // checked before opening: a pipe would block
		return errors.New("it is not a regular file")
	case ok && !known.Partial && known.Cut == u.cut && known.Size == info.Size() && known.Modified.Equal(modified) &&
		modified.Add(grain).Before(known.Added):
		u.report.Unchanged++
		return nil
	case info.Size() > u.MaxBytes:
		return fmt.Errorf("its %d bytes are over the limit of %d", info.Size(), u.MaxBytes)
	}
	now := time.Now()
	data, err := u.read(open)
	if err != nil {
		return err
	}
	kind, passages, err := Split(name, data, u.Passage)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(data)
	d := docs.Document{Passages: passages, File: docs.File{
		// Use the size and time from before reading: if the file changes meanwhile,
		// they differ the next time.
		Name: name, Kind: kind, Size: info.Size(), Modified: info.ModTime().UTC(), Added: now.UTC(),
		Digest: hex.EncodeToString(digest[:]), Cut: u.cut,
	}}
	if err := d.Validate(); err != nil {
		return err
	}
	u.wait = append(u.wait, d)
	u.passages += len(passages)
	return nil
}

func (u *updater) read(open func() (*os.File, error)) ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, u.MaxBytes+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case int64(len(data)) > u.MaxBytes:
		return nil, fmt.Errorf("it is over the limit of %d bytes", u.MaxBytes)
	}
	return data, nil
}

// flush puts the waiting documents.
func (u *updater) flush(ctx context.Context) error {
	if len(u.wait) == 0 {
		return nil
	}
	if err := u.collection.Put(ctx, u.wait...); err != nil {
		return err
	}
	for i := range u.wait {
		f := &u.wait[i].File
		switch known, ok := u.known[f.Name]; {
		case !ok:
			u.report.Added = append(u.report.Added, f.Name)
		case known.Digest != f.Digest || known.Cut != f.Cut:
			u.report.Updated = append(u.report.Updated, f.Name)
		default:
			u.report.Unchanged++
		}
	}
	u.wait, u.passages = u.wait[:0], 0
	return nil
}

// vanished removes what is known of a folder and no longer in it.
func (u *updater) vanished(ctx context.Context, folder string) error {
	var gone []string
	for name := range u.known {
		if docs.Below(folder, name) && !u.seen[name] && !u.hides(name) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	removed, err := u.collection.Remove(ctx, gone...)
	u.report.Removed = append(u.report.Removed, removed...)
	return err
}

// hides reports whether a name is below a folder that could not be read.
func (u *updater) hides(name string) bool {
	for _, k := range u.kept {
		if docs.Below(k, name) {
			return true
		}
	}
	return false
}
