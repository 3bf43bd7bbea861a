package main

import (
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// TestTooLong: a message over the budget is answered, and the talk goes on.
func TestTooLong(t *testing.T) {
	m, err := memory.New(mem.New(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := m.Begin(t.Context(), memory.Identity{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{strings.Repeat("word ", 200_000), "word"} {
		if err := answer(t.Context(), run, projection.Text(projection.User, text)); err != nil {
			t.Error(err)
		}
	}
	if n := run.Execution().Step(); n != 2 {
		t.Errorf("%d turns", n)
	}
}

func Example() {
	main()
	// Output:
	// user         Hi! My name is Anna and I live in Lisbon.
	//
	// user         Hi! My name is Anna and I live in Lisbon.
	// assistant    Noted.
	// user         The deadline for the report is 2026-03-14.
	// user         <working-memory data add>
	// profile.location: Lisbon
	// profile.name: Anna
	// </working-memory>
	//
	// user         Hi! My name is Anna and I live in Lisbon.
	// assistant    Noted.
	// user         The deadline for the report is 2026-03-14.
	// tool_call    today({})
	// tool_result  2026-03-01
	// user         <working-memory data add>
	// deadlines.report: 2026-03-14
	// profile.location: Lisbon
	// profile.name: Anna
	// </working-memory>
	//
	// user         <working-memory data>
	// deadlines.report: 2026-03-14
	// profile.location: Lisbon
	// profile.name: Anna
	// </working-memory>
	// user         Hello again. What do you know about me?
}
