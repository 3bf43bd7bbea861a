package soma

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Reserved returns what alone may set a field: "a review", "decay" or "the
// store"; it is "" for a field that anyone who may write the entity may set. No
// entity is created with a reserved field, and no update changes or removes
// one, except that whoever creates an entity sets when it first decays, and may
// mark a proposal as pending. A promotion copies none of them.
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

// ratifiedPrefix begins the names of fields that say how canon was ratified.
const ratifiedPrefix = "ratified_"

// reserve returns an error if an actor creates an entity with a field it may
// not set. e is as it will be read.
func (a Actor) reserve(e *Entity) error {
	for _, field := range slices.Sorted(maps.Keys(e.Fields)) {
		by := Reserved(field)
		switch {
		case by == "" || field == "decay_at": // validate judges these
		case by == "a review" && a == governance:
		case field == FieldProposalStatus && e.Layer == Emerging && e.Fields[field] == Pending:
		default:
			return a.reserved(e.Layer, field, by)
		}
	}
	return nil
}

// keep returns an error if an actor changes a field it may not set.
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
	// Older vaults keep the review state in the status.
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
