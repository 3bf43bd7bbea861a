// Package projection decides what a model sees: it takes the items of a
// conversation, what memory layers contribute, and a budget, and gives the view
// to send.
//
// It is pure. It stores nothing, calls no layer and knows no provider; package
// memory drives it, adapters translate its views. The same input gives the same
// bytes.
//
// A view is a list of items in six bands:
//
//	system | anchor | history | live | updates | tail
//
// Its one design decision is that a view is the continuation of the one before.
// Providers bill a prompt's unchanged beginning at a tenth of the price, so
// [Assemble] holds the beginning still for as long as that is cheaper: an
// [Epoch]. Inside an epoch the stable prefix of a view is, byte for byte, the
// beginning of the next view. What changes meanwhile stands behind history,
// once or every turn, whichever is billed less at the measured rate of change.
//
// The cost of a view does not grow with the conversation: items are counted
// once, when they enter the [Log], and views share them.
package projection
