package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

func vaultCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vault",
		Short: "Look after a vault, a store in a directory of Markdown files",
		Long: `Looks after a vault, a store in a directory of Markdown files that people edit.

All verbs but rebuild only read, take no lock, and work on read-only media. The
verbs for its content are those for a store of any engine: 'strata knowledge'.

` + dbRule,
		Example: "  strata vault check --db notes\n  strata vault log --db notes --since 24h",
	}
	addVerbs(cmd, vaultCheckCommand(t), vaultRebuildCommand(t), vaultLogCommand(t), vaultVerifyCommand(t))
	return cmd
}

// withVault opens a vault and calls f with it.
func withVault(ctx context.Context, verb, db string, opts *vault.Options, f func(s *vault.Store) error) (err error) {
	dir, err := vaultDir(db)
	if err != nil {
		return fmt.Errorf("vault %s: %w", verb, err)
	}
	opts.Files = asFiles
	s, err := vault.Open(ctx, dir, opts)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("vault %s: %w: name a directory that is there", verb, err)
	}
	if err != nil {
		return fmt.Errorf("vault %s: %w", verb, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := f(s); err != nil {
		return fmt.Errorf("vault %s: %w", verb, err)
	}
	return nil
}

func vaultCheckCommand(t *tool) *cobra.Command {
	var db string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check --db DIR",
		Short: "Find what is damaged, and files that are not documents",
		Long: `Reads every file and every record of a vault, compares the index with the files,
verifies the checksums of the log and the chain of the audit log, compares canon
with what people decided, looks for ids that look like others (letters of two
scripts in a word, invisible characters), and prints what is wrong, each with
what to do about it. Nothing is changed. The exit status is 1 if anything is
wrong.`,
		Example: "  strata vault check --db notes\n  strata vault check --db notes --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts := &vault.Options{ReadOnly: true, Logger: slog.New(slog.DiscardHandler)} // Check finds what it would log
			return withVault(cmd.Context(), "check", db, opts, func(s *vault.Store) error {
				return t.vaultCheck(cmd.Context(), s, asJSON)
			})
		},
	}
	storeArg(cmd, &db, 0, exactly(0, "no arguments"))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (t *tool) vaultCheck(ctx context.Context, s *vault.Store, asJSON bool) error {
	found := []storage.Fault{}
	for f, err := range s.Check(ctx) {
		if err != nil {
			return err
		}
		found = append(found, f)
	}
	doubts, err := findDoubts(ctx, s, found)
	if err != nil {
		return err
	}
	found = append(found, doubts...)
	for i := 0; i < len(found) && !asJSON; i++ {
		f := &found[i]
		fmt.Fprintf(t.out, "%s: %s\n    %s\n", printable(cmp.Or(f.Path, f.Key)), printable(f.Reason), printable(f.Repair))
	}
	if asJSON {
		if err := printJSON(t.out, found); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%s found", plural(len(found), "fault", "faults"))
	}
	if asJSON {
		return nil
	}
	return t.printSize(ctx, s, "sound: ")
}

// findDoubts returns withheld canon that was not found already, and ids that
// may be mistaken for others.
func findDoubts(ctx context.Context, s *vault.Store, found []storage.Fault) (list []storage.Fault, err error) {
	err = onKnowledge(ctx, s, func(knowledge *soma.Store) error {
		all, err := knowledge.Quarantined(ctx)
		for _, h := range all {
			if !slices.ContainsFunc(found, func(f storage.Fault) bool {
				return h.Doubt == soma.Unreadable && (f.Path == h.Path || f.Path == "" && f.Key == h.ID)
			}) {
				list = append(list, storage.Fault{Key: h.ID, Path: h.Path, Reason: string(h.Doubt) + ": " + h.Reason, Repair: h.Repair})
			}
		}
		if err != nil {
			return err
		}
		alike, err := knowledge.LookAlikes(ctx)
		for _, l := range alike {
			list = append(list, storage.Fault{Key: l.Key, Reason: l.Reason, Repair: "if that is not intended, create it again under another id and remove this one"})
		}
		return err
	})
	return list, err
}

