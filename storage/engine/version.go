package engine

import (
	"strconv"

	"github.com/stratamem/strata/storage"
)

// Version turns a sequence number into a version. The number counts the writes
// of a store and starts at 1, so that a key that is deleted and set again has a
// new version. The number 0 stands for absent.
func Version(seq uint64) storage.Version {
	if seq == 0 {
		return ""
	}
	return storage.Version(strconv.FormatUint(seq, 36))
}

// AppendVersion appends the version of seq.
func AppendVersion(out []byte, seq uint64) []byte {
	if seq == 0 {
		return out
	}
	return strconv.AppendUint(out, seq, 36)
}

// IsVersion reports whether v is the version of seq. It does not allocate.
func IsVersion(v storage.Version, seq uint64) bool {
	if seq == 0 {
		return v == ""
	}
	var b [13]byte // 36^13 > 2^64
	return string(strconv.AppendUint(b[:0], seq, 36)) == string(v)
}

// PrefixEnd returns the first key after all keys with the prefix, or "" if
// there is none.
func PrefixEnd(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xFF {
			end[i]++
			return string(end[:i+1])
		}
	}
	return ""
}
