package bolt

import "go.etcd.io/bbolt"

// A process that reads at random from a mapped file sooner or later has all of
// it in its resident size: each fault maps sixteen pages that are in the
// system's cache. The system can take them back, but whatever limits or
// monitors a process counts them. So many mapped pages are unmapped, which
// removes none from the cache; pages that are needed are mapped again.
const (
	mostResident  = 64 << 20 // bytes of mapped files, in addition to what was left last time
	residentEvery = 32       // commits between checks
)

// trim unmaps the mapped pages of db if there are many. Only the writer calls
// it.
func (s *Store) trim(db *bbolt.DB) {
	if s.commits++; s.commits%residentEvery != 0 {
		return
	}
	now := resident()
	if s.resident = min(s.resident, now); now < s.resident+mostResident {
		return
	}
	// A transaction keeps the mapping in place; if there can be none, the store is
	// closed.
	_ = db.View(func(tx *bbolt.Tx) error {
		release(db.Info().Data, uintptr(tx.Size()))
		return nil
	})
	s.resident = resident()
}
