package soma

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxLives is how many of its layer's lives an entity has at most.
const maxLives = 10

// ComputeL2DecayAt returns when a working entity decays that lives from a time.
func (s *Store) ComputeL2DecayAt(from time.Time) time.Time { return from.Add(s.opts.WorkingLife) }

// ComputeL3DecayAt returns when an emerging entity decays that lives from a time.
func (s *Store) ComputeL3DecayAt(from time.Time) time.Time { return from.Add(s.opts.EmergingLife) }

func (s *Store) life(layer Layer) time.Duration {
	if layer == Working {
		return s.opts.WorkingLife
	}
	return s.opts.EmergingLife
}

// Decayed is what ProcessDecay did.
type Decayed struct {
	Moved []string `json:"moved"` // type/id
	Bad   []string `json:"bad"`   // type/id of those whose decay_at is missing or no time: they stay
}

// decaysBy are the fields that say whether an entity is due.
var decaysBy = []string{"decay_at", "status", FieldProposalStatus}

// decays reports whether the time of an entity runs out: no longer that of a
// proposal that a person has decided.
func (e *Entity) decays() bool {
	return e.Layer == Working || e.Layer == Emerging && e.proposalStatus() == Pending
}

// ProcessDecay moves to the archive what is due: working and emerging entities
// whose decay_at is not in the future, but for proposals that a person has decided.
// They keep their id and team, so that links still lead to them. Each moves in
// a batch of its own: after a crash the rest is moved by the next call.
//
// It is for the worker decay, and for people; it moves what is of any team.
func (w *Writer) ProcessDecay(ctx context.Context) (Decayed, error) {
	var out Decayed
	if err := w.actor.mayDecay(); err != nil {
		return out, fmt.Errorf("decay: %w", err)
	}
	now := w.s.now()
	for _, layer := range []Layer{Working, Emerging} {
		for e, err := range w.s.find(ctx, map[string]string{"layer": string(layer)}, "", decaysBy...) {
			if err != nil {
				return out, fmt.Errorf("decay: %w", err)
			}
			name := e.Type + "/" + e.ID
			switch {
			case !e.decays():
				continue
			case e.DecayAt.IsZero():
				out.Bad = append(out.Bad, name)
				continue
			case e.DecayAt.After(now):
				continue
			}
			moved, err := w.decay(ctx, name, now)
			if err != nil {
				return out, fmt.Errorf("decay: %w", err)
			}
			if moved {
				out.Moved = append(out.Moved, name)
			}
		}
	}
	return out, nil
}

// decay moves an entity, if it is still due.
func (w *Writer) decay(ctx context.Context, id string, now time.Time) (moved bool, err error) {
	err = w.modify(ctx, id, OpDecay, "", func(e *stored) (*Entity, error) {
		if moved = e.decays() && !e.DecayAt.IsZero() && !e.DecayAt.After(now); !moved {
			return e.Entity, nil
		}
		next := e.Clone()
		next.set(FieldDecayedFrom, string(e.Layer))
		next.Layer, next.DecayAt = Archive, zeroTime
		return next, nil
	})
	if errors.Is(err, ErrNotFound) { // somebody was faster
		return false, nil
	}
	return moved, err
}

// ExtendDecayOnAccess resets the time of decay of an entity that was of use, to a
// whole life from now, but to no more than ten lives from its creation. It never
// shortens it, and leaves alone what does not decay. Who may change the entity may
// extend it: an agent what its team is at, and no proposal.
func (w *Writer) ExtendDecayOnAccess(ctx context.Context, id string) error {
	err := w.modify(ctx, id, OpExtend, "", func(e *stored) (*Entity, error) {
		if !e.decays() {
			return e.Entity, nil
		}
		life := w.s.life(e.Layer)
		at := w.s.now().Add(life)
		if most := e.Created.Add(maxLives * life); !e.Created.IsZero() && at.After(most) {
			at = most
		}
		if !at.After(e.DecayAt) {
			return e.Entity, nil
		}
		next := e.Clone()
		next.DecayAt = at
		delete(next.Fields, "decay_at")
		return next, nil
	})
	if err != nil {
		return fmt.Errorf("extend decay: %w", err)
	}
	return nil
}
