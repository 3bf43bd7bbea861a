package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// InstructionsOptions are the options of [Instructions].
type InstructionsOptions struct {
	// Spec overrides: ID "instructions", slot [memory.SlotSteering], scope
	// global, budget automatic, placement anchor. Set Required for text
	// without which no prompt may be sent.
	Spec memory.Spec
	// Text comes first.
	Text string
	// Files are paths of text files that follow, in this order; relative ones
	// are taken from the working directory. Symbolic links are followed.
	Files []string
	// MaxBytes is the most that a file may have; 0 means 64 KiB.
	MaxBytes int
}

// Instructions returns the layer that tells the model what always holds: a
// static text and files such as a guide for agents.
//
// Before each turn every file is looked at (one stat) and read again when its
// time of modification or its size differs from what is known. A file that is
// missing, unreadable, no regular file, over MaxBytes or no UTF-8 text is
// reported in the layer's note, and its last good text stays: that text is part
// of the layer's state and so survives a restart. If nothing at all can be said
// although files are named, recall fails.
//
// Its state is {"files": {path: {"text", "modified", "size"}}}, where modified
// is in nanoseconds since 1970. A file that was read within two seconds of its time is
// "racy": it is read again next time, since another edit may have got the same time
// by the clock of a file system. Later, an edit that changes neither time nor size
// is not seen.
//
// What changes in the text is told as a diff, where that is shorter.
func Instructions(opts *InstructionsOptions) memory.Layer {
	var o InstructionsOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 10
	}
	spec := override(memory.Spec{
		ID: "instructions", Slot: memory.SlotSteering, Scope: memory.ScopeGlobal,
		Placement: projection.Anchor, Format: 1,
	}, o.Spec)
	return memory.Define(spec, memory.Hooks[instructions]{
		Recall: o.recall,
		Delta:  edited,
		Clone: func(s instructions) instructions {
			return instructions{Files: maps.Clone(s.Files)}
		},
	})
}

// instructions is the state: the last good text of each file.
type instructions struct {
	Files map[string]instructionFile `json:"files,omitempty"`
}

type instructionFile struct {
	Text     string `json:"text"`
	Modified int64  `json:"modified"`
	Size     int64  `json:"size"`
	Racy     bool   `json:"racy,omitempty"`
}

// fileTick is the longest tick of a file system's clock, that of FAT.
const fileTick = 2 * time.Second

func (o *InstructionsOptions) recall(ctx context.Context, in *memory.RecallInput[instructions]) (memory.Recalled[instructions], error) {
	var out memory.Recalled[instructions]
	if text := strings.TrimSpace(strings.ToValidUTF8(o.Text, "\uFFFD")); text != "" {
		out.Items = append(out.Items, item(text))
	}
	fresh := make(map[string]instructionFile)
	var faults []error
	for _, path := range o.Files {
		if err := ctx.Err(); err != nil {
			return memory.Recalled[instructions]{}, err
		}
		known, ok := in.State.Files[path]
		now, err := o.read(path, known, ok)
		if err != nil {
			if ok {
				err = fmt.Errorf("%w: its last good text stays", err)
			}
			faults = append(faults, err)
		} else if now != known {
			fresh[path] = now
		}
		if now.Text != "" {
			out.Items = append(out.Items, item(now.Text, path))
		}
	}
	fault := errors.Join(faults...)
	if len(out.Items) == 0 && fault != nil {
		return memory.Recalled[instructions]{}, fault
	}
	switch {
	case fault != nil:
		out.Note = fault.Error()
	case len(out.Items) == 0:
		out.Note = "no instructions were given"
	}
	if len(fresh) > 0 {
		out.Change = memory.Update(func(s instructions) instructions {
			if s.Files == nil {
				s.Files = make(map[string]instructionFile)
			}
			maps.Copy(s.Files, fresh)
			return s
		})
	}
	return out, nil
}

// read returns what path says now. With an error it returns what is known.
func (o *InstructionsOptions) read(path string, known instructionFile, ok bool) (instructionFile, error) {
	fault := func(cause error) (instructionFile, error) {
		if pe, ok := errors.AsType[*os.PathError](cause); ok {
			cause = pe.Err
		}
		return known, fmt.Errorf("read %s: %w", path, cause)
	}
	looked := time.Now()
	info, err := os.Stat(path) // before Open, which would wait for the other end of a pipe
	if err != nil {
		return fault(err)
	}
	switch {
	case info.IsDir():
		return fault(errors.New("it is a directory, not a file"))
	case !info.Mode().IsRegular():
		return fault(errors.New("it is no regular file"))
	case ok && !known.Racy && info.Size() == known.Size && info.ModTime().UnixNano() == known.Modified:
		return known, nil
	case info.Size() > int64(o.MaxBytes):
		return fault(fmt.Errorf("its %d bytes are over the limit of %d", info.Size(), o.MaxBytes))
	}
	f, err := os.Open(path)
	if err != nil {
		return fault(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(o.MaxBytes)+1))
	switch {
	case err != nil:
		return fault(err)
	case len(data) > o.MaxBytes:
		return fault(fmt.Errorf("it is over the limit of %d bytes", o.MaxBytes))
	case !utf8.Valid(data) || strings.IndexByte(string(data), 0) >= 0:
		return fault(errors.New("it is no UTF-8 text"))
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\uFEFF"))
	// The stat of before the read: if the file changes meanwhile, the next
	// turn sees another one and reads again.
	return instructionFile{
		Text: text, Modified: info.ModTime().UnixNano(), Size: info.Size(), Racy: looked.Sub(info.ModTime()) < fileTick,
	}, nil
}
