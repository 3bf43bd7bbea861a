// Package transcript reads a recorded conversation, in a file written by some
// other program, as a stream of projection items. It recognises three shapes by
// the content of the file, never by its name:
//
//   - [Lines]: a JSON object on each line with role and content, and where they
//     apply tool_calls, tool_call_id, name, time and thread.
//   - [Messages]: a JSON array of such objects, or an object with one under
//     "messages", on one line or many. Several documents in one file are
//     several threads.
//   - [ClaudeCode]: a session file of Claude Code.
//
// System messages before a thread's first other message are its system text,
// see [Turn].System; one later in the thread stays in place.
//
// In all shapes, content is text or a list of parts in the format of OpenAI
// (text, image_url, file) or of Anthropic (text, thinking, tool_use,
// tool_result, image, document).
//
// It is not a validator: it reads whatever can be read. The one decision: a
// broken entry is an event in the stream, a [Fault] with its file and line, and
// not the end of the stream, so that one bad line does not cost the other
// 100,000. Only one entry, up to a size limit, is held in memory, never the
// file.
package transcript

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/stratamem/strata/projection"
)

// Shape is the layout of a file.
type Shape string

// The shapes.
const (
	Lines      Shape = "lines"
	Messages   Shape = "messages"
	ClaudeCode Shape = "claude-code"
)

// Options configures [Open] and [NewReader]. The zero value means the
// documented defaults.
type Options struct {
	Name       string // the file in errors; default the path, or "transcript"
	Thread     string // of entries without one; default "main"
	Strict     bool   // end the stream at the first fault
	MaxEntry   int    // bytes of one entry; longer ones are a fault; default 16 MiB
	Sidechains bool   // read sidechains (sub-agents) of Claude Code, each as a thread of its own

	// Known reports whether the caller already has an item of a thread, by its ID:
	// then the item is left out and counted. An error ends the stream.
	Known func(thread, id string) (bool, error)
}

const defaultMaxEntry = 16 << 20

// Entry is one entry of a transcript.
type Entry struct {
	Line   int               // where it begins, from 1
	Offset int64             // its end in the file, in bytes, for progress
	Thread string            // the conversation that it belongs to
	Time   time.Time         // zero if the file does not say
	Model  bool              // whether the model said it, rather than the outside
	System bool              // whether it is system text, which begins the thread
	Items  []projection.Item // at least one, each with an ID; see identify
}

// Fault is something wrong with one entry, or with the whole file.
type Fault struct {
	File     string
	Line     int // from 1; 0 if it is the whole file
	Why      string
	Repaired bool // the entry follows, as far as it could be read; otherwise it is lost
}

// Error says where and why, without quoting content.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("read transcript %s: %s", f.File, f.Why)
	}
	return fmt.Sprintf("read transcript %s:%d: %s", f.File, f.Line, f.Why)
}

// Skipped counts what is in a file but is not conversation.
type Skipped struct {
	Meta       int // bookkeeping of the program that wrote the file, and its own summaries
	Sidechains int // lines of sub-agents, see Options
	Repeated   int // lines with a uuid that occurred before
	Known      int // items that the caller has, see Options
	Left       Left
}

// Left counts, by kind, what a conversation contains but the reader does not
// use. A [Fault] gives the line of each.
type Left struct {
	Calls    int `json:"tool_calls,omitempty"`
	Results  int `json:"tool_results,omitempty"`
	Refusals int `json:"refusals,omitempty"`
	Images   int `json:"images,omitempty"`
	Parts    int `json:"parts,omitempty"` // of another type: audio, files
}

// Reader reads one transcript. It is not safe for concurrent use.
type Reader struct {
	opts    Options
	shape   Shape
	size    int64
	closer  io.Closer
	input   *input
	next    func() (record, error)
	skipped Skipped

	line   int      // of the entry being read
	place  int      // index of the entry being read among the records of the file
	faults []*Fault // of the entry being read
	calls  map[string][]call
	begun  map[string]bool   // threads in which somebody has spoken
	seen   map[digest]bool   // uuids of a session; in other files, entries with an id
	roots  map[string]string // uuid of a sidechain's line → uuid of its first line
}

