package layers

import (
	"fmt"
	"maps"
)

// TellsWhen is tellsWhen.
var TellsWhen = tellsWhen

// Edited is edited.
var Edited = edited

// NameFanIn is nameFanIn.
var NameFanIn = &nameFanIn

// RollNames returns the mentions that a stored segment of names has, and the same of
// the segment that is made of them.
func RollNames(stored []byte) (names, again map[string][]string, err error) {
	part, err := loadRoll("key", stored)
	if err != nil {
		return nil, nil, err
	}
	spots := make(map[string][]spot)
	list := func(part *roll) map[string][]string {
		names := make(map[string][]string)
		for at, name := range part.all() {
			l := part.mentions(at)
			for more := true; more; more = l.on() {
				s := l.spot()
				names[name] = append(names[name], fmt.Sprint(s.item, " ", s.record(), " ", s.line))
				spots[name] = append(spots[name], s)
			}
			if part.name(at) != name {
				names["another name at the place of "+name] = nil
			}
		}
		return names
	}
	names = list(part)
	if part, err = loadRoll("key", rollOf(maps.Clone(spots))); err != nil {
		return names, nil, err
	}
	return names, list(part), nil
}

// HasUnwanted is hasUnwanted, and Unwanted unwanted.
var HasUnwanted, Unwanted = hasUnwanted, unwanted

// LivesIn is livesIn.
var LivesIn = livesIn
