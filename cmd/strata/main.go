// Command strata shows, runs and explains layered memory for agents.
//
//	strata demo               a conversation with memory, at work: no key, no network
//	strata run FILE           the same over a transcript of your own
//	strata show               what a store holds
//	strata explain RUN TURN   why each item was in a prompt
//	strata copy SRC DST       copies a store to another engine, verified
//	strata backup, restore    a store in one file, and back
//	strata knowledge VERB     knowledge in four layers
//	strata vault VERB         looks after a directory of Markdown
//	strata review             proposals, promoted to canon or rejected by a person
//	strata why ID             what an entity rests on, down to who wrote it
//	strata policy check TOOL  whether a call would be allowed
//	strata decay, forget      knowledge that is due archived; knowledge deleted for good
//	strata bench turn         what a turn costs on this machine
//
// It is thin: it prints what packages memory and projection report. The one
// decision: it has no behaviour that the library lacks, except for reading
// transcripts and drawing.
//
// Verbs are cobra commands. Cobra is the most widely used command library, so
// its flags and help are what people expect; it generates completions for four
// shells, suggests corrections, and is maintained. It costs one further
// dependency.
//
// Results go to standard output, everything else to standard error. The exit
// status is 0 if all went well, 1 if not, 2 if the command line is wrong, and
// 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

var errInterrupted = errors.New("interrupted")

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends with the process
		<-signals
		cancel(errInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	slog.SetDefault(newLogger(os.Stderr))
	os.Exit(execute(ctx, &tool{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}, os.Args[1:]))
}

// newLogger returns a logger for what is worth knowing but not an error. It
// logs each message once: a verb may open a store more than once.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(&onceWriter{w: &printableWriter{w}, said: make(map[string]bool)}, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // somebody is watching the tool
			}
			return a
		},
	}))
}

// tool is one invocation with its environment.
type tool struct {
	in       io.Reader
	out, err io.Writer
	env      func(name string) string
}

// execute runs a command line and returns the exit status.
func execute(ctx context.Context, t *tool, args []string) int {
	root := rootCommand(t)
	root.SetArgs(args)
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(context.Cause(ctx), errInterrupted) && (errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted)) {
		fmt.Fprintln(t.err, "strata: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(t.err, "strata:", printable(advise(err)))
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(t.err, "See '%s --help'.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

// usageError says that the command line is wrong.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func rootCommand(t *tool) *cobra.Command {
	root := &cobra.Command{
		Use:   "strata",
		Short: "Layered memory for Go agents",
		Long: `Layered memory for Go agents: what a model sees before each call, and what is
remembered after it.

Begin with 'strata demo': it needs no key, no network and no set-up.

Exit status: 0 success, 1 failure, 2 wrong command line, 130 interrupted.`,
		Example:       "  strata demo\n  strata run chat.jsonl --db agent.db\n  strata explain last 12 --db agent.db",
		Version:       buildVersion().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := fmt.Sprintf("unknown verb %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				text += fmt.Sprintf(": did you mean %q?", near[0])
			}
			return usagef("%s", text)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(demoCommand(t), runCommand(t), showCommand(t), explainCommand(t), recallCommand(t), indexCommand(t),
		docsCommand(t), copyCommand(t), backupCommand(t), restoreCommand(t), knowledgeCommand(t), vaultCommand(t), reviewCommand(t), whyCommand(t), policyCommand(t),
		decayCommand(t), migrateCommand(t), forgetCommand(t), benchCommand(t), versionCommand(t))
	complete(root)
	return root
}

// exactly requires n arguments, and names them in its error.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return usagef("%s: wants %s", cmd.Name(), what)
		case len(args) > n:
			return usagef("%s: too many arguments: wants %s", cmd.Name(), what)
		}
		return nil
	}
}