func (t *tool) printSize(ctx context.Context, s *vault.Store, lead string) error {
	st, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%s%s, %s, %s\n", lead, plural(int(st.Documents), "document", "documents"),
		plural(int(st.Records), "record", "records"), byteText(st.Bytes))
	return err
}

func vaultRebuildCommand(t *tool) *cobra.Command {
	var db string
	var adopt bool
	cmd := &cobra.Command{
		Use:   "rebuild --db DIR",
		Short: "Rebuild the index from the files",
		Long: `Rebuilds _index.json from the files, after finishing what a process that died
had begun. Opening a vault does this by itself if the index is missing, damaged
or stale. Writers wait meanwhile.

With --adopt, a directory of Markdown files that is not a vault, for example one
of Obsidian's, becomes one, and new folders of a vault are taken in. All files
stay where and as they are. Notes at the root get the type note, and those in a
folder a type made from its name: Daily Notes/2026-11-20.md is
daily-notes/2026-11-20. What is left out is listed with the reason: templates,
files that are not Markdown, links, names that begin with a dot.`,
		Example: "  strata vault rebuild --db notes\n  strata vault rebuild --db ~/obsidian --adopt",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			// A missing directory is a mistake here.
			silent := slog.New(slog.DiscardHandler)
			look := &vault.Options{ReadOnly: true, Adopt: adopt, Logger: silent}
			if err := withVault(ctx, "rebuild", db, look, func(*vault.Store) error { return nil }); err != nil && !errors.Is(err, storage.ErrCorrupt) {
				return err
			}
			opts := &vault.Options{Adopt: adopt, Taken: soma.Types()}
			if adopt {
				opts.Logger = silent // what it would log about files is in the list
			}
			return withVault(ctx, "rebuild", db, opts, func(s *vault.Store) error {
				if err := s.Rebuild(ctx); err != nil {
					return err
				}
				if adopt {
					if err := t.printAdopted(ctx, s); err != nil {
						return err
					}
				}
				return t.printSize(ctx, s, "rebuilt: ")
			})
		},
	}
	storeArg(cmd, &db, 0, exactly(0, "no arguments"))
	cmd.Flags().BoolVar(&adopt, "adopt", false, "turn a directory of Markdown files into a vault, or take in new folders")
	return cmd
}

// printAdopted prints which folders are part of a vault, and what was left out.
func (t *tool) printAdopted(ctx context.Context, s *vault.Store) error {
	folders, err := s.Folders(ctx)
	if err != nil {
		return err
	}
	left, err := s.Left(ctx)
	if err != nil {
		return err
	}
	if len(folders) > 0 {
		fmt.Fprintln(t.out, "taken in, as they are:")
	}
	for _, f := range folders {
		fmt.Fprintf(t.out, "  %s: %s of type %s\n", printable(f.Path), plural(f.Notes, "note", "notes"), f.Type)
	}
	if len(left) > 0 {
		fmt.Fprintln(t.out, "left:")
	}
	for _, l := range left {
		fmt.Fprintf(t.out, "  %s (%s): %s\n", printable(l.Path), plural(l.Files, "file", "files"), printable(l.Reason))
	}
	return nil
}

// logOptions are the flags of vault log.
type logOptions struct {
	id    string
	kind  string
	since string
	limit int
	json  bool
}

func vaultLogCommand(t *tool) *cobra.Command {
	var db string
	var o logOptions
	cmd := &cobra.Command{
		Use:   "log --db DIR",
		Short: "Print who changed which document, and when",
		Long: `Prints the audit log of a vault, oldest change first: the time (UTC), what was
done, the document, the actor, and the fields that an update changed. It has the
changes made through Strata. It also says when a program replaced an edit by
hand that no program had read, and where that text is kept.`,
		Example: "  strata vault log --db notes --since 24h\n  strata vault log --db notes --type insight --id retries\n  strata vault log --db notes --limit 20 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := momentFlag("vault log: --since", o.since, time.Now())
			if err != nil {
				return err
			}
			if o.limit < 0 {
				return usagef("vault log: --limit %d is negative", o.limit)
			}
			return withVault(cmd.Context(), "log", db, &vault.Options{ReadOnly: true}, func(s *vault.Store) error {
				return t.vaultLog(cmd.Context(), s, &o, since)
			})
		},
	}
	storeArg(cmd, &db, 0, exactly(0, "no arguments"))
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "only documents of this id")
	f.StringVar(&o.kind, "type", "", "only documents of this type")
	f.StringVar(&o.since, "since", "", "only from then on: 2026-01-31, 2026-01-31T08:00:00Z, or a time ago such as 90m")
	f.IntVar(&o.limit, "limit", 0, "only the last so many (default all)")
	f.BoolVar(&o.json, "json", false, "print the lines as they are: JSON, one on each line")
	return cmd
}

