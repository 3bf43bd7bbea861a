package soma

import (
	"fmt"
	"slices"

	"github.com/stratamem/strata/storage"
)

// Layer is one of the four.
type Layer string

// The layers, from what happened to what holds.
const (
	Archive  Layer = "archive"
	Working  Layer = "working"
	Emerging Layer = "emerging"
	Canon    Layer = "canon"
)

// Layers are all of them.
var Layers = []Layer{Archive, Working, Emerging, Canon}

// AgentWorker is the worker that an agent's own tools write as.
const AgentWorker = "agent"

// writes says which layers a worker may create in.
var writes = map[string][]Layer{
	"harvester":     {Archive},
	"reconciler":    {Archive},
	"team-context":  {Working},
	"synthesizer":   {Emerging},
	"cartographer":  {Emerging},
	"governance":    {Canon},
	"policy-bridge": nil,
	decay.Name:      nil,                // it moves what is due to the archive, see Writer.ProcessDecay
	AgentWorker:     {Archive, Working}, // working of its own team
}

// CanWrite reports whether a worker may create and change entities of a layer.
// An unknown worker or layer may not.
func CanWrite(worker string, layer Layer) bool { return slices.Contains(writes[worker], layer) }

// PermissionError says that somebody may not do what was asked.
type PermissionError struct {
	Worker string // or "person"
	Layer  Layer
	Field  string // that is not its to set, if it is about one
	Reason string // if it is not the table of layers and workers
}

func (e *PermissionError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("worker %q, layer %q: %s", e.Worker, e.Layer, e.Reason)
	}
	return fmt.Sprintf("worker %q may not write to layer %q", e.Worker, e.Layer)
}

// Actor is who changes something: a worker, a person or an agent.
type Actor struct {
	Kind string // "worker", "person" or "agent"
	Name string // of the person: the reviewer
	Team string // of an agent
}

// Worker returns the actor of a worker.
func Worker(name string) Actor { return Actor{Kind: "worker", Name: name} }

// Person returns the actor of a person.
func Person(name string) Actor { return Actor{Kind: "person", Name: name} }

// Agent returns the actor of an agent's own tools.
func Agent(name, team string) Actor { return Actor{Kind: "agent", Name: name, Team: team} }

// String returns "worker:harvester", "person:anna" or "agent:planner".
func (a Actor) String() string { return a.Kind + ":" + a.Name }

// worker is the actor's row in the table of permissions.
func (a Actor) worker() string {
	switch a.Kind {
	case "worker":
		return a.Name
	case "agent":
		return AgentWorker
	}
	return a.Kind
}

// permit reports whether an actor may write an entity of a layer and a team: a
// person everywhere but in canon, which changes by decisions alone.
func (a Actor) permit(layer Layer, team string) error {
	refused := &PermissionError{Worker: a.worker(), Layer: layer}
	switch {
	case !slices.Contains(Layers, layer):
		refused.Reason = "there is no such layer"
	case a.Name == "":
		refused.Reason = "the writer has no name"
	case layer == Canon && a != governance:
		refused.Reason = "canon changes only by promotion, supersession and retirement"
		if a.Kind != "person" && !CanWrite(a.worker(), layer) {
			refused.Reason = ""
		}
	case a.Kind == "person":
		return nil
	case !CanWrite(a.worker(), layer):
	case a.Kind == "agent" && layer == Working && (team == "" || team != a.Team):
		refused.Reason = "an agent writes to its own team's working layer"
	case a.Kind == "agent" && team != "" && team != a.Team:
		refused.Reason = "the entity is of another team"
	default:
		return nil
	}
	return refused
}

// may reports whether an actor may change an entity by an operation. Decay is
// the work of one worker, in all layers that decay; a proposal that was decided
// stays as it was decided.
func (a Actor) may(op string, e *Entity) error {
	switch {
	case op == OpDecay:
		return a.mayDecay()
	case op == OpExtend && !e.decays():
		return nil // there is nothing to do
	}
	if err := a.permit(e.Layer, e.Team); err != nil {
		return err
	}
	if status := e.proposalStatus(); e.Layer == Emerging && status != Pending {
		return &GovernanceError{e.ID, "it was " + status + ", and stays as it was decided: propose it anew, or forget it"}
	}
	return nil
}

// mayDecay reports whether an actor may move what is due.
func (a Actor) mayDecay() error {
	if a == decay || a.Kind == "person" && a.Name != "" {
		return nil
	}
	return &PermissionError{Worker: a.worker(), Layer: Archive, Reason: "only the worker decay, or a person, archives what is due"}
}

// moves refuses a change of the team that is not the actor's to make.
func (a Actor) moves(before, after *Entity) error {
	switch {
	case before.Team == after.Team:
		return nil
	case a.Kind == "agent":
		return &PermissionError{Worker: a.worker(), Layer: before.Layer, Field: "team_id", Reason: "an agent does not change team_id"}
	}
	return a.permit(after.Layer, after.Team)
}

// Actors of this package.
var (
	governance = Worker("governance")
	migration  = Worker("migration")
	decay      = Worker("decay")
)

// ValidateLayerFields reports whether an entity has the fields that its layer
// requires, and none that it forbids. The error is a [*FieldError].
func ValidateLayerFields(e *Entity) error {
	if e.SourceWorker == "" {
		return fault("source_worker", "it is missing")
	}
	if _, odd := e.Fields["team_id"]; odd {
		return fault("team_id", "it is no text")
	}
	_, oddDecay := e.Fields["decay_at"]
	decays := !e.DecayAt.IsZero()
	switch e.Layer {
	case Archive, Canon:
		if decays || oddDecay {
			return fault("decay_at", "layer %s does not decay", e.Layer)
		}
	case Working, Emerging:
		if !decays {
			return fault("decay_at", "layer %s wants a time", e.Layer)
		}
	default:
		return fault("layer", "there is no layer %q", e.Layer)
	}
	switch e.Layer {
	case Working:
		if e.Team == "" {
			return fault("team_id", "layer working wants a team")
		}
	case Emerging:
		if _, ok := e.Confidence(); !ok {
			return fault(FieldConfidence, "layer emerging wants a number from 0 to 1")
		}
		if _, ok := evidenceOf(e); !ok {
			return fault(FieldEvidence, "layer emerging wants a list of ids, or of objects with an id")
		}
	case Canon:
		for _, field := range []string{FieldRatifiedBy, FieldRatifiedAt, FieldOrigin} {
			if e.Text(field) == "" {
				return fault(field, "layer canon wants it")
			}
		}
		if e.Time(FieldRatifiedAt).IsZero() {
			return fault(FieldRatifiedAt, "it is no time")
		}
	}
	return nil
}

// validate reports whether an entity may be stored.
func (e *Entity) validate() error {
	switch {
	case !isType(e.Type):
		return fault("type", "it is lower case letters, digits and hyphens, and begins with a letter")
	case e.ID == "":
		return fault("id", "it is empty, and so is what the name would give")
	case len(storage.EscapeSegment(e.ID)) > maxID:
		return fault("id", "it has over %d bytes", maxID)
	case e.Name == "":
		return fault("name", "it is missing")
	case !slices.Contains(Statuses(e.Type), e.Status):
		return fault("status", "%s has one of %q", e.Type, Statuses(e.Type))
	}
	return ValidateLayerFields(e)
}

func isType(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '-') {
			return false
		}
	}
	return s != ""
}
