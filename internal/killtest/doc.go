// Package killtest kills the whole stack: a process in which agents take turns
// with the ready layers over governed knowledge, while reviewers decide, things
// decay and are forgotten and, on the vault, a person edits the files, is
// killed at random instants and examined afterwards. It has only tests.
//
//	go test ./internal/killtest            20 kills for each engine
//	CI=true go test ./internal/killtest    500; 20 with -short or -race
//	STRATA_KILLS=10000 go test -timeout 0 -v -run 'TestKills/bolt' ./internal/killtest
//
// Package storagetest proves what an engine promises by itself, and soma's own
// crash test what soma does between two writes. This package tests them
// together: whatever was acknowledged is there, whatever was in progress is
// there as a whole or not at all, and no canon is unguarded for a moment.
//
// # How it works
//
// The test starts itself again as the process to be killed. That process writes
// to its standard output, one write each, what it is about to do and what was
// acknowledged (see journal_test.go). After the kill the test opens the store
// and compares it with that journal (check_test.go for memory,
// knowledge_test.go for soma, hand_test.go for the files). What it finds counts
// as settled: it must still be there after the next kill. A store lives through
// a number of kills, then a new one is begun.
//
// The one decision: the content of a turn or an entity itself says what it must
// be (a unique token, how many calls, whether it ended a run), so that the
// check needs no model of the program, and can compare any two of turns,
// states, records, indexes and runs.
//
// A round that fails says how to repeat it and keeps the directory, with the
// journal next to the store. The seed determines what everybody does, but not
// how the goroutines interleave or at which instruction the kill comes, so it
// may take several rounds to see the same fault.
//
// fault_test.go tests that the test can fail: it runs it over engines that each
// do one thing wrong.
package killtest
