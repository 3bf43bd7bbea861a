package soma

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Reserved returns what alone sets a field: "a review", "decay" or "the store";
// "" for a field that any writer of the entity sets. No writer creates an entity
// with a field that is reserved, and no update changes one or takes it away, but
// that who creates an entity says when it decays first, and may say that its
// proposal is pending. A promotion copies none of them.
func Reserved(field string) string {
	switch field {
	case FieldProposalStatus, fieldReviewedBy, fieldReviewedAt, fieldReviewReason, fieldRetiredAt, FieldOrigin:
		return "a review"
	case FieldDecayedFrom, "decay_at":
		return "decay"
	case "type", "id", "created", "updated", "source_worker":
		return "the store"
	}
	if strings.HasPrefix(field, ratifiedPrefix) {
		return "a review"
	}
	return ""
}

// ratifiedPrefix is that of the fields that say how canon was ratified.
const ratifiedPrefix = "ratified_"

// reserve refuses an entity that an actor creates with a field that is not its to
// set. e is as it will be read.
func (a Actor) reserve(e *Entity) error {
	for _, field := range slices.Sorted(maps.Keys(e.Fields)) {
		by := Reserved(field)
		switch {
		case by == "" || field == "decay_at": // which validate judges
		case by == "a review" && a == governance:
		case field == FieldProposalStatus && e.Layer == Emerging && e.Fields[field] == Pending:
		default:
			return a.reserved(e.Layer, field, by)
		}
	}
	return nil
}

// keep refuses a change of a field that is not the actor's to set.
func (a Actor) keep(before, after *Entity) error {
	was, err := before.members()
	if err != nil {
		return err
	}
	is, err := after.members()
	if err != nil {
		return err
	}
	for _, field := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[field]; !ok {
			is[field] = nil
		}
	}
	for _, field := range slices.Sorted(maps.Keys(is)) {
		by := Reserved(field)
		if by != "" && string(was[field]) != string(is[field]) && (by != "a review" || a != governance) {
			return a.reserved(before.Layer, field, by)
		}
	}
	// Older vaults have the state of a review in the status.
	if before.Layer == Emerging && before.proposalStatus() != after.proposalStatus() {
		return a.reserved(before.Layer, "status", "a review")
	}
	return nil
}

func (a Actor) reserved(layer Layer, field, by string) error {
	return &PermissionError{Worker: a.worker(), Layer: layer, Field: field, Reason: "the field " + field + " is set by " + by + " alone"}
}

// members returns the fields of an entity's document.
func (e *Entity) members() (map[string]json.RawMessage, error) {
	document, err := e.encode()
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	return all, json.Unmarshal(document, &all)
}
