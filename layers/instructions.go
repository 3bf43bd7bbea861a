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

// InstructionsOptions configures [Instructions].
type InstructionsOptions struct {
	// Spec overrides: ID "instructions", slot [memory.SlotSteering], scope global,
	// budget automatic, placement anchor, authority instruction. Set Required if no
	// prompt may be sent without the text.
	Spec memory.Spec
	// Text comes first.
	Text string
	// Files are paths of text files that follow Text, in this order; relative ones
	// are resolved against the working directory. Symbolic links are followed.
	Files []string
	// MaxBytes is the maximum size of a file; 0 means 64 KiB.
	MaxBytes int
}

// Instructions returns the layer that tells the model what always holds: a
// static text, and files such as a guide for agents.
//
// Before each turn it checks every file (one stat), and reads it again if its
// modification time or size has changed. A file that is missing, unreadable,
// not regular, over MaxBytes or not UTF-8 text is reported in the layer's note,
// and its last good text stays: that text is part of the layer's state, so it
// survives a restart. If files are named but there is no text at all, recall
// fails.
//
// The state is {"files": {path: {"text", "modified", "size"}}}, where modified
// is in nanoseconds since 1970. A file read within two seconds of its
// modification time is "racy": it is read again next time, because another edit
// may have got the same timestamp. Later, an edit that changes neither time nor
// size goes unnoticed.
//
// A change of the text is shown as a diff if that is shorter.
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
		Placement: projection.Anchor, Authority: projection.Instruction, Format: 1,
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

// fileTick is the coarsest resolution of a file timestamp, that of FAT.
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

// read returns the present content of path, or what is known along with an
// error.
func (o *InstructionsOptions) read(path string, known instructionFile, ok bool) (instructionFile, error) {
	fault := func(cause error) (instructionFile, error) {
		if pe, ok := errors.AsType[*os.PathError](cause); ok {
			cause = pe.Err
		}
		return known, fmt.Errorf("read %s: %w", path, cause)
	}
	looked := time.Now()
	info, err := os.Stat(path) // before Open, which would block on a pipe
	if err != nil {
		return fault(err)
	}
	switch {
	case info.IsDir():
		return fault(errors.New("it is a directory, not a file"))
	case !info.Mode().IsRegular():
		return fault(errors.New("it is not a regular file"))
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
		return fault(errors.New("it is not UTF-8 text"))
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\uFEFF"))
	// The stat from before the read: if the file changes meanwhile, the next turn
	// sees a difference and reads again.
	return instructionFile{
		Text: text, Modified: info.ModTime().UnixNano(), Size: info.Size(), Racy: looked.Sub(info.ModTime()) < fileTick,
	}, nil
}
