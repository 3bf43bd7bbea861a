package search

import (
	"slices"
	"strings"
)

// question is what a query asks for.
type question struct {
	terms    []string // without duplicates, at most 32
	joined   []string // further terms, which are not asked for but help
	lists    []list   // of the terms, then of joined
	speakers []uint32 // named speakers, by the number of their name
	dates    []dateWord
	when     bool // whether it asks for a time
	similar  map[uint32]similar
	scale    float64 // of the parts of similar documents
}

// similar is a document that an index of vectors has found.
type similar struct {
	cosine float64
	part   float64 // from 0, for the lowest cosine, to 1
}

const maxTerms = 32

// ask parses a query. The words of a speaker's name are not terms, unless
// nothing else is left; those of a date count if a text contains them, but not
// against a text that does not.
func (ix *Index) ask(l *reading, text string) question {
	var q question
	list := slices.Collect(words(text))
	q.when = asksWhen(list)
	done := make([]bool, len(list)) // words that are not terms
	if ix.ranking.Date > 0 {
		q.dates = dateWords(list, done)
	}
	dated := slices.Clone(done)
	if ix.ranking.Speaker > 0 {
		q.speakers = ix.picture.speakersIn(list, ix.analysis, done)
	}
	if q.terms = ix.terms(list, done, true); len(q.terms)+len(q.dates) == 0 {
		if q.terms = ix.terms(list, done, false); len(q.terms) == 0 && len(q.speakers) > 0 {
			q.terms, q.speakers = ix.terms(list, make([]bool, len(list)), false), nil
		}
	}
	for _, t := range q.terms {
		q.lists = append(q.lists, ix.picture.list(l, t))
	}
	ix.compounds(l, list, &q)
	for i, w := range list {
		if t := ix.analysis.term(w.text); dated[i] && !slices.Contains(q.terms, t) && !slices.Contains(q.joined, t) {
			q.joined = append(q.joined, t)
			q.lists = append(q.lists, ix.picture.list(l, t))
		}
	}
	return q
}

// terms returns the terms of a query without the words in done, and without
// question words if asked.
func (ix *Index) terms(list []word, done []bool, lean bool) []string {
	var terms []string
	for i, w := range list {
		if done[i] || ix.analysis.stop(w.text) || lean && ix.analysis.ask(w.text) {
			continue
		}
		if t := ix.analysis.term(w.text); !slices.Contains(terms, t) {
			if terms = append(terms, t); len(terms) == maxTerms {
				break
			}
		}
	}
	return terms
}

// compounds adds to a question the terms in the index that join two adjacent
// words of it: "road trip" finds "roadtrip".
func (ix *Index) compounds(l *reading, list []word, q *question) {
	for i := 0; i < len(list)-1 && len(q.joined) < maxTerms; i++ {
		t := ix.analysis.rareTerm(list[i].text + list[i+1].text)
		if slices.Contains(q.terms, t) || slices.Contains(q.joined, t) {
			continue
		}
		if found := ix.picture.list(l, t); found.n > 0 {
			q.joined = append(q.joined, t)
			q.lists = append(q.lists, found)
		}
	}
}

// speakersIn returns the speakers whom a query names by first or full name, and
// marks the words of names.
func (p *picture) speakersIn(list []word, a *analysis, named []bool) []uint32 {
	var speakers []uint32
	capitals := slices.ContainsFunc(list, func(w word) bool { return w.capital })
	for n, first := range p.speakers {
		for i, w := range list {
			// "Will she" is not a name, and neither is "will" in a query with capitals.
			if w.text != first[0] || capitals && !w.capital || a.stop(w.text) && (i == 0 || !w.capital) {
				continue
			}
			named[i] = true
			for j := 1; j < len(first) && i+j < len(list) && list[i+j].text == first[j]; j++ {
				named[i+j] = true
			}
			if !slices.Contains(speakers, n) {
				speakers = append(speakers, n)
			}
		}
	}
	return speakers
}

// nameWords returns the words of a speaker's name.
func nameWords(name string) []string {
	var list []string
	for w := range words(strings.TrimSpace(name)) {
		list = append(list, w.text)
	}
	return list
}
