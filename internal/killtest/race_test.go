//go:build race

package killtest_test

// race says whether the detector of data races is built in, which makes
// everything some ten times slower.
const race = true
