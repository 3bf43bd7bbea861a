package search

import (
	"cmp"
	"slices"
	"strings"
)

// Packed is the part of a search result that goes into a prompt.
type Packed struct {
	Text   string
	Tokens int      // of Text, as counted
	IDs    []string // of the documents in it, in their order there
}

// Pack formats hits, best first, as long as they fit in a budget of tokens,
// skipping those that do not. A hit that answers or asks a question comes with
// the other half of the exchange if both fit. If there is room after all hits,
// the other neighbours of the three best are added.
//
// Documents of a session are together, in order, under a line with its time;
// sessions are in the order of their best hit. The line of a document begins
// with its speaker. count returns the tokens of a text; nil counts one for four
// bytes. Text is counted line by line, which with the tokenizers in use gives
// at most one token per line more than counting the whole.
func Pack(hits []Hit, budget int, count func(text string) int) Packed {
	if count == nil {
		count = func(text string) int { return (len(text) + 3) / 4 }
	}
	p := packer{budget: budget, count: count, had: make(map[string]bool)}
	for i := range hits {
		h := &hits[i]
		if n := len(h.Before); n > 0 && isQuestion(h.Before[n-1].Text) && p.add(h.Before[n-1], h.Doc) {
			continue
		}
		if isQuestion(h.Text) && len(h.After) > 0 && p.add(h.Doc, h.After[0]) {
			continue
		}
		p.add(h.Doc)
	}
	for i := range min(len(hits), readable) {
		for _, d := range slices.Concat(hits[i].Before, hits[i].After) {
			if p.had[hits[i].ID] {
				p.add(d)
			}
		}
	}
	return p.write()
}

// readable is how many hits come with neighbours that are not part of an
// exchange: for more, readability is not worth the tokens.
const readable = 3

type packer struct {
	budget, used int
	count        func(string) int
	had          map[string]bool
	sessions     []*packedSession
}

type packedSession struct {
	name string
	docs []packedDoc
}

type packedDoc struct {
	Doc
	line string
}

// add adds documents of one session, all or none.
func (p *packer) add(docs ...Doc) bool {
	list := make([]packedDoc, 0, len(docs))
	cost := 0
	var s *packedSession
	for i := range docs {
		d := &docs[i]
		if p.had[d.ID] {
			continue
		}
		line := docLine(d)
		cost += p.count(line)
		if list = append(list, packedDoc{*d, line}); len(list) > 1 {
			continue
		}
		at := slices.IndexFunc(p.sessions, func(s *packedSession) bool { return s.name == d.Session && s.name != "" })
		if at >= 0 {
			s = p.sessions[at]
			continue
		}
		s = &packedSession{name: d.Session}
		if head := headLine(d); head != "" {
			cost += p.count(head)
		}
	}
	if p.used+cost > p.budget {
		return false
	}
	if len(list) == 0 {
		return true
	}
	if len(s.docs) == 0 {
		p.sessions = append(p.sessions, s)
	}
	p.used += cost
	for i := range list {
		p.had[list[i].ID] = true
	}
	s.docs = append(s.docs, list...)
	return true
}

func (p *packer) write() Packed {
	var b strings.Builder
	out := Packed{Tokens: p.used}
	for _, s := range p.sessions {
		b.WriteString(headLine(&s.docs[0].Doc))
		slices.SortFunc(s.docs, func(a, b packedDoc) int {
			return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
		})
		for i := range s.docs {
			b.WriteString(s.docs[i].line)
			out.IDs = append(out.IDs, s.docs[i].ID)
		}
	}
	out.Text = b.String()
	return out
}

// headLine is the line above the documents of a session.
func headLine(d *Doc) string {
	if d.Time.IsZero() {
		return ""
	}
	return d.Time.UTC().Format("[Mon 2 January 2006]\n")
}

// docLine is the line of a document: its words, one space between them.
func docLine(d *Doc) string {
	var b strings.Builder
	b.Grow(len(d.Speaker) + len(d.Text) + len(": \n"))
	if d.Speaker != "" {
		b.WriteString(d.Speaker)
		b.WriteString(": ")
	}
	first := true
	for word := range strings.FieldsSeq(d.Text) {
		if !first {
			b.WriteByte(' ')
		}
		first = false
		b.WriteString(word)
	}
	b.WriteByte('\n')
	return b.String()
}
