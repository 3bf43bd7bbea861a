package layers

import "strings"

// maxAligned bounds line-by-line comparison: the product of the numbers of
// differing lines before and after. Beyond it, they count as one stretch.
const maxAligned = 1 << 18

// edited describes the step from one text to another as a diff: removed lines
// with "- " and new lines with "+ ", each stretch after the line that it
// follows. It returns false if that is not shorter than the text.
func edited(before, after string) (string, bool) {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	from := 0
	for from < len(old) && from < len(now) && old[from] == now[from] {
		from++
	}
	tail := 0
	for tail < len(old)-from && tail < len(now)-from && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	d := diff{before: old, old: from, now: from, told: -1}
	common := aligned(old[from:len(old)-tail], now[from:len(now)-tail])
	for _, c := range append(common, [2]int{len(old) - tail - from, len(now) - tail - from}) {
		d.stretch(old[d.old:from+c[0]], now[d.now:from+c[1]])
		d.old, d.now = from+c[0]+1, from+c[1]+1
	}
	text := "Lines of this have changed: those with - are gone, those with + hold now.\n" + d.String()
	return strings.TrimSuffix(text, "\n"), d.Len() > 0 && len(text) < len(after)
}

// diff is the text of a diff and the lines processed so far.
type diff struct {
	strings.Builder
	before   []string
	old, now int
	told     int // last line of before that was written, -1 if none
}

// stretch writes the lines between two that remain.
func (d *diff) stretch(gone, added []string) {
	if len(gone)+len(added) == 0 {
		return
	}
	at := d.old - 1
	for at > d.told && strings.TrimSpace(d.before[at]) == "" {
		at--
	}
	switch {
	case at > d.told:
		d.line("  ", d.before[at])
	case at < 0:
		d.line("  ", "(at the beginning)")
	}
	d.told = d.old + len(gone) - 1
	for _, l := range gone {
		d.line("- ", l)
	}
	for _, l := range added {
		d.line("+ ", l)
	}
}

func (d *diff) line(mark, text string) {
	d.WriteString(mark)
	d.WriteString(text)
	d.WriteByte('\n')
}

// aligned returns the indexes of the lines that remain, as pairs: a longest
// common subsequence.
func aligned(old, now []string) [][2]int {
	if len(old)*len(now) > maxAligned {
		return nil
	}
	width := len(now) + 1
	best := make([]int32, (len(old)+1)*width) // of old[i:] and now[j:]
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(now) - 1; j >= 0; j-- {
			n := max(best[(i+1)*width+j], best[i*width+j+1])
			if old[i] == now[j] {
				n = max(n, best[(i+1)*width+j+1]+1)
			}
			best[i*width+j] = n
		}
	}
	var pairs [][2]int
	for i, j := 0, 0; i < len(old) && j < len(now); {
		switch {
		case old[i] == now[j]:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case best[(i+1)*width+j] >= best[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}
