package memory

import "context"

// token is held by one at a time. Who holds it owns what it says it is for.
type token chan struct{}

func newToken() token { return make(token, 1) }

// acquire waits for the token.
func (t token) acquire(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits for the token, however long that takes.
func (t token) wait() { t <- struct{}{} }

// release gives the token back.
func (t token) release() { <-t }
