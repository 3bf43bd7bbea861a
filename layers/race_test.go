//go:build race

package layers_test

const raced = true
