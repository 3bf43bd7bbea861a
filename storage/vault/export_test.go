package vault

// What the external tests need of the inside.

// Encode is the text of a new file.
func Encode(key string, document []byte) []byte {
	_, _, cut := (*layout)(nil).fileOf(key)
	return encode(key, document, cut, nil)
}

// Decode reads a file.
func Decode(key string, content []byte) ([]byte, error) {
	_, _, cut := (*layout)(nil).fileOf(key)
	f, err := decode(content, cut)
	if err != nil {
		return nil, err
	}
	return f.document(key)
}

// Update is the text of a file that is there already.
func Update(key string, content, document []byte) ([]byte, error) {
	_, _, cut := (*layout)(nil).fileOf(key)
	f, err := decode(content, cut)
	if err != nil {
		return nil, err
	}
	return encode(key, document, cut, f), nil
}

// FileOf and KeyOf are the naming of files.
var (
	FileOf = (*layout)(nil).fileOf
	KeyOf  = (*layout)(nil).keyOf
)

// CrashAt makes the process die like one that is killed, or do something else, when
// it comes to a point of a commit or a compaction for the nth time.
func CrashAt(point string, n int, die func()) {
	before := crashPoint
	crashPoint = func(at string) {
		before(at)
		if at != point {
			return
		}
		if n--; n == 0 {
			die()
		}
	}
}

// SetFreeSpace makes the disk look full until the returned function is called.
func SetFreeSpace(bytes uint64) (restore func()) {
	was := freeSpace
	freeSpace = func(uintptr) (uint64, bool) { return bytes, true }
	return func() { freeSpace = was }
}

// WithoutEvents makes a store list files, as on systems without events.
func (s *Store) WithoutEvents() {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.watch != nil {
		s.watch.close()
		s.watch = nil
	}
}

// NewBoot makes the next open believe that the system was started anew.
func (s *Store) NewBoot() { s.upkeep.boot = "another boot" }

// Segments lists the files of the log.
func Segments(root string) (base uint64, numbers []uint64, err error) { return segmentsOf(root) }

// Ahead makes the log's clock run before the system's, as after that was set
// back.
func (s *Store) Ahead(ns int64) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.clock += ns
}

// Logged lists the records that are in the log.
func (s *Store) Logged() (keys []string) {
	s.snapshot().logged(func(key string, _ item) bool {
		keys = append(keys, key)
		return true
	})
	return keys
}
