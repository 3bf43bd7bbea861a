//go:build !race

package killtest_test

const race = false
