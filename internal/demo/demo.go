// Package demo has the conversation that the tool replays as a demonstration:
// three weeks of an engineer and her assistant, in two threads. Mira moves a
// service from MySQL to PostgreSQL and prepares a talk about it in another
// town. She changes her mind as people do: deadlines move, a decision is
// reversed, a preference is corrected; and what is asked in one thread was said
// in the other, or a week ago.
//
// People, service and numbers are invented. It is not a recording of a model:
// the answers are what a model with this memory could have said, and all that
// they require of the layers is to recall what the file contains.
package demo

import (
	"bytes"
	_ "embed"
	"fmt"

	"github.com/stratamem/strata/internal/transcript"
)

// Resource is the person in the conversation: both threads are hers.
const Resource = "mira"

// The threads.
const (
	Migration = "waybill-migration"
	Talk      = "ghent-talk"
)

// Instructions is what the assistant was told before the first turn.
const Instructions = `You are Mira's assistant for engineering work and what surrounds it.
Answer briefly and say what you know, from when it is, and what has replaced it.
If you have not been told something, say so and ask.`

//go:embed conversation.jsonl
var conversation []byte

// Turns returns the conversation, oldest turn first, with the times at which
// everything was said.
func Turns() ([]transcript.Turn, error) {
	r, err := transcript.NewReader(bytes.NewReader(conversation), &transcript.Options{Name: "conversation.jsonl", Strict: true})
	if err != nil {
		return nil, fmt.Errorf("open demo: %w", err)
	}
	var turns []transcript.Turn
	for t, err := range r.Turns() {
		if err != nil {
			return nil, fmt.Errorf("open demo: %w", err)
		}
		turns = append(turns, t)
	}
	return turns, nil
}
