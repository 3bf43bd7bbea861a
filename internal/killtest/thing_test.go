package killtest_test

import (
	"slices"
	"strconv"
	"strings"
)

// phase is where an entity is. Decisions lead to a phase of a higher rank alone:
// what was acknowledged is there as long as nothing later was tried.
type phase string

const (
	absent    phase = "absent"
	present   phase = "present" // a proposal waits, an event is in the archive, work is in the working layer
	promoted  phase = "promoted"
	rejected  phase = "rejected"
	archived  phase = "archived" // decayed
	retired   phase = "retired"  // promoted, and no longer in force
	gone      phase = "gone"     // removed or forgotten
	confusing phase = "confusing"
	ratified  phase = "ratified" // after an edit by hand: promoted again
)

var ranks = map[phase]int{absent: 0, present: 1, promoted: 2, rejected: 2, archived: 2, retired: 3, gone: 4, confusing: -1, ratified: 0}

// results says which phase a change leads to.
var results = map[string]phase{
	"create": present, "promote": promoted, "reject": rejected, "retire": retired, "remove": gone, "forget": gone, "decay": archived,
	"supersede": promoted, "superseded": retired, "ratify": ratified,
}

// thing is an entity that was to be made.
type thing struct {
	id, kind, secret string
	alone            bool  // a proposal cites its event alone
	settled          phase // as it was after the last kill
	ops              []attempt
	over             []string // proposals whose canon its own was to supersede
	note, noteTried  int      // of work: the last note that was acknowledged, and that was tried

	// tampered says how a person has edited the canon that the proposal became, ""
	// if none has, original what the file had before that, and loose that it was
	// decided about while it was edited: nobody can tell which was first.
	tampered, original string
	loose              bool
}

// attempt is a change of this round: done, refused, or else cut off.
type attempt struct {
	to   phase
	mark byte
}

// leaving tells whether a call was cut off that was to forget the thing.
func (th *thing) leaving() bool {
	return slices.ContainsFunc(th.ops, func(a attempt) bool { return a.to == gone && a.mark == begun })
}

func (l *life) hearKnowledge(line line) {
	id := line.arg(0)
	if line.verb == "create" && line.mark == begun {
		l.things[id] = &thing{id: id, kind: line.arg(1), secret: line.arg(2), alone: line.arg(3) == "1", settled: absent}
	}
	l.Decisions += count(line.mark == done)
	l.Forgets += count(line.mark == done && line.verb == "forget")
	if line.verb == "note" {
		n, _ := strconv.Atoi(line.arg(1))
		th := l.things[id]
		switch line.mark {
		case begun:
			th.noteTried = max(th.noteTried, n)
		case done:
			th.note = max(th.note, n)
		}
		return
	}
	note := func(id, verb string) {
		th, to := l.things[id], results[verb]
		if th == nil || to == "" {
			return
		}
		if at := slices.Index(th.ops, attempt{to, begun}); at >= 0 && line.mark != begun { // it is over
			th.ops = slices.Delete(th.ops, at, at+1)
		}
		th.ops = append(th.ops, attempt{to, line.mark})
	}
	note(id, line.verb)
	switch line.verb {
	case "spoilt":
		if idea := l.things[strings.Replace(id, "event-", "idea-", 1)]; idea != nil {
			idea.loose = true
		}
	case "supersede":
		note(line.arg(1), "superseded")
		if th := l.things[line.arg(0)]; th != nil {
			th.over = append(th.over, line.arg(1))
		}
	case "forget":
		if idea := l.things[strings.Replace(id, "event-", "idea-", 1)]; idea != nil && idea.alone {
			note(idea.id, "forget")
		}
	}
}
