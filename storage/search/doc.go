// Package search finds the few items of a store that answer a question, by
// their words and by where they stand in a conversation. It needs no model.
//
// An index is a set of records below one prefix of a store, its scope; indexes
// of different prefixes know nothing of each other. [Index] is a picture of one
// of them in memory, which every call brings up to date with the store.
//
// It is no database: what a [Doc] says is kept to be shown, and what is found
// is at most as new as the store was when the call began. It knows words, not
// meaning: a passage that shares no word with the question, nor stands beside
// one that does, is not found.
//
// The one decision: what is stored is a set of immutable segments named by
// their content, and an append adds one to it, so that an append costs the same
// whatever the size of the index, its operations can join any batch, and
// writers that do not know of each other lose nothing.
//
// # Keys and formats
//
// Below the prefix of an index:
//
//	d/<id>             a document, see Doc.encode, or several, see [Options.Bundle]
//	s/<level>/<name>   a segment: the postings of some documents, see segment.encode and seal
//	b/<name>/<number>  a block of a segment of level 2, see blockWriter
//	head               changes with every change of the index
//	deep               changes with every change of a segment of level 1 or 2
//
// A segment of level 0 holds the documents of one append. 64 of these are
// merged into one of level 1, and 16 of level 1 into one of level 2, by the
// append that comes next; of level 2, 16 of less than half a megabyte into one. A
// document is written four times at most, however long the index gets. It may be
// in more than one segment for a while, when two writers have merged at once,
// and counts once.
//
// What [Index] holds of the segments of levels 0 and 1 is everything. Those of level 2
// are sealed: their postings and IDs are in blocks of some 32 KB, which a query reads
// from the store, and of which the last wanted are held, 6 MB at most. Segments
// of level 2 that are in one record are of older programs: they are held whole, and
// sealed when they are merged.
package search
