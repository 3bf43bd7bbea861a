package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
	"github.com/stratamem/strata/storage/engine"
	"github.com/stratamem/strata/storage/open"
)

const dbHelp = `store: a file, a vault's directory, or engine:where, such as bolt:agent.db`

// dbRule explains how all verbs name a store; see storeSpec.
const dbRule = `A store is named in the same way everywhere, as engine:where (bolt:FILE,
badger:DIR, vault:DIR, mem:) or by its path. A path that is a directory is a
vault, or a badger store if badger created it; any other path is a bolt file.`

// dbFlag adds the flag that names a store.
func dbFlag(cmd *cobra.Command, db *string, help string) {
	cmd.Flags().StringVar(db, "db", "", help)
}

// storeArg gives a verb on one store the flag that names it, as in all verbs.
// The argument at index at, which used to name the store, still does if the
// flag is not given. want checks the other arguments. Call storeArg after
// setting the verb's RunE.
func storeArg(cmd *cobra.Command, db *string, at int, want cobra.PositionalArgs) {
	dbFlag(cmd, db, dbHelp+" (required)")
	split := func(cmd *cobra.Command, args []string) (store string, rest []string, err error) {
		if cmd.Flags().Changed("db") {
			return *db, args, nil
		}
		if len(args) <= at {
			return "", nil, usagef("%s: wants a store: name it by --db: %s", strings.TrimPrefix(cmd.CommandPath(), "strata "), strings.TrimPrefix(dbHelp, "store: "))
		}
		return args[at], slices.Delete(slices.Clone(args), at, at+1), nil
	}
	run := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		_, rest, err := split(cmd, args)
		if err == nil {
			err = want(cmd, rest)
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if *db, args, err = split(cmd, args); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

var scheme = regexp.MustCompile(`^[a-z][a-z0-9]+:`)

// storeSpec returns the engine:where for the name of a store, by the rule in
// dbRule.
func storeSpec(text string) string {
	if scheme.MatchString(text) {
		return text
	}
	if info, err := os.Stat(text); err != nil || !info.IsDir() {
		return "bolt:" + text
	}
	if _, err := os.Stat(filepath.Join(text, "MANIFEST")); err == nil {
		return "badger:" + text
	}
	return "vault:" + text
}

// takenAs adds to an error how a path was interpreted.
func takenAs(text string, err error) error {
	if spec := storeSpec(text); err != nil && text != "" && spec != text {
		return fmt.Errorf("%s, taken as %s: %w", printable(text), printable(spec), err)
	}
	return err
}

// vaultDir returns the directory of the vault that a flag names.
func vaultDir(text string) (string, error) {
	spec := storeSpec(text)
	if dir, ok := strings.CutPrefix(spec, "vault:"); ok {
		return dir, nil
	}
	if _, err := os.Stat(text); errors.Is(err, fs.ErrNotExist) && spec != text {
		return "", fmt.Errorf("%s is not there: name a directory that is there", printable(text))
	}
	if spec != text {
		return "", fmt.Errorf("%s, taken as %s, is not a vault: name one as vault:DIR", printable(text), printable(spec))
	}
	return "", fmt.Errorf("%s is not a vault: name one as vault:DIR", printable(text))
}

// asFiles are the records that a vault keeps as files, so that git has them
// along with the documents: the decisions about canon.
var asFiles = []string{soma.GovernancePrefix}

// openStore opens the store that a flag names.
func openStore(ctx context.Context, db string) (storage.Adapter, error) {
	store, err := open.Open(ctx, storeSpec(db), &open.Options{Files: asFiles})
	return store, takenAs(db, err)
}

// openRead opens the store that a flag names, for reading. It does not create a
// store, and recovers what a killed process has left in a log.
func openRead(ctx context.Context, db string) (storage.Adapter, error) {
	opts := &open.Options{ReadOnly: true, Files: asFiles}
	store, err := open.Open(ctx, storeSpec(db), opts)
	if !errors.Is(err, badger.ErrNotClosed) {
		return store, takenAs(db, err)
	}
	if store, err = openStore(ctx, db); err != nil {
		return nil, fmt.Errorf("recover what a killed process wrote: %w", err)
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	store, err = open.Open(ctx, storeSpec(db), opts)
	return store, takenAs(db, err)
}

// inspect opens the store that a flag names and calls f to look at it. It does
// not create a store.
func inspect(ctx context.Context, verb, db string, f func(store storage.Adapter) error) error {
	if db == "" {
		return usagef("%s: --db is missing: name the %s", verb, dbHelp)
	}
	if err := inspectStore(ctx, db, f); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// inspectStore opens a store for reading and calls f. It does not create a
// store.
func inspectStore(ctx context.Context, spec string, f func(store storage.Adapter) error) (err error) {
	store, err := openRead(ctx, spec)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: name one that is there: 'strata demo --db FILE' makes one", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return f(store)
}

// storePath returns the path of a store, with links resolved as far as it
// exists; "" for one in memory.
func storePath(spec string) string {
	_, where, _ := strings.Cut(storeSpec(spec), ":")
	if where == "" {
		return ""
	}
	path, err := filepath.Abs(where)
	if err != nil {
		return filepath.Clean(where)
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// isBelow reports whether a path is below a directory.
func isBelow(dir, path string) bool {
	return strings.HasPrefix(path, dir+string(os.PathSeparator))
}

// advise adds to an error what can be done about it, unless it already says so.
func advise(err error) string {
	text := err.Error()
	add := func(advice string) { text += ": " + advice }
	var budget *projection.BudgetError
	switch {
	case errors.Is(err, storage.ErrReadOnly):
		add("make the file and its directory writable, or name another file")
	case engine.Unreadable(err):
		add("it may not be read by you: ask who owns it, or name another")
	case errors.Is(err, storage.ErrDiskFull):
		add("make room, or name a file on another disk; what was acknowledged is safe")
	case errors.Is(err, memory.ErrUnknownExecution):
		add("'strata show runs' lists those that there are")
	case errors.Is(err, memory.ErrConflict):
		add("another process is at work on the same threads: run again")
	case errors.As(err, &budget):
		add("raise --budget, or lower --reserve")
	}
	return text
}
