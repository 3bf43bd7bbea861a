//go:build unix

package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/open"
	"github.com/stratamem/strata/storage/storagetest"
)

func opener(d storage.Durability) func(context.Context, string) (storage.Adapter, error) {
	return func(ctx context.Context, dir string) (storage.Adapter, error) {
		return openTiny(ctx, dir, &open.Options{Durability: d})
	}
}

// engine is what the suite has to know of Tiny.
var engine = storagetest.Engine{
	Name:    "tiny",
	Open:    opener(storage.Process),
	Full:    opener(storage.Full),
	Files:   []string{"log"},
	Logs:    []string{"log"},
	Without: []string{"Scanner", "Finder", "Watcher", "Statter", "Checker", "UnreadableLister", "Compacter", "Snapshotter"},
}

func TestTiny(t *testing.T) { storagetest.Run(t, engine) }

func FuzzTiny(f *testing.F) { storagetest.Fuzz(f, engine) }

// TestPage: the code in docs/engines.md is that of this directory.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range []string{"tiny.go", "log.go", "main.go", "main_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	blocks := strings.Split(string(page), "```")
	if len(blocks) < 9 {
		t.Errorf("the page has %d blocks of code", len(blocks)/2)
	}
	for i := 1; i < len(blocks); i += 2 {
		if block := strings.TrimPrefix(blocks[i], "go\n"); !strings.Contains(code.String(), block) {
			t.Errorf("not to be found here:\n%s", block)
		}
	}
}

func Example() {
	main()
	// Output:
	// Please call me Anna.
	// <working-memory data>
	// profile.preferred_name: Anna
	// </working-memory>
	// Good morning!
	// _layers/working-memory/resource/anna/state
}
