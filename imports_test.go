package strata_test

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stratamem/strata"

// anything in a rule's packages admits all of ours, except what nobody imports.
const anything = "*"

// rule says what a package may import: packages of ours, relative to the
// repository, and modules of others. The standard library is free.
type rule struct {
	pkg      string // relative to the repository; "x/*" is every package below x
	packages []string
	modules  []string
	tests    []string // modules that its tests may import beside those and testModules
}

// rules are the table of DESIGN.md, "Who may import whom". A package without
// a rule, and a module in a rule that its package does not import, fail the
// test: the table says what is so. So does an import that the go.mod of the
// package does not require: in a workspace it builds, and for users it does not.
var rules = []rule{
	{pkg: "."},
	{pkg: "internal/jsonvalue", packages: []string{"internal/appendjson"}},
	{pkg: "storage", packages: []string{"internal/jsonvalue"}},
	{pkg: "storage/engine", packages: []string{"storage", "internal/jsonvalue"}},
	{pkg: "storage/backup", packages: []string{"storage", "internal/appendjson"}},
	{pkg: "storage/mem", packages: engine, modules: []string{"github.com/tidwall/btree"}},
	{pkg: "storage/bolt", packages: engine, modules: []string{"go.etcd.io/bbolt"}},
	{pkg: "storage/badger", packages: engine, modules: []string{"github.com/dgraph-io/badger/v4"}},
	{pkg: "storage/vault", packages: engine, modules: []string{
		"github.com/tidwall/btree",
		"golang.org/x/sys",
		"golang.org/x/text", // names of files: normal forms
		"gopkg.in/yaml.v3",
	}},
	{pkg: "internal/addition"},
	{pkg: "internal/appendjson"},
	{pkg: "internal/levels", packages: []string{"storage"}},
	{pkg: "internal/secret"},
	{pkg: "internal/recent"},
	{pkg: "internal/pack", modules: []string{"github.com/klauspost/compress"}},
	{pkg: "storage/search", packages: []string{"storage", "internal/levels", "internal/pack", "internal/recent"}, modules: []string{"github.com/kljensen/snowball"}},
	{pkg: "soma/guard", modules: []string{"github.com/expr-lang/expr"}},
	{pkg: "soma", packages: []string{"storage", "storage/search", "internal/jsonvalue"}, modules: []string{
		"golang.org/x/text", // NFC and NFD forms of an id are one
	}},
	{pkg: "storage/docs", packages: []string{"storage", "storage/search"}},
	// Reading files is apart, so that who only searches links no parser of HTML.
	{pkg: "storage/docs/source", packages: []string{"storage/docs"}, modules: []string{"golang.org/x/net"}},
	{pkg: "storage/vector", packages: []string{"storage", "internal/levels"}},
	{pkg: "storage/open", packages: []string{"storage", "storage/badger", "storage/bolt", "storage/mem", "storage/vault"}},
	// The suite compares engines with the one that is simple enough to be right.
	{pkg: "storage/storagetest", packages: []string{"storage", "storage/backup", "storage/mem"}, modules: []string{"github.com/google/go-cmp"}},

	{pkg: "projection", packages: []string{"internal/appendjson"}},
	{pkg: "projection/tiktoken", packages: []string{"projection"}},
	{pkg: "projection/tiktoken/internal/corpus"},
	{pkg: "projection/tiktoken/reference", packages: []string{"projection", "projection/tiktoken"}, modules: tiktokenGo},
	{pkg: "projection/tiktoken/reference/generate", modules: []string{"github.com/pkoukk/tiktoken-go-loader"}},

	{pkg: "adapters/adaptertest", packages: []string{"projection"}, modules: []string{"github.com/google/go-cmp"}},

	{pkg: "memory/internal/stored", packages: []string{"storage", "projection", "internal/addition", "internal/appendjson", "internal/pack"}},
	{pkg: "memory/thread", packages: []string{"storage", "projection", "memory/internal/stored"}},
	{pkg: "memory", packages: []string{"storage", "projection", "memory/thread", "memory/internal/stored", "internal/appendjson", "internal/pack"}, modules: []string{
		"github.com/google/jsonschema-go",
		"github.com/google/uuid",
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/trace",
	}, tests: otelSDK},
	{pkg: "memory/layertest", packages: []string{"memory", "projection", "storage", "storage/mem", "storage/storagetest"}, modules: []string{"github.com/google/go-cmp"}},
	// A layer's records are read with the options and errors of storage.
	{pkg: "layers", packages: []string{"memory", "projection", "storage", "internal/levels", "internal/pack", "internal/recent", "internal/secret", "storage/docs", "storage/search", "storage/vector"}},

	{pkg: "internal/transcript", packages: []string{"projection"}},
	{pkg: "internal/demo", packages: []string{"internal/transcript"}},
	{pkg: "cmd/strata/internal/otlpfile", modules: []string{
		"go.opentelemetry.io/otel/exporters/otlp/otlptrace",
		"go.opentelemetry.io/proto/otlp",
		"google.golang.org/protobuf",
	}, tests: slices.Concat(otelSDK, []string{"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"})},
	{pkg: "internal/killtest"},
	{pkg: "cmd/strata/internal/otlptest", modules: []string{"go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf"}},

	{pkg: "examples/*", packages: []string{anything}},
	{pkg: "bench", packages: []string{anything, "bench/locomo"}, modules: []string{
		// Used directly, beside our engines.
		"github.com/dgraph-io/badger/v4",
		"go.etcd.io/bbolt",
		"golang.org/x/sys",
	}},
	{pkg: "bench/locomo", packages: []string{"storage/search"}},
	{pkg: "bench/recall", packages: []string{anything, "bench", "bench/locomo"}},
	{pkg: "bench/recall/generate"},
	{pkg: "bench/recall/rivals", packages: []string{anything, "bench", "bench/locomo", "bench/recall"}, modules: []string{
		"github.com/blevesearch/bleve/v2",
		"modernc.org/sqlite",
	}},
	{pkg: "cmd/strata", packages: []string{anything, "bench", "bench/locomo", "bench/recall"}, modules: []string{
		"charm.land/bubbletea/v2", // the full-screen review
		"github.com/openai/openai-go/v3",
		"github.com/spf13/cobra",
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
		"go.opentelemetry.io/otel/sdk",
		"go.opentelemetry.io/otel/trace",
		"golang.org/x/term",
		"golang.org/x/text",
	}},
}

