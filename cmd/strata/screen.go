package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen is where a verb prints: a terminal, or something else, for which the
// text is plain and always the same.
type screen struct {
	w     io.Writer
	file  *os.File // of a terminal; nil otherwise
	moves bool     // whether the cursor can be moved
	color bool
	err   error // of the first write that failed
}

// plainWidth is the width of anything but a terminal.
const plainWidth = 100

func newScreen(w io.Writer, env func(string) string) *screen {
	s := &screen{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.file = f
		s.moves = env("TERM") != "dumb"
		s.color = s.moves && env("NO_COLOR") == ""
	}
	return s
}

// live reports whether somebody watches.
func (s *screen) live() bool { return s.file != nil }

// width returns the columns to fill.
func (s *screen) width() int {
	if s.file != nil {
		if w, _, err := term.GetSize(int(s.file.Fd())); err == nil && w > 0 {
			return max(w, 40)
		}
	}
	return plainWidth
}

// printf prints trusted text: any other goes through printable or preview.
func (s *screen) printf(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format, args...)
	}
}

// A color is the parameter of an SGR sequence; the terminal's own sixteen
// colors suit its background.
type color string

const (
	plain   color = ""
	bold    color = "1"
	faint   color = "90"
	red     color = "31"
	green   color = "32"
	yellow  color = "33"
	blue    color = "34"
	magenta color = "35"
	cyan    color = "36"
	white   color = "37"
)

// paint returns text in a color, if this screen has colors.
func (s *screen) paint(c color, text string) string {
	if !s.color || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// rule prints a heading that fills the width, with something at its end.
func (s *screen) rule(title, end string) {
	dash, width := "─", s.width()
	if !s.live() {
		dash = "-"
	}
	fill := width - columns(title) - columns(end) - 5
	if end == "" {
		fill++
	} else {
		end = " " + s.paint(faint, end)
	}
	s.printf("%s %s %s%s\n", s.paint(faint, dash+dash), s.paint(bold, title), s.paint(faint, strings.Repeat(dash, max(fill, 2))), end)
}
