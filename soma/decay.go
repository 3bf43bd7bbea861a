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

// ProcessDecay moves to the archive what is due: working and emerging entities
// whose decay_at is not in the future, but for proposals that a person has decided.
// They keep their id and team, so that links still lead to them. Each moves in
// a batch of its own: after a crash the rest is moved by the next call.
func (w *Writer) ProcessDecay(ctx context.Context) (Decayed, error) {
	var out Decayed
	now := w.s.now()
	for _, layer := range []Layer{Working, Emerging} {
		for e, err := range w.s.find(ctx, map[string]string{"layer": string(layer)}, "", 0) {
			if err != nil {
				return out, fmt.Errorf("decay: %w", err)
			}
			name := e.Type + "/" + e.ID
			switch {
			case layer == Emerging && e.proposalStatus() != Pending:
				continue
			case e.DecayAt.IsZero():
				out.Bad = append(out.Bad, name)
				continue
			case e.DecayAt.After(now):
				continue
			}
			moved, err := w.decay(ctx, e.Key(), now)
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
func (w *Writer) decay(ctx context.Context, key string, now time.Time) (moved bool, err error) {
	err = w.s.change(ctx, func(b *batch) error {
		moved = false
		e, err := w.s.load(ctx, key)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Layer != Working && e.Layer != Emerging || e.DecayAt.IsZero() || e.DecayAt.After(now) ||
			e.Layer == Emerging && e.proposalStatus() != Pending {
			return nil
		}
		next := e.Clone()
		next.set(FieldDecayedFrom, string(e.Layer))
		next.Layer, next.DecayAt = Archive, zeroTime
		moved = true
		return b.put(ctx, e, next, OpDecay, w.actor, "")
	})
	return moved, err
}

// ExtendDecayOnAccess resets the time of decay of an entity that was of use, to a
// whole life from now, but to no more than ten lives from its creation. It never
// shortens it, and leaves layers alone that do not decay.
func (w *Writer) ExtendDecayOnAccess(ctx context.Context, id string) error {
	err := w.s.change(ctx, func(b *batch) error {
		e, err := w.s.lookup(ctx, id)
		if err != nil {
			return err
		}
		if e.Layer != Working && e.Layer != Emerging {
			return nil
		}
		life := w.s.life(e.Layer)
		at := w.s.now().Add(life)
		if most := e.Created.Add(maxLives * life); !e.Created.IsZero() && at.After(most) {
			at = most
		}
		if !at.After(e.DecayAt) {
			return nil
		}
		next := e.Clone()
		next.DecayAt = at
		delete(next.Fields, "decay_at")
		return b.put(ctx, e, next, OpExtend, w.actor, "")
	})
	if err != nil {
		return fmt.Errorf("extend decay: %w", err)
	}
	return nil
}