var (
	engine = []string{"storage", "storage/engine"}
	// tiktokenGo counts tokens as projection/tiktoken does, more slowly.
	tiktokenGo = []string{"github.com/pkoukk/tiktoken-go", "github.com/pkoukk/tiktoken-go-loader"}
	otelSDK    = []string{
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/trace",
		"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/sdk/metric",
	}
	// testModules are what every test may import.
	testModules = []string{"github.com/google/go-cmp", "github.com/rogpeppe/go-internal"}
)

// nobody imports these, unless a rule names them. Tests may import all others.
// Go itself holds who may import what is internal to an edge.
func isEdge(pkg string) bool {
	if strings.Contains(pkg, "/internal/") {
		return false
	}
	return pkg == "bench" || strings.HasPrefix(pkg, "bench/") || strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "examples/")
}

func TestImports(t *testing.T) {
	all, mods := readImports(t), readModules(t)
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		r, ok := ruleOf(pkg)
		if !ok {
			t.Errorf("package %s has no rule: add one to imports_test.go and to the table in DESIGN.md", pkg)
			continue
		}
		used, mod := map[string]bool{}, moduleOf(mods, pkg)
		for _, im := range all[pkg] {
			why := cmp.Or(r.check(pkg, im, mod.known, used), mod.lacks(mods, im.path))
			if why != "" {
				t.Errorf("%s imports %s: %s", im.file, im.path, why)
			}
		}
		for _, m := range r.modules {
			if !used[m] {
				t.Errorf("package %s may import %s and does not: take it out of its rule", pkg, m)
			}
		}
	}
}

