// Package secret finds credentials in text by their known forms: keys of
// providers, JSON Web Tokens, private keys, passwords in URLs, and credentials in
// the headers and settings that name them. It is not a judge of entropy: a
// password that stands in a sentence as a word is not found.
//
// The forms are those that the providers document, as collected in the rules of
// gitleaks and of GitHub's secret scanning. Text is read once, in linear time.
package secret

import (
	"slices"
	"strings"
)

// Redact returns text with every secret replaced by "[redacted: NAME]", and the
// names of what was found, one for each, in order. Text without a secret comes back
// as it is, without an allocation, and so does what Redact returned.
func Redact(text string) (clean string, found []string) {
	var b strings.Builder
	kept := 0 // text before it is in b
	for i := 0; i+1 < len(text); {
		if !begins.has(text[i], text[i+1]) || i > 0 && alnum(text[i-1]) && alnum(text[i]) {
			i++
			continue
		}
		name, from, to := match(text, i)
		if name == "" {
			i++
			continue
		}
		b.WriteString(text[kept:from])
		b.WriteString("[redacted: ")
		b.WriteString(name)
		b.WriteByte(']')
		found = append(found, name)
		i, kept = to, to
	}
	if found == nil {
		return text, nil
	}
	b.WriteString(text[kept:])
	return b.String(), found
}

// match returns the secret whose form begins at i: its name and where it is, which
// may be behind words that are kept.
func match(text string, i int) (name string, from, to int) {
	for _, f := range starters[text[i]] {
		if len(text)-i < len(f.prefix) || text[i:i+len(f.prefix)] != f.prefix &&
			(!f.fold || !strings.EqualFold(text[i:i+len(f.prefix)], f.prefix)) {
			continue
		}
		if from, to := f.end(text, i, i+len(f.prefix)); to > 0 {
			return f.name, from, to
		}
	}
	return "", 0, 0
}

// form is how a kind of secret looks.
type form struct {
	prefix string
	name   string
	fold   bool // the prefix, which is in lower case here, is found in any
	// end is given where the prefix begins and where it ends. It returns where the
	// secret is, or 0, 0 if there is none.
	end func(text string, prefix, rest int) (from, to int)
}

// starters are the forms by the first byte of their prefixes, and begins has the
// first two bytes: few pairs in a text are those, and only there is more to compare.
var starters, begins = func() (by [256][]form, pairs pairSet) {
	for _, f := range forms {
		for _, p := range []string{f.prefix, strings.ToUpper(f.prefix)} {
			if p != f.prefix && !f.fold {
				continue
			}
			if !slices.ContainsFunc(by[p[0]], func(g form) bool { return g.prefix == f.prefix }) {
				by[p[0]] = append(by[p[0]], f)
			}
			pairs.add(p[0], p[1])
			pairs.add(p[0], f.prefix[1])
			pairs.add(f.prefix[0], p[1])
		}
	}
	return by, pairs
}()

// pairSet is a set of pairs of bytes.
type pairSet [1 << 16 / 64]uint64

func (s *pairSet) add(a, b byte)      { s[int(a)<<2|int(b)>>6] |= 1 << (b & 63) }
func (s *pairSet) has(a, b byte) bool { return s[int(a)<<2|int(b)>>6]&(1<<(b&63)) != 0 }

