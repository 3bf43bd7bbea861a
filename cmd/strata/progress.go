package main

import (
	"fmt"
	"time"
)

// progress says on a terminal how far a file was read, on a line of its own that
// it takes back before anything else is printed.
type progress struct {
	s     *screen // of standard error
	size  int64   // of the file; -1 if it is not known
	shown bool
	last  time.Time
}

const progressEvery = 100 * time.Millisecond

// set shows that the file was read up to offset.
func (p *progress) set(offset int64, turns int) {
	if !p.s.moves {
		return
	}
	if now := time.Now(); !p.shown || now.Sub(p.last) >= progressEvery {
		p.last = now
		p.shown = true
		p.s.printf("\r\x1b[K%s", p.s.paint(faint, progressText(offset, p.size, turns)))
	}
}

func progressText(offset, size int64, turns int) string {
	if size <= 0 {
		return fmt.Sprintf("%s, %s", byteText(offset), plural(turns, "turn", "turns"))
	}
	return fmt.Sprintf("%3d %%  %s of %s, %s", min(offset*100/size, 100), byteText(offset), byteText(size), plural(turns, "turn", "turns"))
}

func byteText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// clear takes the line back.
func (p *progress) clear() {
	if p.shown {
		p.shown = false
		p.s.printf("\r\x1b[K")
	}
}
