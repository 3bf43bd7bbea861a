package vault_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

func TestFileOf(t *testing.T) {
	long := strings.Repeat("é", 200)
	for key, want := range map[string]string{
		"insight/retries": "insight/retries.md", "insight/a b-c_d.e~1": "insight/a b-c_d.e~1.md", "insight/README": "insight/^r^e^a^d^m^e.md",
		"insight/a%2Fb": "insight/a%2Fb.md", "insight/a/b": "insight/a=2Fb.md", "insight/a%2fb": "insight/a=252fb.md", "insight/%": "insight/=25.md",
		"insight/.git": "insight/=2Egit.md", "insight/con": "insight/=63on.md", "insight/com1.x": "insight/=63om1.x.md", "insight/nul": "insight/=6Eul.md",
		"insight/a=b": "insight/a=3Db.md", "insight/^a": "insight/=5Ea.md", `insight/a\b:c*d?e"f<g>h|i`: "insight/a=5Cb=3Ac=2Ad=3Fe=22f=3Cg=3Eh=7Ci.md",
		"insight/日本語": "insight/日本語.md", "insight/ü": "insight/ü.md", "insight/Ü": "insight/=C3=9C.md", "insight/ß": "insight/=C3=9F.md", "insight/한국": "insight/한국.md", "insight/\x00": "insight/=00.md", "insight/e\u0301": "insight/e=CC=81.md",
		"con/x": "=63on/x.md", "insight/" + long: "",
	} {
		dir, name, cut := vault.FileOf(key)
		got := dir + "/" + name
		if cut != (want == "") || want != "" && got != want {
			t.Errorf("FileOf(%.40q) = %q, %t, want %q", key, got, cut, want)
		}
		if len(name) > 200 || len(dir) > 200 {
			t.Errorf("FileOf(%.40q) has %d bytes", key, len(name))
		}
		if back, ok := vault.KeyOf(dir, name); !cut && (!ok || back != key) {
			t.Errorf("KeyOf(%q) = %q, %t, want %q", got, back, ok, key)
		}
	}
	for _, file := range []string{"insight/.x.md", "insight/x.txt", "Insight/x.md", "_data/x.md", ".git/x.md", "insight/=2E=2E.md", "insight/.md", "insight/a==00.md"} {
		if key, ok := vault.KeyOf(path.Dir(file), path.Base(file)); ok {
			t.Errorf("KeyOf(%q) = %q", file, key)
		}
	}
	if key, ok := vault.KeyOf("insight", "My Note é.md"); !ok || key != "insight/My Note é" {
		t.Errorf("a name by hand gives %q, %t", key, ok)
	}
}

// FuzzFileOf: different keys have different names, also where a file system
// folds case or normalizes, and a name that was not cut gives its key.
func FuzzFileOf(f *testing.F) {
	f.Add("a", "A")
	f.Add("é", "e\u0301")
	f.Add("a%2F", "a%2f")
	f.Add("ß", "ss")
	f.Add("\u1e9e", "ẞ")
	fold := cases.Fold()
	f.Fuzz(func(t *testing.T, a, b string) {
		same := func(name string) string { return norm.NFC.String(fold.String(norm.NFD.String(name))) }
		names := map[string]string{}
		for _, id := range []string{a, b, storage.EscapeSegment(a), storage.EscapeSegment(b)} {
			key := "doc/" + id
			if storage.ValidateKey(key) != nil {
				continue
			}
			dir, name, cut := vault.FileOf(key)
			if dir != "doc" || strings.ContainsAny(name, "/\\\x00") || len(name) > 200 || name[0] == '.' || !strings.HasSuffix(name, ".md") {
				t.Fatalf("%q has the file %q", key, name)
			}
			if norm.NFC.String(name) != name {
				t.Fatalf("%q has the file %q, which changes under normalization", key, name)
			}
			for _, kept := range []string{name, norm.NFD.String(name)} {
				if back, ok := vault.KeyOf(dir, kept); !cut && (!ok || back != key) {
					t.Fatalf("%q has the file %q, which gives %q, %t", key, kept, back, ok)
				}
			}
			if other, ok := names[same(name)]; ok && other != key {
				t.Fatalf("%q and %q have the same file %q", key, other, name)
			}
			names[same(name)] = key
		}
	})
}
