package main

import (
	"fmt"
	"strings"
	"time"
)

// progress shows progress on a terminal, on a line of its own that is removed
// before anything else is printed.
type progress struct {
	s     *screen // of standard error
	shown bool
	last  time.Time
}

const (
	progressEvery = 100 * time.Millisecond
	progressCells = 24
)

// set shows that part of a whole is done, with a text. A whole of 0 or less is
// unknown.
func (p *progress) set(part, whole int64, text func() string) {
	if !p.s.moves {
		return
	}
	if now := time.Now(); !p.shown || now.Sub(p.last) >= progressEvery {
		p.last = now
		p.shown = true
		line := truncate(gauge(part, whole)+text(), p.s.width()-1)
		p.s.printf("\r\x1b[K%s", p.s.paint(faint, line))
	}
}

// gauge draws a part of a whole: a bar and the percentage, or nothing if the
// whole is unknown.
func gauge(part, whole int64) string {
	if whole <= 0 {
		return ""
	}
	part = min(part, whole)
	full := int(progressCells * part / whole)
	return fmt.Sprintf("%s%s %3d %%  ", strings.Repeat("█", full), strings.Repeat("░", progressCells-full), part*100/whole)
}

// clear removes the line.
func (p *progress) clear() {
	if p.shown {
		p.shown = false
		p.s.printf("\r\x1b[K")
	}
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

// pace shows how many keys are done, how fast, and how long the rest will take.
// Its clock starts with its first call.
type pace struct {
	p     *progress
	verb  string
	start time.Time
	from  int64 // where it began
}

// at shows how many keys out of a whole are done; a whole of 0 is unknown.
func (c *pace) at(part, whole int64) {
	if c.start.IsZero() {
		c.start, c.from = time.Now(), part
	}
	c.p.set(part, whole, func() string { return paceText(c.verb, part, whole, part-c.from, time.Since(c.start)) })
}

func paceText(verb string, part, whole, done int64, took time.Duration) string {
	text := verb + " " + thousands(part)
	if whole > 0 {
		text += " of " + thousands(whole)
	}
	text += " keys"
	rate := float64(done) / took.Seconds()
	if took < time.Second || rate < 1 {
		return text
	}
	text += fmt.Sprintf(", %s/s", thousands(int64(rate)))
	if whole > part {
		left := time.Duration(float64(whole-part) / rate * float64(time.Second))
		text += ", " + left.Round(time.Second).String() + " left"
	}
	return text
}
