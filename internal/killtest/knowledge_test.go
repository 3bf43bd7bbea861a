package killtest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/soma/guard"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// loosen gives up canon that was edited by hand and decided about in one round, or
// that cites or supersedes what was forgotten then, which takes the links to that
// out of it: it takes what is left of it out of the vault.
func (l *life) loosen() error {
	late := func(th *thing) bool {
		return slices.ContainsFunc(th.ops, func(a attempt) bool { return a.mark != refused && (a.to == retired || a.to == gone) })
	}
	for id, th := range l.things {
		if th.original == "" {
			continue
		}
		for _, idea := range append([]string{id}, th.over...) {
			for _, at := range []string{idea, strings.Replace(idea, "idea-", "event-", 1)} {
				th.loose = th.loose || l.things[at] != nil && late(l.things[at])
			}
		}
		if !th.loose {
			continue
		}
		if err := os.Remove(filepath.Join(l.hand.dir, th.kind, "canon-"+id+".md")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkKnowledge compares the entities with what was decided.
func (c *check) checkKnowledge() error {
	s, err := soma.Open(c.ctx, c.db, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	k := &knowledge{check: c, Store: s, canon: map[string][]*soma.Entity{}, now: map[string]phase{}}
	for _, step := range []func() error{k.agrees, k.lookUp, k.decided, k.guarded, k.finishForgetting, k.forgotten, k.harvested} {
		if err := step(); err != nil {
			return fmt.Errorf("knowledge: %w", err)
		}
	}
	for id, th := range c.things {
		th.settled, th.ops = k.now[id], nil
		if th.tampered == "" && !th.loose {
			th.original = ""
		}
	}
	return nil
}

type knowledge struct {
	*check
	*soma.Store
	canon map[string][]*soma.Entity // by the proposal that it is of
	now   map[string]phase
}

// agrees checks that what is derived from entities agrees with them: history,
// ids, links and the index.
func (k *knowledge) agrees() error {
	n, err := k.Sync(k.ctx)
	if err == nil && k.engine == "vault" {
		n, err = k.Sync(k.ctx) // what a person edited is taken in by the first
	}
	if err != nil {
		return err
	}
	if n != 0 {
		k.bad("the history lacks %d changes", n)
	}
	linked := map[string]bool{}
	for e, err := range k.Query(k.ctx, soma.Query{Team: soma.AllTeams}) {
		if err != nil {
			return err
		}
		if origin := e.Text(soma.FieldOrigin); e.Layer == soma.Canon {
			k.canon[origin] = append(k.canon[origin], e)
		}
		got, err := k.Read(k.ctx, e.ID)
		if err != nil {
			return err
		}
		if got.Key() != e.Key() {
			k.bad("the id of %s leads to %s", e.Key(), got.Key())
		}
		for _, l := range e.Links() {
			linked[storage.EscapeSegment(l.To)+"/"+storage.EscapeSegment(l.From)] = true
		}
	}
	if err := k.withheld(linked); err != nil {
		return err
	}
	for entry, err := range storage.Scan(k.ctx, k.db, "_links/", nil) {
		if err != nil {
			return err
		}
		pair := entry.Key[len("_links/"):]
		_, from, _ := strings.Cut(pair, "/")
		if th := k.originOf(from); !linked[pair] && (th == nil || th.original == "") {
			k.bad("there is the link %s, and no entity has it", pair)
		}
		delete(linked, pair)
	}
	for pair := range linked {
		k.bad("the link %s of an entity is not found", pair)
	}
	for f, err := range search.Check(k.ctx, storage.Scope(k.db, "_search/")) {
		if err != nil {
			return err
		}
		k.bad("the index has a fault: %+v", f)
	}
	return nil
}

// withheld checks that all canon that is withheld was edited by hand, and adds
// its links.
func (k *knowledge) withheld(linked map[string]bool) error {
	list, err := k.Quarantined(k.ctx)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, h := range list {
		_, id, _ := strings.Cut(h.ID, "/")
		th := k.originOf(id)
		if th == nil || th.tampered == "" && !th.loose {
			k.bad("%s is withheld, and nobody wrote it past a review: %s", h.ID, h.Reason)
			continue
		}
		listed[th.id] = true
		if h.Entity != nil {
			for _, l := range h.Entity.Links() {
				linked[storage.EscapeSegment(l.To)+"/"+storage.EscapeSegment(l.From)] = true
			}
		}
	}
	for id, th := range k.things {
		if !th.loose && th.unserved() && !listed[id] && !th.ratifying() {
			k.bad("canon of %s was edited by hand, to %s, and is not listed as withheld", id, th.tampered)
		}
	}
	return nil
}

// originOf returns the proposal that canon with an id was made of, nil for others.
func (k *knowledge) originOf(id string) *thing {
	if name, ok := strings.CutPrefix(id, "canon-"); ok {
		return k.things[name]
	}
	return nil
}

// unserved tells whether a person has edited canon so that it must not be served.
func (th *thing) unserved() bool { return th.tampered != "" && th.tampered != newline }

// ratifying tells whether a reviewer may have ratified it since.
func (th *thing) ratifying() bool {
	return slices.ContainsFunc(th.ops, func(a attempt) bool { return a.to == ratified && a.mark != refused })
}

// lookUp finds where each thing is.
func (k *knowledge) lookUp() error {
	for id, th := range k.things {
		e, err := k.Read(k.ctx, id)
		if err != nil && !errors.Is(err, soma.ErrNotFound) {
			return err
		}
		if err != nil {
			k.now[id] = absent
			if th.settled != absent || slices.ContainsFunc(th.ops, func(a attempt) bool { return a.to == gone && a.mark != refused }) {
				k.now[id] = gone
			}
			if len(k.canon[id]) > 0 && !th.loose {
				k.bad("%s is not there, and there is canon of it: %s", id, k.canon[id][0].ID)
			}
			continue
		}
		k.now[id] = k.phaseOf(e)
		if !strings.Contains(e.Body, th.secret) {
			k.bad("%s has another text", id)
		}
		if n, _ := strconv.Atoi(e.Text("note")); n < th.note || n > th.noteTried {
			k.bad("%s has the note %d, %d was acknowledged and %d was begun", id, n, th.note, th.noteTried)
		}
	}
	return nil
}

func (k *knowledge) phaseOf(e *soma.Entity) phase {
	canon := k.canon[e.ID]
	th := k.things[e.ID]
	switch {
	case th.loose:
		return th.settled
	case th.tampered == reworded && th.ratifying() && len(canon) == 1:
		th.tampered = ""
	case th.unserved():
		if len(canon) > 0 {
			k.bad("canon of %s was edited by hand, to %s, and is not withheld", e.ID, th.tampered)
		}
		return promoted
	}
	status := e.Text(soma.FieldProposalStatus)
	if len(canon) == 0 && status == soma.Promoted && k.things[e.ID].leaving() {
		return retired // what was derived is forgotten first
	}
	if (status == soma.Promoted) != (len(canon) == 1) || len(canon) > 1 {
		k.bad("%s is %q, and there are %d canon entries of it", e.ID, status, len(canon))
		return confusing
	}
	switch {
	case status == soma.Promoted && canon[0].Text("retired_at") == "":
		return promoted
	case status == soma.Promoted:
		return retired
	case status == soma.Rejected:
		return rejected
	case e.Text(soma.FieldDecayedFrom) != "":
		return archived
	}
	return present
}

// decided checks that everything is where an acknowledged decision or a later
// one has put it, and nowhere where nobody did.
func (k *knowledge) decided() error {
	for _, id := range slices.Sorted(maps.Keys(k.things)) {
		th, now := k.things[id], k.now[id]
		if th.loose {
			continue
		}
		justified := now == th.settled || now == archived // that something decays is not announced
		for _, a := range th.ops {
			if a.mark != refused && a.to == now || th.leaving() && now == retired {
				justified = true
			}
			if a.to == ratified && a.mark == done && th.tampered == reworded {
				k.bad("it was acknowledged that canon of %s is ratified, and it is withheld", id)
			}
			if a.mark == done && ranks[now] <= ranks[a.to] && now != a.to {
				k.bad("%s is %s, and it was acknowledged that it is %s", id, now, a.to)
			}
		}
		if ranks[now] < ranks[th.settled] {
			k.bad("%s is %s, and was %s after an earlier kill", id, now, th.settled)
		}
		if !justified {
			k.bad("%s is %s, was %s, and nobody made it so: %v", id, now, th.settled, th.ops)
		}
		k.Open += count(slices.ContainsFunc(th.ops, func(a attempt) bool { return a.mark == begun }))
	}
	// What supersedes has come, and what it supersedes has gone, at once.
	for origin, list := range k.canon {
		for _, e := range list {
			old, _ := e.Fields["supersedes"].([]any)
			for _, id := range old {
				if th := k.originOf(fmt.Sprint(id)); th != nil && th.original != "" {
					continue
				}
				if o, err := k.Read(k.ctx, fmt.Sprint(id)); err == nil && o.Text("retired_at") == "" {
					k.bad("canon of %s supersedes %v, which is in force", origin, id)
				}
			}
		}
	}
	return nil
}

// rules returns the constraints in force as rules of a guard.
func rules(ctx context.Context, s *soma.Store) ([]guard.Rule, error) {
	list, err := s.PolicySource(0).Constraints(ctx, team)
	if err != nil {
		return nil, err
	}
	var rules []guard.Rule
	for _, c := range list {
		rules = append(rules, guard.Rule{ID: c.ID, Name: c.Name, Condition: c.Condition, Enforcement: guard.Enforcement(c.Enforcement), Message: c.Message})
	}
	return rules, nil
}

// guarded checks that what is in force is served and enforced, and nothing else.
func (k *knowledge) guarded() error {
	served := map[string]bool{}
	list, err := k.Consult(k.ctx, soma.Enforce, soma.Query{Team: team})
	if err != nil {
		return err
	}
	for _, g := range list {
		if served[g.Text(soma.FieldOrigin)] = true; g.Unratified {
			k.bad("%s is served and not ratified", g.ID)
		}
		th := k.things[g.Text(soma.FieldOrigin)]
		if th == nil || th.loose {
			continue
		}
		if now := k.now[th.id]; now != promoted || th.unserved() {
			k.bad("%s is served, and its proposal is %s; by hand: %s", g.ID, now, th.tampered)
		}
	}
	all, err := rules(k.ctx, k.Store)
	if err != nil {
		return err
	}
	guarding := guard.New(all)
	for id, now := range k.now {
		th := k.things[id]
		if th.loose {
			continue
		}
		if now == promoted && !served[id] && !th.unserved() {
			k.bad("canon of %s is in force and not served", id)
		}
		if th.kind != "policy" {
			continue
		}
		verdict := guarding.Check(guard.Call{Agent: "agent-0", Team: team, Tool: toolOf(id)}, nil)
		switch {
		case now == promoted && verdict.Action != guard.Block:
			k.bad("the policy %s is in force, and its call gets: %v; by hand: %s", id, verdict, th.tampered)
		case now != promoted && verdict.Action != guard.Allow:
			k.bad("the policy %s is %s, and its call gets: %v", id, now, verdict)
		}
		k.Guarded += count(now == promoted)
		k.Withheld += count(now == promoted && th.unserved())
	}
	return nil
}

// finishForgetting makes calls again that were cut off, as the contract says one
// should.
func (k *knowledge) finishForgetting() error {
	for id, th := range k.things {
		if !strings.HasPrefix(id, "event-") {
			continue
		}
		cut, acked := false, th.settled == gone
		for _, a := range th.ops {
			if a.to == gone {
				cut, acked = cut || a.mark == begun, acked || a.mark == done
			}
		}
		if cut && !acked {
			idea := k.things[strings.Replace(id, "event-", "idea-", 1)]
			_, err := k.As(soma.Person("anna")).Forget(k.ctx, id, "somebody asked")
			if errors.Is(err, storage.ErrCorrupt) && idea.tampered != "" {
				idea.loose = true
				continue
			}
			if err != nil && !errors.Is(err, soma.ErrNotFound) {
				return err
			}
			k.now[id] = gone
			if idea != nil && idea.alone {
				k.now[idea.id] = gone
			}
		}
	}
	return nil
}

// forgotten checks that of the texts that were forgotten nothing is left, in
// documents, history, links and the index. That agents have seen them is another
// matter: their turns say what they were shown.
func (k *knowledge) forgotten() error {
	dead := map[string]string{}
	for id, now := range k.now {
		if th := k.things[id]; now == gone && !th.loose && !strings.HasPrefix(id, "work-") { // which are removed, and have a history
			dead[th.secret] = id
		}
	}
	if len(dead) == 0 {
		return nil
	}
	for e, err := range storage.Scan(k.ctx, k.db, "", nil) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(e.Key, "_threads/") || strings.HasPrefix(e.Key, "_layers/") || strings.HasPrefix(e.Key, "_runs/") {
			continue
		}
		for secret := range tokens('z', e.Value) {
			if id := dead[secret]; id != "" {
				k.bad("%s was forgotten, and %s has its text", id, e.Key)
			}
		}
	}
	// Of one of each, search agrees.
	for secret, id := range dead {
		for e, err := range k.Query(k.ctx, soma.Query{Text: secret, Team: soma.AllTeams}) {
			if err != nil {
				return err
			}
			k.bad("%s was forgotten, and a search for its text finds %s", id, e.Key())
		}
		break
	}
	for id, now := range k.now {
		if now == gone || now == absent {
			continue
		}
		found := false
		for e, err := range k.Query(k.ctx, soma.Query{Text: k.things[id].secret, Team: soma.AllTeams}) {
			if err != nil {
				return err
			}
			found = found || e.ID == id
		}
		if !found {
			k.bad("a search for the text of %s does not find it", id)
		}
		break
	}
	return nil
}

// harvested checks that the archive has every tool call of a stored turn, and
// every run that has ended.
func (k *knowledge) harvested() error {
	has := map[string]bool{}
	for e, err := range k.Query(k.ctx, soma.Query{Layer: soma.Archive, Team: team}) {
		if err != nil {
			return err
		}
		if e.Type == "execution" {
			has[e.Text("graph_id")] = true
		}
		has[e.Text("trace_id")] = true
	}
	for _, t := range k.took {
		for n := range t.calls {
			if id := "decision-" + t.Execution + "-" + callID(t.token, n); !has[id] {
				k.bad("the archive lacks call %d of turn %s", n, t.token)
			}
		}
	}
	for id, x := range k.runs {
		if x.Outcome != "" && !has[id] {
			k.bad("the archive lacks run %s", id)
		}
	}
	return nil
}
