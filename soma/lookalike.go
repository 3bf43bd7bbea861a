package soma

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/stratamem/strata/storage"
)

// NFC and NFD forms of an id are one: ids are made in NFC, and found in either
// form. What looks alike and is not the same is told apart, and reported: ids of
// other scripts are as good as any, but one that is read as another's is not.

// canonMark begins the ids of canon.
const canonMark = "canon-"

// spellings are the forms in which the store may have an id, that which is
// written today first.
func spellings(id string) []string {
	if isASCII(id) {
		return []string{id}
	}
	list := []string{norm.NFC.String(id)}
	for _, form := range []string{norm.NFD.String(id), id} {
		if !slices.Contains(list, form) {
			list = append(list, form)
		}
	}
	return list
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// LookAlike is an entity whose id may be taken for another.
type LookAlike struct {
	Key    string `json:"key"`
	Reason string `json:"reason"` // with code points, for what cannot be seen
}

// LookAlikes lists the entities whose ids have what [Doubtful] reports, or look as the
// id of another does, by key. It reads the keys of all documents and nothing else.
func (s *Store) LookAlikes(ctx context.Context) ([]LookAlike, error) {
	var list []LookAlike
	first := make(map[string]string) // by skeleton
	for key, err := range s.db.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("look for look-alikes: %w", err)
		}
		if !storage.IsDocument(key) {
			continue
		}
		id, _, err := idOf(key)
		if err != nil {
			continue // Check lists it
		}
		if reason := Doubtful(id); reason != "" {
			list = append(list, LookAlike{key, reason})
		}
		look := skeleton(strings.TrimPrefix(id, canonMark)) // what a proposal will be called
		other, ok := first[look]
		if !ok {
			first[look] = key
			continue
		}
		was, _, _ := idOf(other)
		a, b := strings.TrimPrefix(was, canonMark), strings.TrimPrefix(id, canonMark)
		switch {
		case a == b: // a proposal and its canon, or an id in two types
		case norm.NFC.String(a) == norm.NFC.String(b):
			list = append(list, LookAlike{key, "its id is that of " + other + " in other code points: " + foreign(a, b)})
		default:
			list = append(list, LookAlike{key, "its id looks like that of " + other + ": " + foreign(a, b)})
		}
	}
	slices.SortFunc(list, func(a, b LookAlike) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// foreign names the letters in which two look-alikes differ.
func foreign(a, b string) string {
	var differ []string
	x, y := []rune(a), []rune(b)
	for i := 0; i < len(x) && i < len(y) && len(differ) < 3; i++ {
		if x[i] != y[i] {
			differ = append(differ, fmt.Sprintf("U+%04X for U+%04X", y[i], x[i]))
		}
	}
	return strings.Join(differ, ", ")
}

// scripts are those with letters that look like another's of them.
var scripts = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"Latin", unicode.Latin}, {"Cyrillic", unicode.Cyrillic}, {"Greek", unicode.Greek}, {"Armenian", unicode.Armenian}, {"Cherokee", unicode.Cherokee},
}

// Doubtful returns why a name may be read as another one, "" if nothing is seen: a word
// has letters of two of the scripts Latin, Cyrillic, Greek, Armenian and Cherokee, or
// the name has a character that does not show. Words of different scripts beside each
// other are no doubt, and neither is a name that is of one script and looks like
// one of another; [Store.LookAlikes] sees that where both are there. Neither sees
// l for 1, O for 0, or rn for m.
func Doubtful(name string) string {
	word, at := "", rune(0)
	for _, r := range name {
		switch {
		case r == 0xAD, r == 0x200B, r >= 0x200E && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x2069, r == 0xFEFF:
			return fmt.Sprintf("has the character U+%04X, which does not show", r)
		case !unicode.IsLetter(r) && !unicode.IsMark(r):
			word = ""
			continue
		}
		for _, s := range scripts {
			if !unicode.Is(s.table, r) {
				continue
			}
			if word != "" && word != s.name {
				if s.name == "Latin" { // name the one that is the stranger
					return fmt.Sprintf("has the %s letter U+%04X in a word with Latin ones", word, at)
				}
				return fmt.Sprintf("has the %s letter U+%04X in a word with %s ones", s.name, r, word)
			}
			word, at = s.name, r
		}
	}
	return ""
}

// skeleton is what a name looks like: compatible forms in one, and letters of Cyrillic,
// Greek and Armenian as the Latin ones that most fonts draw the same. It is the part
// of Unicode's confusables (UTS 39) with letters that are used to deceive; all of
// them, 6,000 pairs of which most are symbols, are not worth their size.
func skeleton(name string) string {
	if isASCII(name) {
		return name
	}
	return strings.Map(func(r rune) rune {
		if i := strings.IndexRune(strangers, r); i >= 0 {
			return rune(plainLetters[len([]rune(strangers[:i]))])
		}
		return r
	}, norm.NFKC.String(name))
}

const (
	strangers    = "аеорсухіјѕԁԛԝһӏАВЕКМНОРСТХІЈЅУοανιρυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսհոıɡɑ"
	plainLetters = "aeopcyxijsdqwhlABEKMHOPCTXIJSYoavipuxABEZHIKMNOPTYXouhniga"
)
