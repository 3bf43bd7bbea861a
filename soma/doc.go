// Package soma is a governed store of what agents learned: entities in four
// layers, from what happened to what holds, over any storage engine.
//
//	archive   L1  what happened: runs, decisions, what has decayed
//	working   L2  what a team is at; decays
//	emerging  L3  proposals with confidence and evidence; decay unless a person decides
//	canon     L4  what a person has ratified; never edited, only superseded
//
// It is not the memory of a conversation, which is package memory, and it calls
// no model. Permissions guard against mistakes and confused agents, not against
// hostile code in the same process, which can write to the adapter itself.
//
// Canon fails closed. A document that no decision of a person ratifies as it is
// is not served: it is quarantined until a reviewer looks at it, and so is what is
// missing or cannot be read; a policy of them blocks what it was against. See
// [Store.Quarantined] and [PolicySource.Constraints].
//
// What governance decides is not for others to write: see [Reserved]. A proposal
// that was decided is frozen, and what another team has is not there for an agent.
//
// The one decision: an entity is a plain document of the store, so that people
// read and edit it as Markdown, and everything that is derived from it changes in
// the same atomic batch. A crash leaves all of a change or nothing.
//
// [Open] gives a [Store], from which anybody reads; [Store.As] gives a [Writer],
// which says who changes something. Both are safe for concurrent use, and any
// number of processes may share a store where the engine allows it.
//
// # Keys
//
//	<type>/<id>               an entity, see Entity
//	_ids/<id>                 the key of the entity with that id
//	_history/<key>/<n>        every version with who made it, see Version
//	_links/<to>/<from>        that entity <from> links to id <to>
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
// changes: the operation, the reviewer, the time and the reason; the type and id of
// the entry, whether it holds from then on, the digest of its document (see
// [Entity.Digest]), what superseded it, the proposal it was made of; its team,
// enforcement and condition; and the names of the decisions that it follows. Its
// name is the first half of the hex SHA-256 of its canonical form. So the decisions
// of two copies of a store come together by being added. An entry stands as those say
// that no other follows; where they contradict each other, or two entries in force
// were made of one proposal, it is withheld until a person decides, which follows
// all of them. A record of _canon is honoured, and becomes a decision by the next one
// about its entry, or by [Store.MigrateToLayers].
package soma
