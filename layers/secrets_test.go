package layers_test

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

const (
	madeKey      = "sk-proj-Zq8Xw3Lk5Vn1Rt7Yb2Mc9Fd4Gh6Jp"
	madePassword = "correct-horse-battery"
	madeURL      = "postgres://anna:" + madePassword + "@db/x"
)

// Nothing of a secret is in the prompt or in the store, whichever way it came, and
// the report and the stored turn say how many there were.
func TestSecrets(t *testing.T) {
	store := openMem(t)
	m := remember(t, store, layers.Secrets(nil), layers.WorkingMemory(nil), layers.Entity(nil),
		layers.Observations(nil), layers.Episodic(nil), layers.SemanticRecall(nil))
	c := talk(t, m, "t", "anna")
	note := func() string {
		for _, h := range c.run.Report().Hooks {
			if h.Layer == "secrets" && h.Hook == "append" && h.Note != "" {
				return h.Note
			}
		}
		return ""
	}
	file := projection.Part{Type: projection.FilePart, MediaType: "text/x-shellscript", Data: []byte("export KEY=" + madeKey)}
	picture := projection.Part{Type: projection.ImagePart, URL: "https://u:" + madePassword + "@host/p.png", Data: []byte{0xff, 0xd8, 0xff}}
	told := projection.Text(projection.User, "Remember that my name is Anna Berg and my key is "+madeKey+", use it")
	told.Parts = append(told.Parts, file, picture)
	given := told.Parts[1]

	view, err := c.run.Project(t.Context(), told)
	if err != nil {
		t.Fatal(err)
	}
	if got := view.AppendText(nil); bytes.Contains(got, []byte(madeKey)) || !bytes.Contains(got, []byte("my key is [redacted: OpenAI key], use it")) {
		t.Errorf("the prompt: %s", got)
	}
	if diff := cmp.Diff(projection.Part{Type: projection.FilePart, MediaType: "text/x-shellscript", Data: []byte("export KEY=" + madeKey)}, given); diff != "" {
		t.Errorf("what the host gave was changed (-before +after):\n%s", diff)
	}
	if got, want := note(), "3 secrets were redacted: OpenAI key (2), password"; got != want {
		t.Errorf("note %q, want %q", got, want)
	}
	c.settle(func() error {
		return c.run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Call("c1", "read", `{"file":".env"}`)}})
	})
	result := projection.Result("c1", "DATABASE="+madeURL)
	result.Failed = true
	if _, err := c.run.Project(t.Context(), result); err != nil {
		t.Fatal(err)
	}
	c.commit("It is set.")
	if got := note(); got != "1 secret was redacted: password" {
		t.Errorf("note %q", got)
	}
	c.say("Thank you", "Gladly")
	if got := note(); got != "" {
		t.Errorf("note %q of a turn without a secret", got)
	}
	c.end()

	for _, secret := range []string{madeKey, madePassword} {
		encoded := base64.StdEncoding.EncodeToString([]byte("xx" + secret))[4:24]
		for e, err := range storage.Scan(t.Context(), store, "", nil) {
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(e.Value, []byte(secret)) || bytes.Contains(e.Value, []byte(encoded)) || strings.Contains(e.Key, secret) {
				t.Errorf("the record %s has a secret", e.Key)
			}
		}
	}
	var notes []string
	for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range turn.Hooks {
			if h.Layer == "secrets" {
				notes = append(notes, h.Note)
			}
		}
	}
	if want := []string{"3 secrets were redacted: OpenAI key (2), password", "1 secret was redacted: password"}; !slices.Equal(notes, want) {
		t.Errorf("stored notes %q, want %q", notes, want)
	}
}

// A response passes no Append hook; Redact does the same to it.
func TestRedact(t *testing.T) {
	plain := []projection.Item{projection.Text(projection.Assistant, "Nothing here"), projection.Call("c", "sh", `{"cmd":"ls"}`)}
	if got, found := layers.Redact(plain); &got[0] != &plain[0] || found != nil {
		t.Errorf("without a secret: %v, %q", got, found)
	}
	items := []projection.Item{plain[0], projection.Call("c", "sh", `{"cmd":"curl -H \"Authorization: Bearer abcdef123456\""}`), projection.Thought("use " + madeKey)}
	got, found := layers.Redact(items)
	want := []projection.Item{
		plain[0], projection.Call("c", "sh", `{"cmd":"curl -H \"Authorization: Bearer [redacted: bearer token]\""}`),
		projection.Thought("use [redacted: OpenAI key]"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bearer token", "OpenAI key"}, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if items[2].Text() != "use "+madeKey {
		t.Error("what was given was changed")
	}
	if got, found := layers.Redact(nil); got != nil || found != nil {
		t.Errorf("of nothing: %v, %q", got, found)
	}
}
