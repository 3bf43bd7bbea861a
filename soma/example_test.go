package soma_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage/mem"
)

// A worker proposes, a person promotes, and every agent is told.
func Example() {
	ctx := context.Background()
	db := mem.New()
	defer db.Close()
	s, err := soma.Open(ctx, db, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	happened, err := s.As(soma.Worker("harvester")).Create(ctx, &soma.Entity{
		Type: "decision", Name: "Retry at once", Layer: soma.Archive, Body: "The gateway was asked 900 times in a second.",
	})
	if err != nil {
		log.Fatal(err)
	}
	idea, err := s.As(soma.Worker("synthesizer")).Create(ctx, &soma.Entity{
		Type: "policy", Name: "Back off", Layer: soma.Emerging, DecayAt: s.ComputeL3DecayAt(time.Now()),
		Body: "Wait twice as long before each retry.",
		Fields: map[string]any{
			soma.FieldConfidence: 0.8,
			soma.FieldEvidence:   []any{happened.ID},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.As(soma.Person("anna")).Promote(ctx, idea.ID, idea.Digest(), "third incident"); err != nil {
		log.Fatal(err)
	}
	list, err := s.Consult(ctx, soma.Enforce, soma.Query{})
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range list {
		fmt.Printf("%s, %s, by %s: %s\n", g.ID, g.SemanticWeight, g.Text(soma.FieldRatifiedBy), g.Body)
	}
	// Output: canon-back-off, mandatory, by anna: Wait twice as long before each retry.
}
