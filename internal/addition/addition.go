// Package addition describes how a text grew: what was added, and where. It
// does not describe a text that lost something. Texts are arbitrary bytes.
package addition

import "bytes"

// Addition turns an old text into a new one that contains all of it, in order.
// Steps are pairs of numbers: how many bytes stay, and how many of Fresh follow
// them.
type Addition struct {
	Steps []int
	Fresh []byte
}

// anchor is how many bytes of the old text are searched for after an addition.
// A shorter stretch between two additions is not found.
const anchor = 24

// Find returns how one text grew into another. It returns false if it finds
// that something was removed or moved.
func Find(from, to []byte) (a Addition, ok bool) {
	for {
		kept := alike(from, to)
		from, to = from[kept:], to[kept:]
		if len(from) == 0 {
			a.add(kept, to)
			return a, true
		}
		if bytes.HasSuffix(to, from) { // the last addition
			added := len(to) - len(from)
			a.add(kept, to[:added])
			a.add(len(from), nil)
			return a, true
		}
		added := bytes.Index(to, from[:min(anchor, len(from))])
		if added < 0 {
			return Addition{}, false
		}
		a.add(kept, to[:added])
		to = to[added:]
	}
}

func (a *Addition) add(kept int, fresh []byte) {
	a.Steps = append(a.Steps, kept, len(fresh))
	a.Fresh = append(a.Fresh, fresh...)
}

// alike returns the length of the common prefix of two texts.
func alike(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Apply returns the new text, and false if the addition does not apply to that
// text.
func (a Addition) Apply(from []byte) (to []byte, ok bool) {
	if len(a.Steps)%2 != 0 {
		return nil, false
	}
	to = make([]byte, 0, len(from)+len(a.Fresh))
	fresh := a.Fresh
	for s := a.Steps; len(s) > 0; s = s[2:] {
		kept, added := s[0], s[1]
		if kept < 0 || added < 0 || kept > len(from) || added > len(fresh) {
			return nil, false
		}
		to = append(append(to, from[:kept]...), fresh[:added]...)
		from, fresh = from[kept:], fresh[added:]
	}
	return to, len(from)+len(fresh) == 0
}
