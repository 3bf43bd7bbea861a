package storage

import "context"

type actorKey struct{}

// WithActor returns a context for writes that are made for actor, a person or a
// program, such as "person:anna". An engine that keeps an audit log, as
// storage/vault does, has it there. Nothing verifies it.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns who a write is made for, "" if its context does not say.
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}
