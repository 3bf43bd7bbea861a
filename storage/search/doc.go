// Package search finds the few items of a store that answer a question, by
// their words and by their place in a conversation. It needs no model.
//
// An index is a set of records below one prefix of a store, its scope; indexes
// of different prefixes are independent. [Index] is an in-memory view of one of
// them, which every call brings up to date with the store.
//
// It is not a database: the text of a [Doc] is kept to be shown, and results
// are as of the beginning of the call. It knows words, not meaning: it does not
// find a passage that neither shares a word with the question nor is next to
// one that does.
//
// The one decision: an index is stored as a set of immutable segments named by
// their content, and an append adds one, so that an append costs the same
// whatever the size of the index, its operations can join any batch, and
// independent writers lose nothing.
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
// A segment of level 0 holds the documents of one append. The next append
// merges 64 of these into one of level 1, 16 of level 1 into one of level 2,
// and 16 of level 2 that are below half a megabyte into one. A document is
// written at most four times, however large the index gets. It may be in more
// than one segment for a while, if two writers merged concurrently, but counts
// once.
//
// [Index] holds all of the segments of levels 0 and 1. Those of level 2 are
// sealed: their postings and IDs are in blocks of some 32 KB, which queries
// read from the store and of which the most recently used are held, at most 6
// MB. A segment of level 2 in a single record was written by an older program:
// it is held whole, and sealed when it is merged.
package search
