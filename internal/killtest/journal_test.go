package killtest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// A line of the journal is a mark, a verb, and words:
//
//	> commit q3a1q       what is about to be done
//	< commit q3a1q       it was acknowledged
//	! promote idea-1-2   it was refused, so that it changed nothing
//	= ready              what is to be known besides
//
// Each is one write to a pipe, so that what a process said before it was killed
// is there whole.
type line struct {
	mark byte
	verb string
	args []string
}

const (
	begun   = '>'
	done    = '<'
	refused = '!'
	told    = '='
)

func (l line) arg(i int) string {
	if i < len(l.args) {
		return l.args[i]
	}
	return ""
}

// say writes a line of the journal of this process.
func say(mark byte, verb string, args ...any) {
	text := fmt.Appendf(nil, "%c %s", mark, verb)
	for _, a := range args {
		text = fmt.Append(append(text, ' '), a)
	}
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		os.Exit(4) // the parent is gone
	}
}

// journal yields the lines of a process until it ends, and copies them.
func journal(r io.Reader, copied io.Writer) func(yield func(line) bool) {
	return func(yield func(line) bool) {
		lines := bufio.NewReader(r)
		for {
			text, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(copied, text)
			words := strings.Fields(text)
			if len(words) < 2 || len(words[0]) != 1 {
				continue // of the testing package, or a panic
			}
			if !yield(line{words[0][0], words[1], words[2:]}) {
				return
			}
		}
	}
}
