package soma_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage/vault"
)

// unpack makes a directory of an archive.
func unpack(t *testing.T, archive string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOlderLinks opens a vault that the program wrote that had ids and objects, not
// wikilinks, in the fields of links: all of it holds, and the files stay as they are.
func TestOlderLinks(t *testing.T) {
	dir := unpack(t, "testdata/older.txtar")
	_, s := openVault(t, dir, &vault.Options{Files: []string{soma.GovernancePrefix}})
	if n, err := s.Sync(t.Context()); n != 7 || err != nil {
		t.Error(n, err)
	}
	if held, err := s.Quarantined(t.Context()); len(held) != 0 || err != nil {
		t.Error(held, err)
	}
	for _, id := range []string{"deploys-fail", "canon-deploys-fail", "deploy-daily"} {
		_, cited, err := s.Evidence(t.Context(), id)
		if err != nil || cited[0].Entity == nil || cited[0].Changed || cited[0].Digest == "" {
			t.Error(id, cited, err)
		}
	}
	conflicts, err := s.Conflicts(t.Context(), "deploys-hold")
	if err != nil || len(conflicts) != 1 || conflicts[0].ID != "canon-deploys-fail" {
		t.Error(conflicts, err)
	}
	for id, want := range map[string][]string{
		"canon-deploys-fail": {"deploy-daily", "deploys-hold"}, "deploy-41-timed-out": {"Big", "canon-deploys-fail", "deploy-daily", "deploys-fail", "deploys-hold"},
		"Big": {"deploy-41-timed-out"},
	} {
		var got []string
		for e, err := range s.FindLinked(t.Context(), id, soma.AllTeams) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.ID)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(id, diff)
		}
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := read("policy/deploy-daily.md")
	// The same again is the same.
	w := s.As(anna)
	if _, err := w.Create(t.Context(), &soma.Entity{
		Type: "policy", Name: "Deploy daily", Layer: soma.Emerging, Body: "See [[canon-deploys-fail]].", DecayAt: s.ComputeL3DecayAt(clockOf(t, s, "deploy-daily")),
		Fields: map[string]any{soma.FieldConfidence: 0.8, soma.FieldEvidence: []any{"deploy-41-timed-out"}, "contradicts": []any{"canon-deploys-fail"}},
	}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, read("policy/deploy-daily.md")); diff != "" {
		t.Error(diff)
	}
	// A change of the evidence makes wikilinks of it, and keeps what was cited when.
	digest := func() string {
		e, err := s.Read(t.Context(), "deploy-daily")
		if err != nil {
			t.Fatal(err)
		}
		return e.Evidence()[0].Digest
	}
	was := digest()
	if _, err := w.Update(t.Context(), "deploy-daily", map[string]any{soma.FieldEvidence: []any{"deploy-41-timed-out", "gone"}, "contradicts": []any{"canon-deploys-fail"}}); err != nil {
		t.Fatal(err)
	}
	text := read("policy/deploy-daily.md")
	for _, line := range []string{
		`evidence_links: ["[[execution/deploy-41-timed-out]]", "[[gone]]"]`, `contradicts: ["[[insight/canon-deploys-fail]]"]`,
		`evidence_digests: {"deploy-41-timed-out":"` + was + `"}`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	if digest() != was || was == "" {
		t.Error(was, digest())
	}
}

func clockOf(t *testing.T, s *soma.Store, id string) (at time.Time) {
	t.Helper()
	e, err := s.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return e.Created
}
