package layers

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/projection"
)

// The kinds of words that make a sentence worth noting, with their weights.
// Each kind counts once.
var cues = []struct {
	weight int
	words  string
}{
	{3, `decide decided decides decision agreed settled chose chosen approved rejected cancelled canceled
		postponed signed resolved fixed broke failed deadline due`},
	{2, `remember important urgent critical note forget must promised plan planned plans`},
	{2, `prefer prefers allergic favourite favorite want wanted wants need needed needs`},
	{2, `monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays friday fridays saturday saturdays
		sunday sundays january february march april june july august september october november december
		today tonight tomorrow yesterday noon midnight week month quarter year`},
	{1, `i'm i've my we we're our always never`},
	{1, `love loved hate enjoy dislike`},
	{1, `usd eur gbp chf percent dollars euros`},
	{-1, `you your you're yourself`}, // talk about the other person
}

// kinds maps each word of cues to its index there.
var kinds = func() map[string]int {
	m := make(map[string]int)
	for i, c := range cues {
		for w := range strings.FieldsSeq(c.words) {
			m[w] = i
		}
	}
	return m
}()

// The indexes of kinds that include more than words.
const (
	whenKind  = 3
	moneyKind = 6
)

const (
	worthNoting    = 4 // the least salience of a sentence that is noted
	maxSalience    = 10
	maxPerEvent    = 3 // sentences noted per event
	sentenceLength = 240
)

// observe is the default observer: the sentences of messages that score at
// least worthNoting, and that tools failed.
func observe(batch []Event) []Observation {
	var out []Observation
	for i := range batch {
		e := &batch[i]
		note := func(salience int, text string) {
			out = append(out, Observation{Time: e.Time, Text: line(e.Speaker()+": "+text, maxObservation), Salience: salience, Refs: []string{e.ID}})
		}
		if e.Kind == projection.ToolResult {
			if e.Failed {
				note(worthNoting, "failed") // what it returned is data of a tool's
			}
			continue
		}
		type scored struct {
			text  string
			score int
		}
		var best []scored
		for s := range sentences(e.Text) {
			if score := salience(s, e.Role == projection.User); score >= worthNoting {
				best = append(best, scored{s, score})
			}
		}
		for len(best) > maxPerEvent { // drop the least salient, the last among equals
			least := len(best) - 1
			for j := least; j >= 0; j-- {
				if best[j].score < best[least].score {
					least = j
				}
			}
			best = slices.Delete(best, least, least+1)
		}
		for _, s := range best {
			note(s.score, line(s.text, sentenceLength))
		}
	}
	return out
}

// salience scores a sentence, from 0 to maxSalience.
func salience(s string, user bool) int {
	if len(s) > 8*sentenceLength {
		s = s[:8*sentenceLength]
	}
	words := strings.Fields(s)
	if len(words) < 3 {
		return 0
	}
	score := min(names(words), 2)
	found := make([]bool, len(cues))
	found[moneyKind] = strings.ContainsFunc(s, isMoney)
	for _, w := range words {
		w = strings.ToLower(strings.TrimFunc(w, unicode.IsPunct))
		if kind, ok := kinds[strings.ReplaceAll(w, "’", "'")]; ok {
			found[kind] = true
		}
	}
	if strings.ContainsAny(s, "0123456789") {
		score++
		found[whenKind] = found[whenKind] || tellsWhen(s)
	}
	for i, c := range cues {
		if found[i] {
			score += c.weight
		}
	}
	if user {
		score++
	}
	switch s[len(s)-1] {
	case '?':
		score -= 3
	case '!':
		score--
	}
	return min(max(score, 0), maxSalience)
}

func isMoney(r rune) bool { return r == '$' || r == '%' || r == '€' || r == '£' || r == '¥' }

// names counts capitalised words that neither begin the sentence nor address
// someone at its end.
func names(words []string) int {
	n := 0
	for i, word := range words {
		r, size := utf8.DecodeRuneInString(word)
		if i == 0 || !unicode.IsUpper(r) || len(word) == size || strings.HasPrefix(word, "I'") {
			continue
		}
		if i < len(words)-1 || !strings.HasSuffix(words[i-1], ",") {
			n++
		}
	}
	return n
}

// condense is the default condenser: of notes that say the same the newest
// stays, then the least salient are dropped, oldest first, until count is
// within target.
func condense(notes []Observation, target int, count func([]Observation) int) []Observation {
	var kept []Observation
	var sets []map[string]bool
	for _, n := range notes {
		set := wordSet(n.Text)
		same := slices.IndexFunc(sets, func(other map[string]bool) bool { return alike(set, other) })
		if same < 0 {
			kept, sets = append(kept, n), append(sets, set)
			continue
		}
		n.Salience = max(n.Salience, kept[same].Salience)
		n.Refs = union(kept[same].Refs, n.Refs)
		n.Tools = n.Tools || kept[same].Tools
		kept = append(slices.Delete(kept, same, same+1), n)
		sets = append(slices.Delete(sets, same, same+1), set)
	}
	if count(kept) <= target {
		return kept
	}
	lo, hi := 1, len(kept) // bounds of the least number to drop
	for lo < hi {
		if mid := (lo + hi) / 2; count(mostSalient(kept, len(kept)-mid)) <= target {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return mostSalient(kept, len(kept)-lo)
}

// wordSet returns the words of a text, including numbers.
func wordSet(text string) map[string]bool {
	set := make(map[string]bool)
	for w := range words(text) {
		set[w] = true
	}
	return set
}

// alike reports whether two texts have four of five words in common and the
// same numbers.
func alike(a, b map[string]bool) bool {
	common := 0
	for w := range a {
		if b[w] {
			common++
		} else if isDigit(w[0]) {
			return false
		}
	}
	for w := range b {
		if isDigit(w[0]) && !a[w] {
			return false
		}
	}
	return common > 0 && 5*common >= 4*(len(a)+len(b)-common)
}

// union returns the elements of both, at most the 20 newest.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all[max(len(all)-20, 0):]
}
