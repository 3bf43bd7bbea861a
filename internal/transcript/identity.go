package transcript

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"

	"github.com/stratamem/strata/projection"
)

// digest is the beginning of a SHA-256.
type digest [16]byte

func digestOf(text string) (d digest) {
	sum := sha256.Sum256([]byte(text))
	copy(d[:], sum[:])
	return d
}

// maxUUID is the length of the longest uuid of a line that is used as it is.
const maxUUID = 64

// identify gives ids to the items of an entry, by which they are recognized
// when the file, a longer version of it, or another file of the thread is read
// again. The id is the uuid of a session's line. For other files it is a digest
// of what the entry says and of its id or, if it has none or the same id and
// words occurred before, of its index among the records of the file. Items of
// one entry are numbered.
func (r *Reader) identify(e *Entry, given string) {
	id := given
	if r.shape != ClaudeCode || given == "" || len(given) > maxUUID || strings.Contains(given, "/") {
		id = r.digest(e, given)
	}
	for i := range e.Items {
		e.Items[i].ID = id
		if i > 0 {
			e.Items[i].ID += "/" + strconv.Itoa(i+1)
		}
	}
}

func (r *Reader) digest(e *Entry, given string) string {
	const byID, byPlace = "id", "place"
	d := sum(e, byID, given)
	if given == "" || given == "null" || r.shape != ClaudeCode && r.seen[d] {
		d = sum(e, byPlace, strconv.Itoa(r.place))
	} else if r.shape != ClaudeCode {
		r.seen[d] = true
	}
	return hex.EncodeToString(d[:])
}

// sum returns a digest of what an entry says, and of what else distinguishes
// it. Ids of calls are left out: if the file does not have them, they are made
// from line numbers.
func sum(e *Entry, more ...string) (d digest) {
	w := sha256.New()
	for _, text := range more {
		write(w, text)
	}
	write(w, e.Thread)
	for i := range e.Items {
		it := &e.Items[i]
		for _, text := range []string{string(it.Kind), string(it.Role), it.Name, it.Arguments, strconv.Itoa(len(it.Parts))} {
			write(w, text)
		}
		for j := range it.Parts {
			p := &it.Parts[j]
			for _, text := range []string{string(p.Type), p.Text, p.URL, p.MediaType, p.Name, string(p.Data)} {
				write(w, text)
			}
		}
	}
	copy(d[:], w.Sum(nil))
	return d
}

// write writes a text with its length, so that different lists of texts differ.
func write(w hash.Hash, text string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(text)))
	w.Write(n[:])
	w.Write([]byte(text))
}

// sizeOf returns roughly how many bytes an item takes.
func sizeOf(it *projection.Item) int {
	n := len(it.Arguments)
	for i := range it.Parts {
		n += len(it.Parts[i].Text) + len(it.Parts[i].Data) + len(it.Parts[i].URL)
	}
	return n
}
