// Package docs keeps collections of documents in a store, cut into passages
// that are found by their words and cited by file and lines.
//
// A document here is a file of text for people, or of source code: none of the
// JSON documents of package storage. The package does not read files: package
// storage/docs/source does, and cuts them. It is no copy of the files either:
// what is kept are the passages.
//
// The one decision: what a document says and what is known of it, its passages
// and the postings by which they are found, change in one batch with a
// precondition on the collection. So two writers, in two processes, lose
// nothing to each other, and a crash leaves documents whole. Only a document
// that takes more than one batch is seen in between, and says so until it is
// whole; see [File].
//
// # Keys and formats
//
// Below "_docs/<kind of owner>/<owner>/<name>/", each escaped as a segment:
//
//	head       what holds for the collection, see head; changes with every batch
//	f/<file>   what is known of a file: a File in JSON; <file> is the first 64
//	           bits of the SHA-256 of its name, in hex
//	i/…        an index of package storage/search. Its documents are the passages:
//	           their ids are <file>-<place, 6 digits>-<digest of the passage>, so
//	           that those of a file are neighbours in order
package docs
