package review

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
)

// remove is the advice for any secret: everybody who can read the source can use it.
const remove = "revoke it, and let the tool be given it as a secret"

// secretRules are about what must not be in a source. Formats that are made to be
// recognised are high: somebody's key is in the text. A guess by name and
// randomness is medium.
func secretRules() []Rule {
	var all []Rule
	for _, s := range secretPatterns() {
		severity := high
		if s.rule == "secret-jwt" {
			severity = medium // many are expired, or examples
		}
		if len(all) == 0 || all[len(all)-1].ID != s.rule {
			all = append(all, Rule{s.rule, severity, "this looks like " + s.what, remove})
		}
	}
	return append(all,
		Rule{"secret-assigned", medium, "a value that looks random is given to a name that means a secret", remove},
		Rule{"secret-url", high, "this address has a password in it", remove})
}

// A secretPattern is a format of secrets. The group, if there is one, is the
// secret itself. has is a text that each of them holds, so that most lines are
// not matched at all.
type secretPattern struct {
	rule, what, has, pattern string
}

// A matcher is a pattern, compiled.
type matcher struct {
	*regexp.Regexp
	rule string
	has  string // a text that every match holds, or ""
}

// secretPatterns are formats as their makers document them, after the rules of
// gitleaks (https://github.com/gitleaks/gitleaks) and GitHub's secret scanning.
func secretPatterns() []secretPattern {
	return []secretPattern{
		{"secret-aws", "a key of Amazon Web Services", "A", `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`},
		{"secret-gcp", "a key of Google", "AIza", `\bAIza[0-9A-Za-z_\-]{35}\b`},
		{"secret-gcp", "a key of Google", "GOCSPX-", `\bGOCSPX-[0-9A-Za-z_\-]{28}\b`},
		{"secret-azure", "a key of Azure", "AccountKey=", `AccountKey=[A-Za-z0-9+/]{86}==`},
		{"secret-azure", "a key of Azure", "Q~", `\b[a-zA-Z0-9_~.]{3}[0-9]Q~[a-zA-Z0-9_~.\-]{31,34}\b`},
		{"secret-github", "a token of GitHub", "gh", `\bgh[pousr]_[0-9A-Za-z]{36,251}\b`},
		{"secret-github", "a token of GitHub", "github_pat_", `\bgithub_pat_[0-9A-Za-z_]{82}\b`},
		{"secret-gitlab", "a token of GitLab", "gl", `\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|imt)-[0-9A-Za-z_\-]{20,}`},
		{"secret-slack", "a token of Slack", "xox", `\bxox[abeoprs]-[0-9A-Za-z\-]{10,}`},
		{"secret-slack", "a token of Slack", "xapp-", `\bxapp-[0-9]-[A-Z0-9]+-[0-9]+-[0-9a-f]{20,}`},
		{"secret-slack", "a token of Slack", "hooks.slack.com",
			`hooks\.slack\.com/(?:services|workflows)/T[A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{20,}`},
		{"secret-stripe", "a key of Stripe", "_live_", `\b[sr]k_live_[0-9A-Za-z]{10,99}\b`},
		{"secret-openai", "a key of OpenAI", "sk-",
			`\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_\-]{20,}|\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b`},
		{"secret-anthropic", "a key of Anthropic", "sk-ant-", `\bsk-ant-(?:api|admin|oat)[0-9]{2}-[A-Za-z0-9_\-]{40,}`},
		{"secret-huggingface", "a token of Hugging Face", "hf_", `\bhf_[A-Za-z]{34}\b|\bapi_org_[A-Za-z]{34}\b`},
		{"secret-npm", "a token of npm", "npm_", `\bnpm_[0-9A-Za-z]{36}\b`},
		{"secret-pypi", "a token of PyPI", "pypi-", `\bpypi-AgEIcHlwaS5vcmc[0-9A-Za-z_\-]{50,}`},
		{"secret-sendgrid", "a key of SendGrid", "SG.", `\bSG\.[0-9A-Za-z_\-]{22}\.[0-9A-Za-z_\-]{43}\b`},
		{"secret-twilio", "a key of Twilio", "SK", `\bSK[0-9a-f]{32}\b`},
		{"secret-telegram", "a token of Telegram", ":AA", `\b[0-9]{8,10}:AA[0-9A-Za-z_\-]{33}\b`},
		{"secret-discord", "a web hook of Discord", "discord",
			`discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[0-9A-Za-z_\-]{60,}`},
		{"secret-digitalocean", "a token of DigitalOcean", "_v1_", `\bdo[por]_v1_[0-9a-f]{64}\b`},
		{"secret-vault", "a token of Vault", "hvs.", `\bhvs\.[0-9A-Za-z_\-]{24,}`},
		{"secret-age", "a private key of age", "AGE-SECRET-KEY-", `\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b`},
		{"secret-private-key", "a private key", "PRIVATE KEY",
			`-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----`},
		{"secret-jwt", "a signed token (JWT)", "eyJ",
			`\beyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{20,}`},
	}
}

// secretMatchers are the patterns, compiled.
var secretMatchers = sync.OnceValue(func() []matcher {
	var all []matcher
	for _, s := range secretPatterns() {
		all = append(all, matcher{regexp.MustCompile(s.pattern), s.rule, s.has})
	}
	return all
})