func (t *tool) vaultLog(ctx context.Context, s *vault.Store, o *logOptions, since time.Time) error {
	var last []vault.Mutation // at most o.limit
	show := func(m vault.Mutation) error {
		if o.json {
			return json.NewEncoder(t.out).Encode(m)
		}
		_, err := fmt.Fprintln(t.out, mutationText(&m))
		return err
	}
	for m, err := range s.Log(ctx) {
		if err != nil {
			return err
		}
		if o.id != "" && m.ID != o.id || o.kind != "" && m.Type != o.kind || m.Time.Before(since) {
			continue
		}
		if o.limit == 0 {
			if err := show(m); err != nil {
				return err
			}
			continue
		}
		if last = append(last, m); len(last) > o.limit {
			last = last[1:]
		}
	}
	for _, m := range last {
		if err := show(m); err != nil {
			return err
		}
	}
	return nil
}

func mutationText(m *vault.Mutation) string {
	text := fmt.Sprintf("%s  %-6s  %s/%s  by %s", m.Time.UTC().Format("2006-01-02 15:04:05"), m.Op, m.Type, m.ID, m.Actor)
	if m.Worker != "" && !strings.HasPrefix(m.Actor, m.Worker+":") && !strings.HasSuffix(m.Actor, ":"+m.Worker) {
		text += ", of worker " + m.Worker
	}
	if m.Layer != "" {
		text += "  in " + m.Layer
	}
	if len(m.Fields) > 0 {
		text += "  " + strings.Join(m.Fields, ", ")
	}
	if m.Lost != "" {
		text += "  kept in " + m.Lost
	}
	return escape(text, false)
}

func vaultVerifyCommand(t *tool) *cobra.Command {
	var db, head string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify --db DIR",
		Short: "Verify the chain of the audit log",
		Long: `Verifies that each line of the audit log, over all its files, has the digest of the
line before, and prints the head of the chain.

That detects accidents and careless edits. Somebody who may write the files can
rewrite the whole chain: to detect that, keep the head elsewhere and pass it to
a later verify as --head, which fails if the log does not continue from there.`,
		Example: "  strata vault verify --db notes\n  strata vault verify --db notes --head 3b9c4f0e1d2a58776f0c9e8d7b6a5f43",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withVault(cmd.Context(), "verify", db, &vault.Options{ReadOnly: true}, func(s *vault.Store) error {
				return t.vaultVerify(cmd.Context(), s, head, asJSON)
			})
		},
	}
	storeArg(cmd, &db, 0, exactly(0, "no arguments"))
	cmd.Flags().StringVar(&head, "head", "", "the head that an earlier verify printed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (t *tool) vaultVerify(ctx context.Context, s *vault.Store, kept string, asJSON bool) error {
	lines, head, err := s.Verify(ctx)
	if err != nil {
		return err
	}
	if kept != "" && kept != head {
		found := false
		for m, err := range s.Log(ctx) {
			if err != nil {
				return err
			}
			found = found || m.Prev == kept
		}
		if !found {
			return fmt.Errorf("the audit log has no line %s: it was written anew or cut since then", printable(kept))
		}
	}
	if asJSON {
		return printJSON(t.out, map[string]any{"lines": lines, "head": head})
	}
	_, err = fmt.Fprintf(t.out, "unbroken: %s\nhead %s\n", plural(lines, "line", "lines"), head)
	return err
}
