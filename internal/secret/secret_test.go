package secret_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/internal/secret"
)

// made returns n letters and digits that no provider gave to anybody.
func made(n int) string { return strings.Repeat("x7Kq2mVb9Zt4Lw", n/14+1)[:n] }

// madeHex returns n digits of base 16.
func madeHex(n int) string { return strings.Repeat("3fa9c0d17be4", n/12+1)[:n] }

// block is a private key in its armour.
func block(label, newline string) string {
	lines := []string{"-----BEGIN " + label + "-----", made(64), made(64), made(20) + "==", "-----END " + label + "-----"}
	return strings.Join(lines, newline)
}

func TestRedact(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"key sk-proj-" + made(40) + "_" + made(20) + ", thanks", "key [redacted: OpenAI key], thanks"},
		{"sk-" + madeHex(32), "[redacted: OpenAI key]"},
		{"sk-ant-api03-" + made(80) + "-AA.", "[redacted: Anthropic key]."},
		{"OPENROUTER=sk-or-v1-" + madeHex(64), "OPENROUTER=[redacted: OpenRouter key]"},
		{"密钥AIza" + made(35) + "。", "密钥[redacted: Google key]。"},
		{"AKIA" + strings.ToUpper(made(16)) + " us-east-1", "[redacted: AWS key id] us-east-1"},
		{"AWS_SECRET_ACCESS_KEY=" + made(40) + "\n", "AWS_SECRET_ACCESS_KEY=[redacted: AWS secret key]\n"},
		{`"SecretAccessKey": "` + made(38) + `+/"`, `"SecretAccessKey": "[redacted: AWS secret key]"`},
		{"AccountName=a;AccountKey=" + made(86) + "==;X=1", "AccountName=a;AccountKey=[redacted: Azure storage key];X=1"},
		{"ghp_" + made(36), "[redacted: GitHub token]"},
		{"(github_pat_" + made(22) + "_" + made(59) + ")", "([redacted: GitHub token])"},
		{"glpat-" + made(20), "[redacted: GitLab token]"},
		{"npm_" + made(36), "[redacted: npm token]"},
		{"xoxb-1234567890-" + made(24), "[redacted: Slack token]"},
		{"https://hooks.slack.com/services/T0000/B0000/" + made(24), "https://[redacted: Slack webhook]"},
		{"sk_live_" + made(24), "[redacted: Stripe key]"},
		{"SG." + made(22) + "." + made(43), "[redacted: SendGrid key]"},
		{"hf_" + made(34), "[redacted: Hugging Face token]"},
		{"AGE-SECRET-KEY-1" + strings.ToUpper(made(58)), "[redacted: age key]"},

		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + made(43) + ". Next", "[redacted: JSON Web Token]. Next"},
		{"eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.", "[redacted: JSON Web Token]."},
		{"eyJlbmMiOiJBMTI4R0NNIn0." + made(40) + "." + made(16) + "." + made(30) + "." + made(22), "[redacted: JSON Web Token]"},
		{"Authorization: Bearer " + made(12), "Authorization: Bearer [redacted: bearer token]"},
		{"-H 'authorization: Basic dXNlcjpwYXNz'", "-H 'authorization: Basic [redacted: password]'"},
		{`{"Authorization":"Bearer ` + made(30) + `"}`, `{"Authorization":"Bearer [redacted: bearer token]"}`},

		{"postgres://anna:hunter2@db.example.org:5432/x?a=b", "postgres://anna:[redacted: password]@db.example.org:5432/x?a=b"},
		{"redis://:p%40ss@host", "redis://:[redacted: password]@host"},
		{"amqp://u:p@ss@host/v", "amqp://u:[redacted: password]@host/v"},
		{"two: http://a:b@c and http://d:e@f", "two: http://a:[redacted: password]@c and http://d:[redacted: password]@f"},

		{"here:\n" + block("RSA PRIVATE KEY", "\n") + "\nthat was it", "here:\n[redacted: private key]\nthat was it"},
		{`{"private_key":"` + block("PRIVATE KEY", `\n`) + `\n"}`, `{"private_key":"[redacted: private key]\n"}`},
		{block("PGP PRIVATE KEY BLOCK", "\r\n"), "[redacted: private key]"},
		{"-----BEGIN EC PRIVATE KEY-----\n" + made(64) + "\n" + made(30) + "\n\nHow do I use it?", "[redacted: private key]\n\nHow do I use it?"},
		{block("PRIVATE KEY", "\n") + block("PRIVATE KEY", "\n"), "[redacted: private key][redacted: private key]"},
	} {
		got, found := secret.Redact(c.text)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Redact(%q) (-want +got):\n%s", c.text, diff)
		}
		if n := strings.Count(c.want, "[redacted: "); len(found) != n {
			t.Errorf("Redact(%q) found %q, want %d", c.text, found, n)
		}
		if again, found := secret.Redact(got); again != got || found != nil {
			t.Errorf("Redact(%q) = %q, %q: what was redacted is no secret", got, again, found)
		}
	}
}

// What looks a little like a secret is left alone.
func TestNoSecret(t *testing.T) {
	for _, text := range []string{
		"", "s", "sk-", "the task-force of sk-learn-version-1-2-3-and-its-friends",
		"sk-fading-circle-12-before-the-animation", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", "eyJhbGciOiJIUzI1NiJ9.txt is a file",
		"AKIA is how they begin", "AKIAABCDEFGHIJKLMNOPQRSTUVWXYZ", "ghp_short", "hf_hub_download",
		"https://example.org/a:b@c", "https://example.org:8080/x", "mailto:anna@example.org", "http://anna@example.org",
		"://a:b@c", "see http://a:@b", "git@github.com:stratamem/strata.git",
		"Bearer tokens are explained here", "bearer of internationalization-2-good-news",
		"The file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
		"-----BEGIN PRIVATE KEY-----\n", block("CERTIFICATE", "\n"), block("PUBLIC KEY", "\n"),
		"aws_secret_access_key = os.environ['KEY']", "SecretAccessKey", "AccountKey=...",
		madeHex(40), "commit " + madeHex(40), "sha256-" + made(43) + "=",
	} {
		if got, found := secret.Redact(text); got != text || found != nil {
			t.Errorf("Redact(%q) = %q, %q; want it as it is", text, got, found)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("x sk-" + made(40) + " postgres://a:b@c eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig")
	f.Add(block("PRIVATE KEY", "\n") + "AWS_SECRET_ACCESS_KEY=" + made(40) + "Authorization: Basic dXNlcjpwYXNz")
	f.Fuzz(func(t *testing.T, text string) {
		got, found := secret.Redact(text)
		if (got == text) != (found == nil) {
			t.Fatalf("Redact(%q) = %q, but found %q", text, got, found)
		}
		if again, _ := secret.Redact(got); again != got {
			t.Fatalf("Redact(%q) = %q, and that becomes %q", text, got, again)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	text := strings.Repeat("A deploy of the task-runner failed: see https://ci.example.org:8080/runs/4711, "+
		"it says \"permission denied\" for the bearer of the token.\n", 30)
	if allocs := testing.AllocsPerRun(10, func() { secret.Redact(text) }); allocs > 0 {
		b.Fatalf("%v allocations where there is no secret", allocs)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		secret.Redact(text)
	}
}
