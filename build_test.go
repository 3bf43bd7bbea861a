package strata_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a program of a user links: with memory, layers and an engine nothing of
// the other engines, the tool, the tokenizers, the exporters and the SDKs.
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
	for engine, modules := range map[string][]string{
		"mem":  {"github.com/tidwall/btree"},
		"bolt": {"go.etcd.io/bbolt", "golang.org/x/sys"},
	} {
		t.Run(engine, func(t *testing.T) {
			dir := userModule(t, fmt.Sprintf("package main\n\nimport (\n\t_ %q\n\t_ %q\n\t_ %q\n)\n\nfunc main() {}\n",
				module+"/layers", module+"/memory", module+"/storage/"+engine))
			want := slices.Sorted(slices.Values(slices.Concat(userModules, modules)))
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
			if diff := cmp.Diff(want, slices.Compact(linked)); diff != "" {
				t.Errorf("the modules that it links (-want +got):\n%s", diff)
			}
			required, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range append(sdks, "go.etcd.io/bbolt", "github.com/dgraph-io/badger", "go.opentelemetry.io/otel/sdk") {
				if strings.Contains(string(required), m) && !slices.Contains(modules, m) {
					t.Errorf("its go.mod requires %s", m)
				}
			}
		})
	}
}

// sdks are what the tool and the comparisons need and the library does not: they
// are in the go.mod of a module of their own, so that no user downloads them.
var sdks = []string{
	"charm.land/", "github.com/charmbracelet/", "github.com/openai/", "github.com/spf13/", "github.com/pkoukk/",
	"go.opentelemetry.io/otel/exporters/", "go.opentelemetry.io/proto/", "google.golang.org/grpc", "google.golang.org/genproto/",
	"github.com/blevesearch/", "modernc.org/",
}

func TestLibraryRequiresNoSDK(t *testing.T) {
	mods := readModules(t)
	isSDK := func(m string) bool {
		return slices.ContainsFunc(sdks, func(sdk string) bool { return strings.HasPrefix(m, sdk) })
	}
	for _, m := range mods["."].known {
		if isSDK(m) {
			t.Errorf("the library's go.mod requires %s", m)
		}
	}
	if !slices.ContainsFunc(mods["cmd/strata"].known, isSDK) {
		t.Error("the tool's go.mod requires no SDK: the list above is of other modules")
	}
}
