// Package projection decides what a model sees: from the items of a
// conversation, the contributions of memory layers, and a budget, it makes the
// view to send.
//
// It stores nothing, calls no layer and knows no provider. Package memory
// drives it and adapters translate its views, but it can be used without
// either. The same input yields the same bytes.
//
// A [Frame] is what is the same in every prompt of a program. A [Prefix] is the
// growing prompt of one conversation: Append items, Project a view, Observe
// what the provider's cache did. It owns its state, and encodes and restores
// it.
//
// A view is a list of items in six bands:
//
//	system | anchor | history | live | updates | tail
//
// The one decision: a view continues the previous one. Providers bill the
// unchanged beginning of a prompt at a tenth of the price, so a Prefix keeps
// the beginning still for as long as that is cheaper: an epoch. Within an epoch
// the stable prefix of a view is, byte for byte, the beginning of the next
// view. What changes meanwhile is sent after history, once or every turn,
// whichever is billed less at the measured rate of change.
//
// A layer's text, or a summary, is enclosed in a block: a tag with the layer's
// name, the text, and the closing tag. No text inside can spell such a tag: see
// marker.go. Messages are sent as they were said.
//
// The cost of a view does not grow with the conversation: items are counted
// once, when they are appended, and views share them.
package projection
