package memory

import (
	"fmt"
	"unicode/utf8"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage"
)

// Identity says on whose behalf an execution runs.
type Identity = thread.Identity

// validateIdentity returns an error if an id cannot be used in keys, or takes
// more than most bytes when escaped.
func validateIdentity(w *Identity, most int) error {
	if w.Thread == "" {
		return &IdentityError{Field: "thread", Reason: "is empty"}
	}
	for _, id := range []struct{ field, text string }{
		{"thread", w.Thread}, {"resource", w.Resource}, {"agent", w.Agent}, {"team", w.Team},
	} {
		if err := validateID(id.field, id.text, most); err != nil {
			return err
		}
	}
	return nil
}

func validateID(field, text string, most int) error {
	if !utf8.ValidString(text) {
		return &IdentityError{Field: field, Reason: "is not valid UTF-8"}
	}
	if n := len(storage.EscapeSegment(text)); n > most {
		return &IdentityError{Field: field, Reason: fmt.Sprintf("has %d bytes when escaped, over %d", n, most)}
	}
	return nil
}
