// Package soma is a governed store of what agents learned: entities in four
// layers, from what happened to what holds, over any storage engine.
//
//	archive   L1  what happened: runs, decisions, what has decayed
//	working   L2  what a team is working on; decays
//	emerging  L3  proposals with confidence and evidence; decay unless a person decides
//	canon     L4  what a person has ratified; never edited, only superseded
//
// It is not the memory of a conversation, which is package memory, and it calls
// no model. Permissions guard against mistakes and confused agents, not against
// hostile code in the same process, which can write to the adapter itself.
//
// Canon fails closed. A document is served only if a person's decision ratifies
// it in its present form. Any other is quarantined until a reviewer looks at
// it, and so is one that is missing or unreadable; a policy among them blocks
// what it was against. See [Store.Quarantined] and [PolicySource.Constraints].
//
// Fields that record a decision are reserved: see [Reserved]. A decided
// proposal is frozen, and to an agent, entities of another team do not exist.
//
// The one decision: an entity is a plain document of the store, so that people
// can read and edit it as Markdown, and everything derived from it changes in
// the same atomic batch. A crash leaves all of a change or none of it.
//
// [Open] returns a [Store], from which anybody may read; [Store.As] returns a
// [Writer], which knows who is writing. Both are safe for concurrent use, and
// any number of processes may share a store where the engine allows it.
//
// # Keys
//
//	<type>/<id>               an entity, see Entity
//	_ids/<id>                 the key of the entity with that id
//	_history/<key>/<n>        every version with who made it, see Version
//	_links/<to>/<from>        entity <from> links to id <to>
//	_epoch                    names the store, see Store.Epoch
//	_governance/<key>/<name>  a decision about a canon entry, see below
//	_canon/<key>              from before decisions: the digest of what a person ratified
//	_tombstones/<id>          what was forgotten, without its text
//	_search/…                 the index of package storage/search
//
// Ids are escaped with storage.EscapeSegment. Times are UTC with milliseconds.
//
// # Decisions
//
// A decision about canon is a record of its own, a small JSON object that never
// changes: the operation, the reviewer, the time and the reason; the type and
// id of the entry, whether it is in force from then on, the digest of its
// document (see [Entity.Digest]), what superseded it, the proposal it was made
// from; its team, enforcement and condition; and the names of the decisions
// that it follows. Its name is the first half of the hex SHA-256 of its
// canonical form. So the decisions of two copies of a store are merged by
// adding them up. The decisions that no other follows determine how an entry
// stands. Where they contradict each other, or two entries in force were made
// from one proposal, the entry is withheld until a person makes a decision,
// which follows all of them. A record under _canon is honoured; the next
// decision about its entry, or [Store.MigrateToLayers], replaces it by a
// decision.
package soma
