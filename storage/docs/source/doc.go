// Package source reads files for collections of documents: it walks folders,
// detects changes, and cuts texts into passages along their structure.
//
// The collection itself is package storage/docs, and source reads only files.
// The two are separate so that a program that only searches documents links no
// HTML parser.
//
// The one decision: wherever the limit permits, a passage is a run of whole
// lines of its file, word for word, so that a file and line numbers say where
// to look. No text is lost: whatever is in the file is in one of the passages.
// For HTML, this is the text without tags, scripts and styles.
package source
