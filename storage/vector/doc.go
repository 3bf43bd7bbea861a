// Package vector finds what lies closest to a point: an index of embeddings,
// which somebody else makes, by the cosine of the angle between them.
//
// An index is a set of records below one prefix of a store, its scope; indexes
// of different prefixes know nothing of each other. [Index] is a picture of one
// of them in memory, which every call brings up to date with the store. It goes
// beside an index of package search with the same IDs and is kept in the same
// way, so that one layer can hold both and one batch take both.
//
// It is no database and no graph: it keeps a vector and an ID, not what they
// are of, and a search looks at every vector that there is, at a bit of each
// coordinate where there are many. That takes about a millisecond for a hundred
// thousand, where building and mending a graph would cost every append.
//
// The one decision: what is stored is a set of immutable segments named by
// their content, of which the newest word on an ID holds. An append adds one,
// so that it costs the same whatever the size of the index, its operations can
// join any batch, and writers that do not know of each other lose nothing.
//
// # Vectors
//
// A vector has as many float32 coordinates as the index has dimensions, all of
// them finite, not all zero. Its length says nothing: it is normalised, so that
// inner product and cosine are the same. Then it is rotated (see rotation) and
// each coordinate kept as a multiple of 1/32767 in 16 bits. The cosine of two
// kept vectors is some 0.00001 (standard deviation) beside that of the vectors
// given, however many dimensions there are, and a sum of integers, so that hits
// have one order however it is computed. With 8 bits, half the size, two in a
// hundred of the ten closest were measured to be others; with 16 bits it is one
// in a thousand.
//
// # Search
//
// An exact search computes the cosine of every vector. The default does so up
// to two thousand vectors, and beyond looks first at one bit of each
// coordinate, whether it is above the average: vectors at a small angle differ
// in few (Charikar, "Similarity Estimation Techniques from Rounding
// Algorithms", 2002). With the distance from the average that gives a fair guess
// of the cosine, which is then computed of the most promising, of which there
// are so many that next to nothing is lost; see [Query.Candidates]. The rotation
// and the average, as in RaBitQ (Gao and Long, 2024), pay: without them three
// times as many candidates were measured to find less.
//
// Built with GOEXPERIMENT=simd on amd64, a search takes a third to two thirds of
// the time where the processor has AVX2 and AVX-512 VPOPCNTDQ, and finds the
// same.
//
// # Keys and formats
//
// Below the prefix of an index:
//
//	s/<level>/<name>   a segment: some vectors and deletions, see segment.encode
//	head               changes with every change of the index
//	deep               changes with every change of a segment of level 1 or 2
//
// A vector takes two bytes a dimension and about ten for its ID. A segment of
// level 0 holds the changes of one append. When these come to 32 vectors they are
// merged into one of level 1, and when those come to 1,024 into one of level 2
// (fewer of more than 512 dimensions: at most a MiB), by the append that comes
// next: a vector is written three times. One of level 2 is written anew when
// over half of it is superseded.
//
// A deletion is an entry that says so. It is dropped by a merge a day later, if
// no older entry of its ID is left: a writer that merged what it saw before
// must not bring back what was deleted since. The vector that it deletes is
// dropped by the next merge of its segment, or at once by [Index.Compact].
package vector