// call is a tool call that has no result yet.
type call struct{ id, name string }

// record is one entry as raw JSON.
type record struct {
	raw      []byte // valid until the next record
	line     int
	document int    // which JSON document of the file it stands in, from 0
	why      string // why there is nothing to read, if there is not
}

// Open opens the transcript at path. The caller closes it. A file that is
// empty, binary, or of no known shape is a [*Fault].
func Open(path string, opts *Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open transcript: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open transcript %s: %w", path, err)
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = path
	}
	r, err := NewReader(f, &o)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.closer = f
	if info.Mode().IsRegular() {
		r.size = info.Size()
	}
	return r, nil
}

// NewReader returns a reader of the transcript in src, as [Open] does.
func NewReader(src io.Reader, opts *Options) (*Reader, error) {
	r := &Reader{size: -1, calls: map[string][]call{}, begun: map[string]bool{}, seen: map[digest]bool{}, roots: map[string]string{}}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Name == "" {
		r.opts.Name = "transcript"
	}
	if r.opts.Thread == "" {
		r.opts.Thread = "main"
	}
	if r.opts.MaxEntry <= 0 {
		r.opts.MaxEntry = defaultMaxEntry
	}
	buffered := bufio.NewReaderSize(src, window)
	head, err := buffered.Peek(window)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read transcript %s: %w", r.opts.Name, err)
	}
	shape, bom, why := recognise(head)
	if why != "" {
		return nil, &Fault{File: r.opts.Name, Why: why}
	}
	if bom > 0 {
		buffered.Discard(bom) // cannot fail: it is buffered
	}
	r.shape = shape
	r.input = &input{r: buffered, max: r.opts.MaxEntry, line: 1, offset: int64(bom)}
	if shape == Messages {
		r.next = (&documents{in: r.input}).next
	} else {
		r.next = r.input.nextLine
	}
	return r, nil
}

// Shape returns the shape of the file.
func (r *Reader) Shape() Shape { return r.shape }

// Size returns the size of the file in bytes, or -1 if unknown, as for a pipe.
func (r *Reader) Size() int64 { return r.size }

// Skipped returns what was skipped so far.
func (r *Reader) Skipped() Skipped { return r.skipped }

// Close closes the file.
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// Entries returns the remaining entries, in the order of the file. A [*Fault]
// does not end the sequence, unless Options.Strict is set; any other error
// does. Breaking out of the loop loses nothing that was not yielded, except
// from the same entry.
func (r *Reader) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			rec, err := r.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("read transcript %s: %w", r.opts.Name, err))
				return
			}
			e := r.decode(rec)
			for _, f := range r.faults {
				if !yield(Entry{}, f) || r.opts.Strict {
					return
				}
			}
			if err := r.leaveKnown(&e); err != nil {
				yield(Entry{}, err)
				return
			}
			if len(e.Items) > 0 && !yield(e, nil) {
				return
			}
		}
	}
}

// leaveKnown leaves out the items that the caller has. System text is not part
// of a log, so it is never known.
func (r *Reader) leaveKnown(e *Entry) error {
	if r.opts.Known == nil || e.System {
		return nil
	}
	var failed error
	e.Items = slices.DeleteFunc(e.Items, func(it projection.Item) bool {
		known, err := r.opts.Known(e.Thread, it.ID)
		failed = errors.Join(failed, err)
		if known {
			r.skipped.Known++
		}
		return known
	})
	return failed
}

// fault reports something wrong with the entry being read.
func (r *Reader) fault(format string, args ...any) {
	r.faults = append(r.faults, &Fault{File: r.opts.Name, Line: r.line, Why: fmt.Sprintf(format, args...)})
}
