//go:build !linux

package vault

import "os"

// dataSync makes the content of a file durable.
func dataSync(f *os.File, _ uintptr) error { return f.Sync() }

// syncAll is not available here: files are synced one by one.
func syncAll(*os.File) (bool, error) { return false, nil }

// swap puts a temporary file in the place of another, which it moves to out.
func swap(temp, out, path string) (old string, err error) { return replace(temp, out, path) }

// bootID is unknown: every open looks at the files of the last segment.
func bootID() string { return "" }
