package vault

import "github.com/tidwall/btree"

// cursor walks the index of an immutable state.
type cursor struct {
	at  btree.MapIter[string, struct{}]
	buf []byte
}

func newCursor(st *state) *cursor { return &cursor{at: st.index.Iter()} }

func (c *cursor) Seek(from []byte) []byte { return c.entry(c.at.Seek(string(from))) }
func (c *cursor) Next() []byte            { return c.entry(c.at.Next()) }

func (c *cursor) entry(ok bool) []byte {
	if !ok {
		return nil
	}
	c.buf = append(c.buf[:0], c.at.Key()...)
	return c.buf
}