// check says why a package must not import something, or "". known are the
// modules that there are; those that the package imports are put into used.
func (r rule) check(pkg string, im imported, known []string, used map[string]bool) string {
	if im.path == module || strings.HasPrefix(im.path, module+"/") {
		target := path.Join(".", strings.TrimPrefix(strings.TrimPrefix(im.path, module), "/"))
		if target == "" {
			target = "."
		}
		switch {
		case target == pkg, slices.Contains(r.packages, target):
			return ""
		case !isEdge(target) && (im.test || slices.Contains(r.packages, anything)):
			return ""
		case len(r.packages) == 0:
			return pkg + " imports none of our packages"
		}
		return pkg + " imports of our packages only " + strings.Join(r.packages, ", ")
	}
	if first, _, _ := strings.Cut(im.path, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	allowed := r.modules
	if im.test {
		allowed = slices.Concat(r.modules, r.tests, testModules)
	}
	// The longest module that the path begins with is the one it is of.
	var of string
	for _, m := range slices.Concat(known, allowed) {
		if (im.path == m || strings.HasPrefix(im.path, m+"/")) && len(m) > len(of) {
			of = m
		}
	}
	if slices.Contains(allowed, of) {
		if !im.test {
			used[of] = true
		}
		return ""
	}
	if len(allowed) == 0 {
		return pkg + " imports no module of others"
	}
	return pkg + " imports of other modules only " + strings.Join(allowed, ", ")
}

// ownModule is a module of this repository.
type ownModule struct {
	dir, path string   // the directory relative to the repository
	requires  []string // the modules in its go.mod that its packages import
	known     []string // all that are there
}

// readModules returns the modules of the repository, by their directories.
func readModules(t *testing.T) map[string]ownModule {
	t.Helper()
	all := map[string]ownModule{}
	walk(t, func(name string) error {
		if path.Base(name) != "go.mod" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		m := ownModule{dir: path.Dir(name)}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
			first, rest, _ := strings.Cut(line, " ")
			switch {
			case first == "module":
				m.path = rest
			case strings.HasPrefix(rest, "v"):
				m.known = append(m.known, first)
				if !strings.HasSuffix(rest, "// indirect") {
					m.requires = append(m.requires, first)
				}
			}
		}
		all[m.dir] = m
		return nil
	})
	return all
}

// moduleOf returns the module that a package is of.
func moduleOf(mods map[string]ownModule, pkg string) ownModule {
	for dir := pkg; ; dir = path.Dir(dir) {
		if m, ok := mods[dir]; ok || dir == "." {
			return m
		}
	}
}

// lacks says that the go.mod of a module does not require what one of its
// packages imports, or "".
func (m ownModule) lacks(mods map[string]ownModule, imported string) string {
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if rest, ok := strings.CutPrefix(imported+"/", module+"/"); ok {
		if of := moduleOf(mods, path.Clean(rest)); of.path == m.path || slices.Contains(m.requires, of.path) {
			return ""
		}
	} else if slices.ContainsFunc(m.requires, func(r string) bool { return imported == r || strings.HasPrefix(imported, r+"/") }) {
		return ""
	}
	return path.Join(m.dir, "go.mod") + " does not require it"
}

func ruleOf(pkg string) (rule, bool) {
	for _, r := range rules {
		below, all := strings.CutSuffix(r.pkg, "/*")
		if r.pkg == pkg || all && strings.HasPrefix(pkg, below+"/") {
			return r, true
		}
	}
	return rule{}, false
}

// imported is an import of a file.
type imported struct {
	path string
	file string
	test bool
}

