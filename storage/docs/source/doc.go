// Package source reads files for collections of documents: it walks folders,
// sees what changed, and cuts texts into passages at their structure.
//
// It is not the collection, which is package storage/docs, and it fetches
// nothing but files. It is apart from it so that a program that only searches
// documents links no parser of HTML.
//
// The one decision: a passage is a stretch of whole lines of its file wherever
// that fits the limit, word for word, so that file and lines say where to look,
// and no text is lost: what is in the file is in one of the passages. Of HTML
// it is the text, without tags, scripts and styles.
package source
