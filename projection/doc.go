// Package projection decides what a model sees: it takes the items of a
// conversation, what memory layers contribute, and a budget, and gives the view
// to send.
//
// It stores nothing, calls no layer and knows no provider; package memory drives it,
// adapters translate its views, and it can be used without either. The same input
// gives the same bytes.
//
// A [Frame] is what is the same in every prompt of a program. A [Prefix] is the
// prompt of one conversation as it grows: Append items, Project a view, Observe what
// the provider's cache did. It owns its state, and encodes and restores it.
//
// A view is a list of items in six bands:
//
//	system | anchor | history | live | updates | tail
//
// Its one design decision is that a view is the continuation of the one before.
// Providers bill a prompt's unchanged beginning at a tenth of the price, so
// a Prefix holds the beginning still for as long as that is cheaper: an
// epoch. Inside an epoch the stable prefix of a view is, byte for byte, the
// beginning of the next view. What changes meanwhile stands behind history,
// once or every turn, whichever is billed less at the measured rate of change.
//
// A layer's text, and a summary, stand in a block: a tag with the layer's name, the
// text, and the closing tag. No text can spell a tag of a block: see marker.go. What
// was said is sent as it was said.
//
// The cost of a view does not grow with the conversation: items are counted
// once, when they are appended, and views share them.
package projection