// maxSecretLine bounds the part of a line that is matched at once.
const maxSecretLine = 64 << 10

// reviewSecrets looks for secrets in the text, comments included: a key in a
// comment is as good as any.
func reviewSecrets(n *notes, kind haft.Kind, source string) {
	line := 0
	for text := range strings.Lines(source) {
		line++
		for len(text) > 0 && !n.stopped() {
			part := text[:min(len(text), maxSecretLine)]
			reviewSecretLine(n, kind, part, line)
			if len(part) == len(text) {
				break
			}
			text = text[maxSecretLine-512:] // what lies across the cut is in the next part
		}
	}
}

// reviewSecretLine looks at one line.
func reviewSecretLine(n *notes, kind haft.Kind, text string, line int) {
	found := false
	for _, s := range secretMatchers() {
		if !strings.Contains(text, s.has) {
			continue
		}
		for _, m := range s.FindAllString(text, -1) {
			if !isSample(m) && (s.rule != "secret-jwt" || isJWT(m)) {
				n.add(s.rule, line)
				found = true
			}
		}
	}
	if found {
		return // once is enough
	}
	for _, m := range urlPassword().FindAllStringSubmatch(text, -1) {
		if !isPlaceholder(m[1]) && !strings.ContainsAny(m[1], "{}$<>%") {
			n.add("secret-url", line)
		}
	}
	forms := []*regexp.Regexp{assigned()}
	if kind == haft.KindBash {
		forms = append(forms, assignedBare())
	}
	for _, form := range forms {
		for _, m := range form.FindAllStringSubmatch(text, -1) {
			if secretName(m[1]) && secretValue(m[2]) {
				n.add("secret-assigned", line)
			}
		}
	}
}

// isJWT reports whether the first part of a token is the header of one.
func isJWT(token string) bool {
	head, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	return err == nil && strings.Contains(string(text), `"alg"`)
}

// The forms of assignments: name = "value", "name": "value", name: str = "value",
// and in shells name=value.
var (
	assigned = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`([A-Za-z_][A-Za-z0-9_.\-]{0,80})["'\]]{0,2}(?:\s*:\s*[A-Za-z][A-Za-z\[\], |]{0,30})?\s*(?:=|:|:=|=>|,\s*default\s*=)\s*[bru]?["'\x60]([^"'\x60\s]{8,300})["'\x60]`)
	})
	assignedBare = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?:^|[\s;])([A-Za-z_][A-Za-z0-9_]{0,80})=([A-Za-z0-9+/_.!@#%^&*\-]{8,300})(?:$|[\s;])`)
	})
	urlPassword = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`[a-z][a-z0-9+.\-]{1,20}://[^\s:/@"'\x60]{1,80}:([^\s:/@"'\x60]{4,120})@[A-Za-z0-9\[]`)
	})
	secretWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?i)(?:^|[_.\-a-z0-9])(?:password|passwd|passphrase|pwd|secret|token|api_?-?key|access_?-?key|auth_?-?key|private_?-?key|client_?-?secret|encryption_?-?key|signing_?-?key|credential|bearer)s?(?:[_-]?(?:[0-9]+|value|default|prod|production|live|dev|test|key))?$`)
	})
)

// secretName reports whether a name means a secret, and not the name, the place
// or the kind of one: token_url does not.
func secretName(name string) bool {
	i := strings.LastIndexAny(name, ".")
	return secretWord().MatchString(name[i+1:])
}

// secretValue reports whether a value may be a secret and not a word.
func secretValue(v string) bool {
	if isPlaceholder(v) || strings.Contains(v, "://") || hasPrefix(v, "/", "$") || strings.ContainsAny(v, "{}<>()[]") {
		return false
	}
	digits, letters, others, upper := 0, 0, 0, 0
	for _, r := range v {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z':
			letters++
		case r >= 'A' && r <= 'Z':
			letters++
			upper++
		case r != '_' && r != '-' && r != '.' && r != ':' && r != '/':
			others++
		}
	}
	switch e := entropy(v); {
	case letters == 0 || digits+others == 0 && (upper == 0 || upper == letters):
		return false // a word, a constant's name or a number
	case len(v) >= 20:
		return e >= 3.5 && digits+others > 0
	default:
		return e >= 2.8 && digits+others >= 2
	}
}

// isSample reports whether something in the format of a secret is an example of
// one.
func isSample(v string) bool {
	l := strings.ToLower(v)
	return entropy(v) < 3 || contains(l, "example", "xxxx", "....", "****", "your", "abcdefgh", "01234567", "12345678",
		"placeholder")
}

// isPlaceholder reports whether somebody left a gap for the real value.
func isPlaceholder(v string) bool {
	l := strings.ToLower(v)
	return entropy(v) < 2.2 || hasPrefix(l, "password", "secret") || !strings.HasPrefix(l, "sk_test") &&
		contains(l, "example", "changeme", "change_me", "change-me", "placeholder", "your", "xxx", "dummy", "sample",
			"redacted", "todo", "fake", "insert", "replace", "...", "***", "<", "{{", "${", "%(", "abcdefgh",
			"0123456789", "123456", "test-", "test_", "my-", "my_", "not-a-", "none")
}

// contains reports whether text holds one of these.
func contains(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}
