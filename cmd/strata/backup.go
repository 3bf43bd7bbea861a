package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
)

// backupOptions are the flags of backup.
type backupOptions struct {
	store, file string
	force       bool
	json        bool
	quiet       bool
}

func backupCommand(t *tool) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup FILE --db STORE",
		Short: "Write everything in a store to one file",
		Long: `Writes everything in a store, as of one moment, to one file of JSON lines with a
checksum, from which 'strata restore' fills a store of any engine. It holds
everything that was remembered, unencrypted: only its owner may read it.

` + storesHelp + ` A file
of - is the standard output. The file is there only when it is whole.`,
		Example: "  strata backup agent.backup --db agent.db\n  strata backup - --db vault:notes | gzip > notes.backup.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return backupStore(cmd.Context(), t, &o)
		},
	}
	storeArg(cmd, &o.store, 0, exactly(1, "a store and a file"))
	cmd.Flags().BoolVar(&o.force, "force", false, "replace an existing file")
	transferFlags(cmd, &o.json, &o.quiet)
	return cmd
}

func backupStore(ctx context.Context, t *tool, o *backupOptions) error {
	if o.file == "-" && o.json {
		return usagef("backup: --json and a file of - both want the standard output")
	}
	if o.file != "-" && !o.force {
		if _, err := os.Lstat(o.file); err == nil {
			return fmt.Errorf("backup: %s is there already: name another file, or replace it with --force", o.file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return inspectStore(ctx, o.store, func(store storage.Adapter) error {
		show := newTransfer(t, o.quiet)
		var tally backup.Tally
		write := func(w io.Writer) (err error) {
			lines := &lineCounter{w: w, pace: show.pace("written")}
			if st, err := storage.StatsOf(ctx, store); err == nil {
				lines.total = st.Documents + st.Records
			}
			tally, err = backup.Write(ctx, store, lines)
			show.clear()
			return err
		}
		if o.file == "-" {
			return write(t.out)
		}
		if err := writeWhole(o.file, write); err != nil {
			return err
		}
		return show.result(o.json, "backed up", &moved{Tally: tally})
	})
}

// lineCounter shows how many lines of a backup have been written.
type lineCounter struct {
	w     io.Writer
	pace  *pace
	n     int64
	total int64
}

func (l *lineCounter) Write(b []byte) (int, error) {
	l.n += int64(bytes.Count(b, []byte("\n")))
	l.pace.at(min(l.n, l.total), l.total)
	return l.w.Write(b)
}

// writeWhole has write fill a file that becomes visible only once it is
// complete and on disk.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".strata-*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
