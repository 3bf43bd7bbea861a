package strata_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A program of a user, a module of its own, that imports memory, layers and the
// engine in memory.
const userProgram = `package main

import (
	_ "github.com/stratamem/strata/layers"
	_ "github.com/stratamem/strata/memory"
	_ "github.com/stratamem/strata/storage/mem"
)

func main() {}
`

// What such a program links, and requires in its go.mod: nothing of the other
// engines, the tool, the tokenizers or the exporters.
var userModules = []string{
	"example.com/agent",
	"github.com/cespare/xxhash/v2",
	"github.com/go-logr/logr",
	"github.com/go-logr/stdr",
	"github.com/google/jsonschema-go",
	"github.com/google/uuid",
	"github.com/kljensen/snowball",  // the layers that recall stem words
	"github.com/klauspost/compress", // records are packed
	"github.com/stratamem/strata",
	"github.com/tidwall/btree",
	"go.opentelemetry.io/auto/sdk",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/log",
	"go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/trace",
}

// userModule writes the module of a user with a program, and returns its
// directory.
func userModule(t *testing.T, program string) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.go": program,
		"go.mod": "module example.com/agent\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module +
			" => " + strconv.Quote(filepath.ToSlash(root)) + "\n",
		"go.sum": string(sums),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestReadme builds each Go program in README.md as it stands there.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("README.md has no Go code")
	}
	example, err := os.ReadFile("examples/loop/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range blocks {
		code, _, closed := strings.Cut(block, "```\n")
		if !closed {
			t.Fatal("a block of README.md has no end")
		}
		if i == 0 && !strings.HasSuffix(string(example), "\n"+code) {
			t.Error("the loop of README.md is not that of examples/loop")
		}
		build := exec.Command("go", "build", "-mod=mod", "-o", os.DevNull, ".")
		build.Dir = userModule(t, code)
		build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("block %d of README.md: %v\n%s", i+1, err, out)
		}
	}
}

func TestUnusedEnginesStayOut(t *testing.T) {
	dir := userModule(t, userProgram)
	list := exec.Command("go", "list", "-mod=mod", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Dir = dir
	list.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the modules of a user's program: %v", err)
	}
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	linked = slices.Compact(linked)
	for _, m := range linked {
		if !slices.Contains(userModules, m) {
			t.Errorf("a program with memory, layers and storage/mem links %s", m)
		}
	}
	for _, m := range userModules {
		if !slices.Contains(linked, m) {
			t.Errorf("a program with memory, layers and storage/mem does not link %s any more: take it off the list", m)
		}
	}
	required, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"go.etcd.io/bbolt", "github.com/spf13/cobra", "github.com/openai/openai-go", "github.com/pkoukk/tiktoken-go", "go.opentelemetry.io/otel/sdk"} {
		if strings.Contains(string(required), m) {
			t.Errorf("the go.mod of a program with memory, layers and storage/mem requires %s", m)
		}
	}
}
