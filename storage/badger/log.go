package badger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// logger passes badger's log lines to slog. What badger calls information
// concerns its internals, and is debug here.
type logger struct {
	log *slog.Logger
	// unsynced is set when badger could not sync the value log, which it reports
	// only in a log line.
	unsynced atomic.Bool
}

var errUnsynced = errors.New("the value log could not be synced")

// Errorf implements badger's Logger.
func (l *logger) Errorf(format string, args ...any) {
	switch {
	case strings.HasPrefix(format, "Error while curlf sync"):
		l.unsynced.Store(true)
	case strings.HasPrefix(format, "Unable to read: Key"), strings.HasPrefix(format, "Key: "):
		return // quotes keys, and is reported as an error of the call
	}
	l.print(slog.LevelError, format, args)
}

// Warningf implements badger's Logger.
func (l *logger) Warningf(format string, args ...any) { l.print(slog.LevelWarn, format, args) }

// Infof implements badger's Logger.
func (l *logger) Infof(format string, args ...any) { l.print(slog.LevelDebug, format, args) }

// Debugf implements badger's Logger. It is called several times in each commit.
func (l *logger) Debugf(format string, args ...any) { l.print(slog.LevelDebug-4, format, args) }

func (l *logger) print(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
		l.log.Log(ctx, level, text)
	}
}
