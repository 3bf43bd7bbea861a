// Package docs keeps collections of documents in a store, cut into passages
// that are found by their words and cited by file and lines.
//
// A document here is a file of text for people or of source code, not a JSON
// document of package storage. The package does not read files: package
// storage/docs/source reads and cuts them. Nor does it keep a copy of the
// files: it keeps the passages.
//
// The one decision: a document's passages, the postings that find them, and
// what is known about the document change in one batch with a precondition on
// the collection. So two writers, even in two processes, lose nothing to each
// other, and a crash leaves documents whole. Only a document that needs more
// than one batch can be seen half-written, and is marked until it is whole; see
// [File].
//
// # Keys and formats
//
// Below "_docs/<kind of owner>/<owner>/<name>/", each escaped as a segment:
//
//	head       settings of the collection, see head; changes with every batch
//	f/<file>   what is known about a file: a File in JSON; <file> is the first 64
//	           bits of the SHA-256 of its name, in hex
//	i/…        an index of package storage/search. Its documents are the passages:
//	           their ids are <file>-<place, 6 digits>-<digest of the passage>, so
//	           that those of a file are neighbours in order
package docs
