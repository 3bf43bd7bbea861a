package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &engine.Hub{Buffer: 3}
		ctx, cancel := context.WithCancel(t.Context())
		if hub.Watched() {
			t.Error("watched by nobody")
		}
		events, err := hub.Watch(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		publish := func(keys ...string) {
			for _, key := range keys {
				hub.Publish(storage.Event{Kind: storage.EventSet, Key: key})
			}
		}
		publish("a1", "b", "a2", "a3", "a4", "a5")
		var got []string
		done := make(chan error)
		go func() {
			for ev, err := range events {
				if err != nil {
					done <- err
					continue
				}
				if ev.Kind == storage.EventOverflow {
					ev.Key = "overflow"
				}
				got = append(got, ev.Key)
			}
			close(done)
		}()
		synctest.Wait()
		publish("a6", "b")
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		<-done
		if diff := cmp.Diff([]string{"a1", "a2", "a3", "overflow", "a6"}, got); diff != "" {
			t.Error(diff)
		}
		if hub.Watched() {
			t.Error("still watched")
		}
		hub.Close()
		if _, err := hub.Watch(t.Context(), ""); !errors.Is(err, storage.ErrClosed) {
			t.Errorf("Watch after Close: %v", err)
		}
	})
}