// forms are all that is known. Of two that share a prefix the longer stands first.
var forms = []form{
	{"-----BEGIN ", "private key", false, privateKey},
	{"://", "password", false, password},
	{"eyJ", "JSON Web Token", false, webToken},

	{"sk-ant-", "Anthropic key", false, key(dashed, 24)},
	{"sk-or-v1-", "OpenRouter key", false, key(hex, 48)},
	{"sk-", "OpenAI key", false, randomKey(dashed, 20)},
	{"AIza", "Google key", false, exactKey(dashed, 35)},
	{"GOCSPX-", "Google OAuth secret", false, key(dashed, 24)},
	{"ya29.", "Google OAuth token", false, key(dashed, 20)},
	{"AKIA", "AWS key id", false, exactKey(upper, 16)},
	{"ASIA", "AWS key id", false, exactKey(upper, 16)},
	{"aws_secret_access_key", "AWS secret key", true, assigned(40)},
	{"secretaccesskey", "AWS secret key", true, assigned(40)},
	{"accountkey=", "Azure storage key", true, key(base64, 40)},
	{"sharedaccesskey=", "Azure access key", true, key(base64, 40)},
	{"hf_", "Hugging Face token", false, key(alnum, 30)},
	{"gsk_", "Groq key", false, key(alnum, 40)},
	{"xai-", "xAI key", false, key(alnum, 60)},
	{"pplx-", "Perplexity key", false, key(alnum, 40)},
	{"pa-", "Voyage key", false, randomKey(dashed, 40)},
	{"r8_", "Replicate token", false, key(alnum, 30)},
	{"nvapi-", "NVIDIA key", false, key(dashed, 40)},

	{"github_pat_", "GitHub token", false, key(word, 22)},
	{"ghp_", "GitHub token", false, key(alnum, 36)},
	{"gho_", "GitHub token", false, key(alnum, 36)},
	{"ghu_", "GitHub token", false, key(alnum, 36)},
	{"ghs_", "GitHub token", false, key(alnum, 36)},
	{"ghr_", "GitHub token", false, key(alnum, 36)},
	{"glpat-", "GitLab token", false, key(dashed, 20)},
	{"npm_", "npm token", false, key(alnum, 36)},
	{"pypi-AgE", "PyPI token", false, key(dashed, 50)},
	{"dckr_pat_", "Docker token", false, key(dashed, 20)},
	{"dop_v1_", "DigitalOcean token", false, key(hex, 64)},
	{"dapi", "Databricks token", false, key(hex, 32)},
	{"hvs.", "Vault token", false, key(dashed, 24)},
	{"lin_api_", "Linear key", false, key(alnum, 32)},
	{"ntn_", "Notion token", false, key(alnum, 40)},
	{"shpat_", "Shopify token", false, key(hex, 32)},
	{"sk_live_", "Stripe key", false, key(alnum, 16)},
	{"sk_test_", "Stripe key", false, key(alnum, 16)},
	{"rk_live_", "Stripe key", false, key(alnum, 16)},
	{"rk_test_", "Stripe key", false, key(alnum, 16)},
	{"whsec_", "Stripe webhook secret", false, key(base64, 24)},
	{"SG.", "SendGrid key", false, key(dotted, 60)},
	{"xoxb-", "Slack token", false, key(dashed, 20)},
	{"xoxp-", "Slack token", false, key(dashed, 20)},
	{"xoxa-", "Slack token", false, key(dashed, 20)},
	{"xoxe-", "Slack token", false, key(dashed, 20)},
	{"xoxr-", "Slack token", false, key(dashed, 20)},
	{"xoxs-", "Slack token", false, key(dashed, 20)},
	{"xapp-", "Slack token", false, key(dashed, 20)},
	{"hooks.slack.com/services/", "Slack webhook", false, key(path, 20)},
	{"AGE-SECRET-KEY-1", "age key", false, key(upper, 58)},

	{"authorization: bearer ", "bearer token", true, key(token68, 8)},
	{"authorization: basic ", "password", true, key(token68, 8)},
	{"bearer ", "bearer token", true, randomKey(token68, 20)},
}

// class is a set of bytes.
type class func(c byte) bool

