// Package killtest kills the whole stack: a process in which agents take turns
// with the ready layers over governed knowledge, while reviewers decide, things
// decay and are forgotten and, on the vault, a person edits the files, is killed
// at random instants and looked at afterwards. It has tests only.
//
//	go test ./internal/killtest            20 kills for each engine
//	CI=true go test ./internal/killtest    500; 20 with -short or -race
//	STRATA_KILLS=10000 go test -timeout 0 -v -run 'TestKills/bolt' ./internal/killtest
//
// What an engine promises by itself is proven by storagetest, and what soma does
// between two writes by its own crash test. Here is what they come to together:
// whatever was acknowledged is there, whatever was in progress is there whole or
// not at all, and no canon is unguarded for a moment.
//
// # How it works
//
// The test starts itself again as the process that is killed. That one says on
// its standard output, in one write each, what it is about to do and what was
// acknowledged (see journal_test.go). After the kill the test opens the store,
// compares it with what was said (check_test.go for memory, knowledge_test.go
// for soma, hand_test.go for the files), and takes what it finds for settled: it
// must still be there after the next kill. A store lives through a number of
// kills, then a new one is begun.
//
// The one decision: what is in a turn or an entity says itself what it is to be
// (a token that nothing else has, how many calls, whether it ended a run), so
// that the check needs no model of the program, and any two of turns, states,
// records, indexes and runs are compared with each other.
//
// A round that fails says how to run the same again and keeps the directory, with
// the journal beside the store. The seed settles what everybody does, not how
// the goroutines interleave or at which instruction the kill comes, so that it
// may take several rounds to see the same fault.
//
// That the test can fail is a test too: fault_test.go runs it over engines that
// each do one thing wrong.
package killtest
