package bolt

import "go.etcd.io/bbolt"

// A process that reads at random from a mapped file has all of it in its
// resident size sooner or later: each fault maps sixteen pages that the system
// has in its cache. They are the system's to take back, but what limits or
// watches a process counts them. So they are let go of when they are many, which
// takes no page out of the cache; those that are wanted are mapped again.
const (
	mostResident  = 64 << 20 // bytes of mapped files, beside what was left last time
	residentEvery = 32       // commits between looks
)

// trim lets go of the mapped pages of db if there are many. It belongs to the
// writer.
func (s *Store) trim(db *bbolt.DB) {
	if s.commits++; s.commits%residentEvery != 0 {
		return
	}
	now := resident()
	if s.resident = min(s.resident, now); now < s.resident+mostResident {
		return
	}
	// A transaction keeps the mapping where it is; without one the store is closed.
	_ = db.View(func(tx *bbolt.Tx) error {
		release(db.Info().Data, uintptr(tx.Size()))
		return nil
	})
	s.resident = resident()
}