func digit(c byte) bool   { return '0' <= c && c <= '9' }
func hex(c byte) bool     { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func upper(c byte) bool   { return digit(c) || 'A' <= c && c <= 'Z' }
func alnum(c byte) bool   { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }
func word(c byte) bool    { return alnum(c) || c == '_' }
func dashed(c byte) bool  { return word(c) || c == '-' }
func dotted(c byte) bool  { return dashed(c) || c == '.' }
func path(c byte) bool    { return alnum(c) || c == '/' }
func base64(c byte) bool  { return dashed(c) || c == '+' || c == '/' || c == '=' }
func token68(c byte) bool { return base64(c) || c == '.' || c == '~' }

// run returns where the bytes of a class that begin at i end.
func run(text string, i int, in class) int {
	for i < len(text) && in(text[i]) {
		i++
	}
	return i
}

// key is a prefix and at least n bytes of a class.
func key(in class, n int) func(string, int, int) (int, int) {
	return func(text string, prefix, rest int) (int, int) {
		if to := run(text, rest, in); to-rest >= n {
			return secretPart(text, prefix, rest), to
		}
		return 0, 0
	}
}

// secretPart returns where a secret begins: behind the words that announce it, or
// with the prefix that is a part of it.
func secretPart(text string, prefix, rest int) int {
	if c := text[rest-1]; c == ' ' || c == '=' {
		return rest
	}
	return prefix
}

// exactKey is a prefix and n bytes of a class, no more.
func exactKey(in class, n int) func(string, int, int) (int, int) {
	return func(text string, prefix, rest int) (int, int) {
		if to := run(text, rest, in); to-rest == n {
			return prefix, to
		}
		return 0, 0
	}
}

// randomKey is a key with a digit, and with 16 letters and digits in a row: what has
// none is words.
func randomKey(in class, n int) func(string, int, int) (int, int) {
	long := key(in, n)
	return func(text string, prefix, rest int) (from, to int) {
		from, to = long(text, prefix, rest)
		if to == 0 || longest(text[rest:to], alnum) < 16 || !strings.ContainsAny(text[rest:to], "0123456789") {
			return 0, 0
		}
		return from, to
	}
}

// assigned is the n bytes of base64 that are set to a name, in a shell, in JSON or
// in a file of settings.
func assigned(n int) func(string, int, int) (int, int) {
	return func(text string, _, rest int) (int, int) {
		from := run(text, rest, func(c byte) bool { return strings.IndexByte(" \t\"'`\\:=", c) >= 0 })
		if to := run(text, from, base64); from > rest && from-rest <= 8 && to-from >= n {
			return from, to
		}
		return 0, 0
	}
}

// webToken is two or more parts of base64, of which the first two are objects of
// JSON: a signed token has three, an encrypted one five (RFC 7515, RFC 7516).
func webToken(text string, prefix, rest int) (int, int) {
	to := run(text, rest, dashed)
	if to-rest < 8 || !strings.HasPrefix(text[to:], ".") {
		return 0, 0
	}
	second := to + 1
	if to = run(text, second, dotted); to-second < 8 || !strings.HasPrefix(text[second:], "eyJ") && strings.Count(text[second:to], ".") != 3 {
		return 0, 0
	}
	return prefix, second + len(strings.TrimRight(text[second:to], "."))
}

// password is the password of a URL: what stands between "user:" and the last "@"
// before the host's end (RFC 3986, 3.2.1; one with a bare "@" in it is found too).
func password(text string, prefix, rest int) (from, to int) {
	if prefix == 0 || !alnum(text[prefix-1]) {
		return 0, 0
	}
	end := rest
	for end < len(text) && text[end] > ' ' && strings.IndexByte("/?#\"'`<>", text[end]) < 0 {
		end++
	}
	at := strings.LastIndexByte(text[rest:end], '@')
	colon := strings.IndexByte(text[rest:end], ':')
	if at < 0 || colon < 0 || at < colon+2 {
		return 0, 0
	}
	return rest + colon + 1, rest + at
}

// mostKey is the most bytes that a private key has, armour included.
const mostKey = 64 << 10

// privateKey is a block of RFC 7468 or of OpenPGP whose label says that it is
// private. One that is cut off ends where its lines of base64 do.
func privateKey(text string, prefix, rest int) (from, to int) {
	label, _, ok := strings.Cut(text[rest:min(len(text), rest+64)], "-----")
	if !ok || !strings.HasSuffix(label, "PRIVATE KEY") && !strings.HasSuffix(label, "PRIVATE KEY BLOCK") {
		return 0, 0
	}
	body := rest + len(label) + len("-----")
	end := "-----END " + label + "-----"
	if n := strings.Index(text[body:min(len(text), body+mostKey)], end); n >= 0 {
		if longest(text[body:body+n], base64) < 16 {
			return 0, 0 // somebody tells how such a block looks
		}
		return prefix, body + n + len(end)
	}
	to = body
	for i := body; i < len(text) && i < body+mostKey; {
		line := run(text, i, base64)
		if line-i >= 16 || line > i && to > body && line-to < 4 { // the last line is short
			to = line
		}
		if next := run(text, line, func(c byte) bool { return strings.IndexByte(" \t\r\n\\", c) >= 0 }); next > i {
			i = next
			continue
		}
		break
	}
	if to == body {
		return 0, 0
	}
	return prefix, to
}

// longest returns the length of the longest run of a class.
func longest(text string, in class) int {
	most := 0
	for i := 0; i < len(text); i++ {
		to := run(text, i, in)
		most, i = max(most, to-i), to
	}
	return most
}
