//go:build !linux

package vault

// watcher is not available here: the events of other systems are late, or need
// an open file for each watched file. Files are listed instead.
type watcher struct{}

func newWatcher(string) *watcher { return nil }

func (*watcher) add(string) error                                        { return nil }
func (*watcher) addLog()                                                 {}
func (*watcher) drain(func(dir, name string, gone bool)) (overflow bool) { return false }
func (*watcher) wait() bool                                              { return false }
func (*watcher) close()                                                  {}
