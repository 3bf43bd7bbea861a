package storage_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// A batch with a precondition is how concurrent writers keep each other's
// changes.
func ExampleAdapter() {
	ctx := context.Background()
	store := mem.New()
	defer store.Close()

	key := "insight/" + storage.Join("prompt caching")
	if err := storage.Set(ctx, store, key, []byte(`{"status":"draft"}`)); err != nil {
		log.Fatal(err)
	}
	_, version, err := store.Get(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	promote := storage.Put(key, []byte(`{"status":"active"}`)).IfVersion(version)
	fmt.Println(store.Apply(ctx, promote, storage.Put("_history/1", []byte("promoted"))))

	// The version is another one now: the same again changes nothing.
	err = store.Apply(ctx, promote)
	fmt.Println(errors.Is(err, storage.ErrConflict), err)
	// Output:
	// <nil>
	// true apply "insight/prompt caching": precondition failed
}

// Documents are found by the fields that are declared.
func ExampleFind() {
	ctx := context.Background()
	store := mem.New()
	defer store.Close()

	if err := storage.EnsureIndex(ctx, store, "status", "tags"); err != nil {
		log.Fatal(err)
	}
	for key, document := range map[string]string{
		"insight/a": `{"status":"active","tags":["cache","cost"]}`,
		"insight/b": `{"status":"draft","tags":["cache"]}`,
		"task/a":    `{"status":"active"}`,
	} {
		if err := storage.Set(ctx, store, key, []byte(document)); err != nil {
			log.Fatal(err)
		}
	}
	query := storage.Query{Equal: map[string]string{"tags": "cache", "status": "active"}}
	for entry, err := range storage.Find(ctx, store, query) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.Key, string(entry.Value))
	}
	// Output:
	// insight/a {"status":"active","tags":["cache","cost"]}
}