// readImports returns the imports of every package of the repository, whatever
// system its files are for.
func readImports(t *testing.T) map[string][]imported {
	t.Helper()
	all := map[string][]imported{}
	walk(t, func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(name)
		if _, ok := all[pkg]; !ok {
			all[pkg] = nil
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all[pkg] = append(all[pkg], imported{path: p, file: name, test: strings.HasSuffix(name, "_test.go")})
		}
		return nil
	})
	for _, list := range all {
		slices.SortFunc(list, func(a, b imported) int {
			return cmp.Or(strings.Compare(a.file, b.file), strings.Compare(a.path, b.path))
		})
	}
	return all
}

// walk calls f for every file of the repository that a package may have, by its
// name with slashes.
func walk(t *testing.T, f func(name string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		return f(filepath.ToSlash(name))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRules proves that the test above can fail.
func TestRules(t *testing.T) {
	mods := readModules(t)
	for _, test := range []struct {
		pkg, path string
		test      bool
		why       string
	}{
		{"storage", "fmt", false, ""},
		{"storage", module + "/projection", false, "storage imports of our packages only internal/jsonvalue"},
		{"soma/guard", module + "/storage", false, "soma/guard imports none of our packages"},
		{"storage", module + "/projection", true, ""},
		{"storage", module + "/cmd/strata", true, "of our packages only"},
		{"storage", "github.com/google/go-cmp/cmp", false, "storage imports no module of others"},
		{"storage", "github.com/google/go-cmp/cmp", true, ""},
		{"storage/mem", "github.com/tidwall/btree", false, ""},
		{"storage/mem", "github.com/tidwall/btreeplus", false, "only github.com/tidwall/btree"},
		{"storage/mem", module + "/storage/bolt", false, "only storage, storage/engine"},
		{"memory", "go.opentelemetry.io/otel/attribute", false, ""},
		{"memory", "go.opentelemetry.io/otel/sdk/trace", false, "of other modules only"},
		{"memory", "go.opentelemetry.io/otel/log", false, "of other modules only"},
		{"memory", "go.opentelemetry.io/otel/sdk/trace", true, ""},
		{"memory", module + "/layers", false, "only storage, projection"},
		{"bench", module + "/layers", false, ""},
		{"bench", module + "/cmd/strata", false, "of our packages only *"},
		{"cmd/strata", module + "/bench", false, ""},
		{"layers", module + "/bench", false, "of our packages only"},
	} {
		r, ok := ruleOf(test.pkg)
		if !ok {
			t.Fatalf("no rule for %s", test.pkg)
		}
		got := r.check(test.pkg, imported{path: test.path, test: test.test}, moduleOf(mods, test.pkg).known, map[string]bool{})
		if (got == "") != (test.why == "") || !strings.Contains(got, test.why) {
			t.Errorf("%s imports %s: %q, want %q", test.pkg, test.path, got, test.why)
		}
	}
	if _, ok := ruleOf("storage/unheard-of"); ok {
		t.Error("a package that nobody heard of has a rule")
	}
	for _, test := range []struct {
		pkg, path string
		lacks     bool
	}{
		{"memory", "fmt", false},
		{"memory", module + "/storage", false},
		{"memory", module + "/projection/tiktoken/reference", true}, // a module of its own
		{"memory", "github.com/spf13/cobra", true},                  // required by the tool
		{"memory", "google.golang.org/protobuf/proto", true},        // not directly
		{"cmd/strata", "github.com/spf13/cobra", false},
		{"cmd/strata", module + "/internal/demo", false},
		{"cmd/strata/internal/otlpfile", module + "/projection/tiktoken/reference/generate", false},
		{"projection/tiktoken/reference", module + "/cmd/strata", true},
	} {
		if why := moduleOf(mods, test.pkg).lacks(mods, test.path); (why != "") != test.lacks {
			t.Errorf("%s imports %s: %q, want that its go.mod lacks it: %v", test.pkg, test.path, why, test.lacks)
		}
	}
}
