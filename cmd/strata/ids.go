package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage"
)

// findRun returns the execution that text names: by its id, by a unique
// beginning of the id, or as "last" or "last:<thread>", which is the one that
// began last, of all or of a thread, and is not a child. If that one lacks the
// given turn but others have it, "last" is the last of those; turn 0 stands for
// any.
func findRun(ctx context.Context, store storage.Adapter, text string, turn int) (*thread.Run, error) {
	var found, last, having *thread.Run
	several := 0
	of, ofThread := strings.CutPrefix(text, "last:")
	for run, err := range thread.Runs(ctx, store) {
		if err != nil {
			return nil, err
		}
		if run.Depth == 0 && (!ofThread || run.Identity.Thread == of) {
			last = run
			if run.FirstTurn <= turn && turn <= run.LastTurn {
				having = run
			}
		}
		if run.ID == text {
			return run, nil
		}
		if strings.HasPrefix(run.ID, text) {
			found = run
			several++
		}
	}
	switch {
	case last == nil && ofThread:
		return nil, fmt.Errorf("find run: thread %q has none", of)
	case last == nil:
		return nil, fmt.Errorf("find run: the store has none")
	case text == "last" && having != nil:
		return having, nil
	case text == "last", ofThread:
		return last, nil
	case several > 1:
		return nil, fmt.Errorf("find run %q: %d ids begin so: write more of it", text, several)
	case found == nil:
		return nil, fmt.Errorf("find run %q: %w", text, memory.ErrUnknownExecution)
	}
	return found, nil
}

// shortID returns the beginning of an id, at least eight characters, that is
// unique.
func shortID(ctx context.Context, store storage.Adapter, id string) (string, error) {
	n := 8
	for run, err := range thread.Runs(ctx, store) {
		if err != nil {
			return "", err
		}
		if run.ID == id {
			continue
		}
		same := 0
		for same < min(len(id), len(run.ID)) && id[same] == run.ID[same] {
			same++
		}
		n = max(n, same+1)
	}
	return id[:min(n, len(id))], nil
}
