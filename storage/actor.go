package storage

import "context"

type actorKey struct{}

// WithActor returns a context for writes on behalf of actor, a person or a
// program, such as "person:anna". An engine that keeps an audit log, such as
// storage/vault, records it. Nothing verifies it.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns on whose behalf a write is made, or "" if its context does
// not say.
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}
