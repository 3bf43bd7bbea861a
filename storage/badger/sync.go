package badger

import (
	"os"
	"time"

	"github.com/stratamem/strata/storage"
)

// settle completes what Full promises beyond what badger does after a commit:
// that the value log was synced, and that the names of newly created files are
// durable.
func (s *Store) settle() error {
	if s.opts.Durability != storage.Full {
		return nil
	}
	if s.db.log.unsynced.Load() {
		return errUnsynced
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	changed := info.ModTime()
	if changed.Equal(s.synced) {
		return nil
	}
	if err := syncDir(s.path); err != nil {
		return err
	}
	// The time of a directory moves in steps. Within one step, another file may be
	// created unnoticed, so sync until the step is over.
	if time.Since(changed) > 100*time.Millisecond {
		s.synced = changed
	}
	return nil
}

// syncDir makes the names in a directory durable, if the system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync() // some systems cannot sync a directory
	return nil
}
