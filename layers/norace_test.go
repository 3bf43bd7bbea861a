//go:build !race

package layers_test

// raced tells whether the race detector runs, which has pools forget what they hold, so that more is allocated.
const raced = false
