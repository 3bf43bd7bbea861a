//go:build !linux

package vault

// watcher is not to be had here: the events of other systems come late, or
// take an open file for each file that is watched. Files are listed instead.
type watcher struct{}

func newWatcher(string) *watcher { return nil }

func (*watcher) add(string) error                                        { return nil }
func (*watcher) addLog()                                                 {}
func (*watcher) drain(func(dir, name string, gone bool)) (overflow bool) { return false }
func (*watcher) wait() bool                                              { return false }
func (*watcher) close()                                                  {}
