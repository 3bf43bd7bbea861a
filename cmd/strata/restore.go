package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage/backup"
)

// restoreOptions are the flags of restore.
type restoreOptions struct {
	file, store string
	merge       bool
	json        bool
	quiet       bool
}

func restoreCommand(t *tool) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore FILE --db STORE",
		Short: "Fill a store from a backup",
		Long: `Fills a store, of any engine, from a file that 'strata backup' wrote. The file
is verified first: a damaged or truncated one changes nothing.

` + storesHelp + ` A file
of - is the standard input. The store must be new or empty, unless --merge. A vault
that is made is for its owner alone, unless everyone may read the file.`,
		Example: "  strata restore agent.backup --db badger:agent\n  gunzip < notes.backup.gz | strata restore - --db vault:notes",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return restoreStore(cmd.Context(), t, &o)
		},
	}
	storeArg(cmd, &o.store, 1, exactly(1, "a file and a store"))
	cmd.Flags().BoolVar(&o.merge, "merge", false, "restore into a store that is not empty: keys of the backup are replaced, others stay")
	transferFlags(cmd, &o.json, &o.quiet)
	return cmd
}

func restoreStore(ctx context.Context, t *tool, o *restoreOptions) (err error) {
	if storePath(o.store) == "" {
		return usagef("restore: a mem: store forgets: name a store that lasts")
	}
	in, size := t.in, int64(0)
	if o.file != "-" {
		f, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.IsDir() {
			return fmt.Errorf("restore: %s is a directory: name a file that 'strata backup' wrote", o.file)
		}
		in, size = f, info.Size()
	}
	show := newTransfer(t, o.quiet)
	if s, ok := in.(io.ReadSeeker); ok && size > 0 {
		in = &readMeter{ReadSeeker: s, size: size, show: show}
	}
	if err := t.keepOut(o.store, o.file); err != nil {
		return err
	}
	store, err := openStore(ctx, o.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	opts := &backup.RestoreOptions{Merge: o.merge}
	if size == 0 {
		keys := show.pace("restored")
		opts.Progress = func(done backup.Tally) { keys.at(done.Documents+done.Records, 0) }
	}
	tally, err := backup.Restore(ctx, store, in, opts)
	show.clear()
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(t.err, "strata: what is restored stays: 'strata restore --merge %s --db %s' does the rest\n", shellQuote(o.file), shellQuote(o.store))
		}
		return err
	}
	return show.result(o.json, "restored", &moved{Tally: tally})
}

// readMeter shows how much of a backup has been read: first to verify it, and,
// once it is read again from the beginning, to restore it.
type readMeter struct {
	io.ReadSeeker
	size, at int64
	begun    bool
	passes   int
	show     *transfer
}

func (r *readMeter) Read(b []byte) (int, error) {
	if !r.begun {
		r.begun = true
		r.passes++
	}
	n, err := r.ReadSeeker.Read(b)
	r.at += int64(n)
	verb := "verifying"
	if r.passes > 1 {
		verb = "restoring"
	}
	r.show.line.set(r.at, r.size, func() string { return verb + ", " + byteText(r.at) + " of " + byteText(r.size) })
	return n, err
}

func (r *readMeter) Seek(offset int64, whence int) (int64, error) {
	at, err := r.ReadSeeker.Seek(offset, whence)
	r.at, r.begun = at, false
	return at, err
}
