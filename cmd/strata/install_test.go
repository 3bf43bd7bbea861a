package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const library = "github.com/stratamem/strata"

// published are the modules that a proxy must have for the tool, by their
// directories in the repository.
var published = []string{".", "projection/tiktoken/reference", "cmd/strata"}

// TestInstall installs the tool as its users do, from a module proxy, where there
// is no go.work, and each module must have what it needs by itself. The proxy is
// made of the files that are here.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything that the tool links")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.work")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("not in a checkout of the repository")
	}
	version := requiredVersion(t, root)
	temp := t.TempDir()
	proxy, bin := filepath.Join(temp, "proxy"), filepath.Join(temp, "bin")
	for _, dir := range published {
		publish(t, proxy, root, dir, version)
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	install := exec.Command("go", "install", path.Join(library, "cmd/strata")+"@latest")
	install.Dir = temp
	install.Env = append(os.Environ(),
		"GOPROXY="+fileURL(proxy)+","+fileURL(filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")),
		"GOSUMDB=off", "GOWORK=", "GOBIN="+bin, "GOMODCACHE="+filepath.Join(temp, "mod"),
		"GOFLAGS=-modcacherw -trimpath") // -trimpath: what is compiled can be used by the next run
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(bin, "strata")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	out, err := exec.Command(program, "version").Output()
	if want := "strata " + version + " "; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("strata version: %v, %q, want %q", err, out, want)
	}
	if out, err := exec.Command(program, "demo").CombinedOutput(); err != nil || len(out) == 0 {
		t.Errorf("strata demo: %v\n%s", err, out)
	}
}

// requiredVersion returns the version at which the modules require each other:
// that of the next release, one for all.
func requiredVersion(t *testing.T, root string) string {
	t.Helper()
	version := ""
	requirement := regexp.MustCompile(`(?m)^\s*(?:require |replace )?(` + library + `\S*) (v\S+)`)
	for _, name := range []string{"go.work", "cmd/strata/go.mod", "projection/tiktoken/reference/go.mod"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		found := requirement.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Fatalf("%s names no module of ours with a version", name)
		}
		for _, m := range found {
			if version == "" {
				version = m[2]
			}
			if m[2] != version {
				t.Fatalf("%s: %s is %s, elsewhere the modules are %s", name, m[1], m[2], version)
			}
		}
	}
	return version
}

// publish puts a module into a proxy, as https://go.dev/ref/mod#goproxy-protocol
// has it. Modules below it are not part of it.
func publish(t *testing.T, proxy, root, dir, version string) {
	t.Helper()
	from, name := filepath.Join(root, filepath.FromSlash(dir)), path.Join(library, dir)
	to := filepath.Join(proxy, filepath.FromSlash(name), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"list":            version + "\n",
		version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-11-22T00:00:00Z"}`, version),
		version + ".mod":  string(mod),
	} {
		if err := os.WriteFile(filepath.Join(to, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(to, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	err = errors.Join(zipModule(w, from, name+"@"+version), w.Close(), f.Close())
	if err != nil {
		t.Fatal(err)
	}
}

// zipModule writes the files of a module below a name.
func zipModule(w *zip.Writer, from, name string) error {
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != from {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if err == nil || strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
		}
		if !d.Type().IsRegular() {
			return nil
		}
		inside, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		to, err := w.Create(name + "/" + filepath.ToSlash(inside))
		if err != nil {
			return err
		}
		data, err := os.Open(file)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, data)
		return errors.Join(err, data.Close())
	})
}

// fileURL is the URL of a directory.
func fileURL(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir // C:/ of Windows
	}
	return "file://" + dir
}
