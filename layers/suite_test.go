package layers_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/layertest"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/docs"
)

// TestEachLayer: the ready layers are what layers are to be.
func TestEachLayer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "AGENTS.md")
	if err := os.WriteFile(file, []byte("Answer in French."), 0o644); err != nil {
		t.Fatal(err)
	}
	plain := func(layer func() memory.Layer) func(*testing.T, storage.Adapter) memory.Layer {
		return func(*testing.T, storage.Adapter) memory.Layer { return layer() }
	}
	open := func(t *testing.T, store storage.Adapter) *soma.Store {
		t.Helper()
		s, err := soma.Open(t.Context(), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	propose := func(promote bool) func(*testing.T, storage.Adapter) {
		return func(t *testing.T, store storage.Adapter) {
			s := open(t, store)
			w := s.As(soma.Person("anna"))
			e, err := w.Create(t.Context(), &soma.Entity{
				Type: "policy", Name: "Deploys on Fridays", Body: "Deploy parcels before Friday.", Layer: soma.Emerging, DecayAt: s.ComputeL3DecayAt(time.Now()),
				Fields: map[string]any{soma.FieldConfidence: 0.8, soma.FieldEvidence: []any{}},
			})
			if err == nil && promote {
				_, err = w.Promote(t.Context(), e.ID, e.Digest(), "")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	knowledge := func(i int) func(*testing.T, storage.Adapter) memory.Layer {
		return func(t *testing.T, store storage.Adapter) memory.Layer {
			return layers.Knowledge(open(t, store), nil)[i]
		}
	}
	said := []layertest.Turn{
		{User: "Call me Anna. I live in Lisbon, and the parcel for Maria Silva goes to Porto on 3 May.", Assistant: "Noted, Anna."},
		{User: "Remember that the parcel weighs 4 kg.", Assistant: "It weighs 4 kg."},
		{User: "What is the time?", Assistant: "Noon."},
	}
	const ask = "Where does the parcel for Maria Silva go?"
	for name, l := range map[string]layertest.Layer{
		"working memory":  {New: plain(func() memory.Layer { return layers.WorkingMemory(nil) }), Turns: said, Ask: ask, Shows: "Anna"},
		"entity":          {New: plain(func() memory.Layer { return layers.Entity(nil) }), Turns: said, Ask: ask, Shows: "Maria Silva"},
		"observations":    {New: plain(func() memory.Layer { return layers.Observations(nil) }), Turns: said, Ask: ask, Shows: "Porto"},
		"episodic":        {New: plain(func() memory.Layer { return layers.Episodic(nil) }), Turns: said, Ask: ask, Shows: "Porto"},
		"semantic recall": {New: plain(func() memory.Layer { return layers.SemanticRecall(nil) }), Turns: said, Ask: ask, Shows: "Porto"},
		"instructions": {
			New:   plain(func() memory.Layer { return layers.Instructions(&layers.InstructionsOptions{Files: []string{file}}) }),
			Turns: said, Ask: ask, Shows: "in French", Fixed: true,
		},
		"rag": {
			New: func(_ *testing.T, store storage.Adapter) memory.Layer { return layers.RAG(store, nil) },
			Prepare: func(t *testing.T, store storage.Adapter) {
				ingest(t, store, docs.Owner{}, "", map[string]string{"parcels.md": "The parcel for Maria Silva goes to the depot."})
			},
			Turns: said, Ask: ask, Shows: "depot", Fixed: true,
		},
		"canon":    {New: knowledge(0), Prepare: propose(true), Turns: said, Ask: ask, Shows: "before Friday", Fixed: true},
		"emerging": {New: knowledge(1), Prepare: propose(false), Turns: said, Ask: ask, Shows: "before Friday", Fixed: true},
		"procedural": {
			New:     func(t *testing.T, store storage.Adapter) memory.Layer { return layers.Procedural(open(t, store), nil) },
			Prepare: propose(true), Turns: said, Ask: "How do I deploy parcels?", Shows: "before Friday", Fixed: true,
		},
	} {
		t.Run(name, func(t *testing.T) { layertest.Run(t, l) })
	}
}
