package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/soma/guard"
	"github.com/stratamem/strata/storage"
)

// The second part of the demo: two agents of one team fail in the same way, a
// worker proposes a rule, a person promotes it, and the next run sees it and
// obeys; then what nobody has decided about decays.
const (
	demoTeam     = "platform"
	demoReviewer = "mira"
	ruleName     = "Stop after two failed deploys"
	ruleWhen     = `tool == "deploy" and streak("tool") >= 2`
	ruleText     = "Two deploys in a row have failed: the third fails as well. Stop, and ask a person to look at the health check."
)

// team is the second part in progress.
type team struct {
	d     *demoRun
	store *soma.Store
	m     *memory.Memory
	calls *guard.Window
	now   time.Time
}

// clock advances by a second with each call, so that nothing depends on when
// the demo runs.
func (t *team) clock() time.Time {
	t.now = t.now.Add(time.Second)
	return t.now
}

// playTeam plays the second part, on the day after the first.
func (d *demoRun) playTeam(ctx context.Context) (err error) {
	db, err := openStore(ctx, d.o.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	last := d.turns[len(d.turns)-1].Time
	t := &team{d: d, now: last.Truncate(24 * time.Hour).Add(33 * time.Hour)}
	if t.store, err = soma.Open(ctx, db, &soma.Options{Now: t.clock}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.store.Close()) }()
	t.calls = guard.NewWindow(&guard.WindowOptions{Now: t.clock})
	t.m, err = memory.New(db, layers.Knowledge(t.store, nil), &memory.Options{
		Clock: t.clock, Policy: projection.Policy{Budget: demoBudget, Reserve: demoReserve}, TracerProvider: d.tracing.provider,
	})
	if err != nil {
		return err
	}
	err = t.playAll(ctx, db)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, t.m.Close(closing))
}

// tellStep reports a step: what is done, and what there is to see.
func (t *team) tellStep(ctx context.Context, step string, lines ...string) error {
	return t.d.show(ctx, &event{Event: eventTeam, Step: step, Time: t.now, Lines: lines})
}

func (t *team) playAll(ctx context.Context, db storage.Adapter) error {
	for _, agent := range []string{"planner", "releaser"} {
		if err := t.failDeploys(ctx, agent); err != nil {
			return err
		}
	}
	evidence, lines, err := t.readHarvest(ctx)
	if err == nil {
		err = t.tellStep(ctx, "Two agents of team "+demoTeam+" fail alike; the runs are harvested into the archive", lines...)
	}
	if err != nil {
		return err
	}
	rule, err := t.propose(ctx, evidence)
	if err != nil {
		return err
	}
	canon, err := t.store.As(soma.Person(demoReviewer)).Promote(ctx, rule.ID, rule.Digest(), "seen in two agents")
	if err != nil {
		return err
	}
	err = t.tellStep(ctx, demoReviewer+" promotes it: a new canon entry, ratified, in one atomic batch",
		"canon "+canon.ID+", "+canon.Status+", ratified by "+canon.Text(soma.FieldRatifiedBy)+", of "+canon.Text(soma.FieldOrigin))
	if err == nil {
		err = t.runUnderRule(ctx)
	}
	if err == nil {
		err = t.passTime(ctx)
	}
	return err
}

// failDeploys lets an agent try a deploy twice and fail.
func (t *team) failDeploys(ctx context.Context, agent string) error {
	run, err := t.m.Begin(ctx, memory.Identity{Thread: "deploy-" + agent, Agent: agent, Team: demoTeam})
	if err != nil {
		return err
	}
	input := []projection.Item{projection.Text(projection.User, "Roll out the label printer service.")}
	for attempt := range 3 {
		if _, err := run.Project(ctx, input...); err != nil {
			return err
		}
		if attempt == 2 {
			answer := projection.Text(projection.Assistant, "The deploy failed twice at its health check. I stopped.")
			if err := run.Commit(ctx, memory.Response{Items: []projection.Item{answer}}); err != nil {
				return err
			}
			break
		}
		id := fmt.Sprint("call-", attempt)
		call := projection.Call(id, "deploy", `{"service":"labels"}`)
		if err := run.Commit(ctx, memory.Response{Items: []projection.Item{call}}); err != nil {
			return err
		}
		finish := t.calls.Start(guard.Subject{Agent: agent, Tool: "deploy"})
		result := projection.Result(id, "health check timed out")
		result.Failed = true
		finish(true)
		input = []projection.Item{result}
	}
	return run.End(ctx, memory.Failure)
}

