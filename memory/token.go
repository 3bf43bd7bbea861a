package memory

import "context"

// token has one holder at a time, who owns whatever the token stands for.
type token chan struct{}

func newToken() token { return make(token, 1) }

// acquire waits for the token, until ctx ends.
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

// wait waits for the token without a limit.
func (t token) wait() { t <- struct{}{} }

// release returns the token.
func (t token) release() { <-t }