// readHarvest returns the ids of the failures in the archive, and a summary of
// the archive.
func (t *team) readHarvest(ctx context.Context) (evidence []any, lines []string, err error) {
	count := make(map[string]int)
	for e, err := range t.store.Query(ctx, soma.Query{Layer: soma.Archive, Team: demoTeam}) {
		if err != nil {
			return nil, nil, err
		}
		if strings.HasPrefix(e.Name, "failure: ") {
			evidence = append(evidence, e.ID)
		}
		count[e.Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		lines = append(lines, fmt.Sprintf("archive %d × %s", count[name], name))
	}
	return evidence, lines, nil
}

// propose lets a worker propose the rule, and something else that nobody
// decides about.
func (t *team) propose(ctx context.Context, evidence []any) (rule *soma.Entity, err error) {
	w := t.store.As(soma.Worker("synthesizer"))
	rule, err = w.Create(ctx, &soma.Entity{
		Type: "policy", Name: ruleName, Body: ruleText, Layer: soma.Emerging, DecayAt: t.store.ComputeL3DecayAt(t.now),
		Fields: map[string]any{
			soma.FieldConfidence: 0.9, soma.FieldEvidence: evidence, "condition": ruleWhen, "enforcement": "error",
		},
	})
	if err == nil {
		_, err = w.Create(ctx, &soma.Entity{
			Type: "insight", Name: "Deploys fail more often on Mondays", Layer: soma.Emerging, DecayAt: t.store.ComputeL3DecayAt(t.now),
			Fields: map[string]any{soma.FieldConfidence: 0.3, soma.FieldEvidence: evidence[:1]},
		})
	}
	if err != nil {
		return nil, err
	}
	list, err := t.store.Pending(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, e := range list {
		confidence, _ := e.Confidence()
		lines = append(lines, fmt.Sprintf("pending %.1f %s, %s", confidence, e.Name, plural(len(e.Evidence()), "piece of evidence", "pieces of evidence")))
	}
	return rule, t.tellStep(ctx, "A worker counts failures and proposes; nothing it writes is more than a proposal", lines...)
}

// runUnderRule begins the next run: the rule is in the anchored part of its
// prompt, and judges its tool call.
func (t *team) runUnderRule(ctx context.Context) error {
	run, err := t.m.Begin(ctx, memory.Identity{Thread: "deploy-again", Agent: "planner", Team: demoTeam})
	if err != nil {
		return err
	}
	view, err := run.Project(ctx, projection.Text(projection.User, "Please roll out the label printer service again."))
	if err != nil {
		return err
	}
	var lines []string
	for band, it := range view.All() {
		if band == projection.BandAnchor && it.Layer == "knowledge-canon" {
			lines = append(lines, "prompt "+strings.Join(strings.Fields(it.Text()), " "))
		}
	}
	constraints, err := t.store.PolicySource(0).Constraints(ctx, demoTeam)
	if err != nil {
		return err
	}
	verdict := guard.New(rulesOf(constraints)).Check(guard.Call{Agent: "planner", Team: demoTeam, Tool: "deploy", Time: t.now}, t.calls)
	lines = append(lines, "guard "+verdict.String())
	answer := "I do not deploy a third time: a rule of the team says that somebody has to look at the health check first."
	if verdict.Action != guard.Block {
		return fmt.Errorf("the guard does not block: %v", verdict)
	}
	lines = append(lines, "answer "+answer)
	if err := run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, answer)}}); err != nil {
		return err
	}
	if err := run.End(ctx, memory.Success); err != nil {
		return err
	}
	return t.tellStep(ctx, "The next run has the rule before it, and the guard judges its call", lines...)
}

// passTime lets 91 days pass.
func (t *team) passTime(ctx context.Context) error {
	t.now = t.now.AddDate(0, 0, 91)
	decayed, err := t.store.As(soma.Worker("decay")).ProcessDecay(ctx)
	if err != nil {
		return err
	}
	var lines []string
	for _, id := range decayed.Moved {
		lines = append(lines, "decayed "+id+": from emerging to archive, where links still find it")
	}
	return t.tellStep(ctx, "91 days later: what nobody has decided decays, canon stays", lines...)
}

// drawTeam draws a step of the second part.
func (d *demoRun) drawTeam(e *event) {
	s := d.s
	if d.teamSteps == 0 {
		s.printf("\n")
		s.rule("Two agents, one team, and a person", "")
	}
	d.teamSteps++
	s.printf("%s %s\n", s.paint(faint, e.Time.Format("Mon 2 Jan")), s.paint(bold, printable(e.Step)))
	for _, l := range e.Lines {
		what, text, _ := strings.Cut(l, " ")
		for i, part := range wrap(printable(text), s.width()-13) {
			if i > 0 {
				what = ""
			}
			s.printf("   %s %s\n", s.paint(cyan, fmt.Sprintf("%-8s", what)), part)
		}
	}
}
