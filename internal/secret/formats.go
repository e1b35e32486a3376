package secret

import "sync"

// formats are those of well-known keys, tokens and passwords. Each begins with an
// opening that is rare in other text; formats without one, such as forty characters
// of base64, are not recognised.
var formats = sync.OnceValue(func() []format {
	s := newSets()
	return []format{
		key("aws_access_key", "AKIA", s.upnum, 16, 16),
		key("aws_access_key", "ASIA", s.upnum, 16, 16),
		key("github_token", "ghp_", s.alnum, 36, 255),
		key("github_token", "gho_", s.alnum, 36, 255),
		key("github_token", "ghu_", s.alnum, 36, 255),
		key("github_token", "ghs_", s.alnum, 36, 255),
		key("github_token", "ghr_", s.alnum, 36, 255),
		key("github_token", "github_pat_", s.words, 50, 255),
		key("gitlab_token", "glpat-", s.tokens, 20, 255),
		key("gitlab_token", "gldt-", s.urlsafe, 20, 255),
		key("gitlab_token", "glrt-", s.urlsafe, 20, 255),
		key("gitlab_token", "glcbt-", s.urlsafe, 20, 255),
		key("slack_token", "xoxb-", s.urlsafe, 20, 255),
		key("slack_token", "xoxp-", s.urlsafe, 20, 255),
		key("slack_token", "xoxa-", s.urlsafe, 20, 255),
		key("slack_token", "xoxr-", s.urlsafe, 20, 255),
		key("slack_token", "xoxs-", s.urlsafe, 20, 255),
		key("slack_token", "xapp-", s.urlsafe, 20, 255),
		key("slack_webhook", "hooks.slack.com/services/", newSet("azAZ09", "/"), 20, 255),
		key("stripe_key", "sk_live_", s.alnum, 16, 255),
		key("stripe_key", "sk_test_", s.alnum, 16, 255),
		key("stripe_key", "rk_live_", s.alnum, 16, 255),
		key("stripe_key", "rk_test_", s.alnum, 16, 255),
		key("stripe_key", "whsec_", s.base64s, 24, 255),
		key("anthropic_key", "sk-ant-", s.urlsafe, 20, 255),
		key("openai_key", "sk-proj-", s.urlsafe, 20, 255),
		key("openai_key", "sk-svcacct-", s.urlsafe, 20, 255),
		key("openai_key", "sk-", s.alnum, 32, 255),
		key("google_key", "AIza", s.urlsafe, 35, 35),
		key("google_token", "ya29.", s.urlsafe, 20, 2048),
		key("google_secret", "GOCSPX-", s.urlsafe, 20, 64),
		key("huggingface_token", "hf_", s.alnum, 30, 64),
		key("npm_token", "npm_", s.alnum, 36, 36),
		key("pypi_token", "pypi-", s.urlsafe, 50, 512),
		key("digitalocean_token", "dop_v1_", s.hexes, 64, 64),
		key("sendgrid_key", "SG.", newSet("azAZ09", "_-."), 60, 80),
		key("shopify_token", "shpat_", s.hexes, 32, 32),
		key("databricks_token", "dapi", s.hexes, 32, 34),
		key("vault_token", "hvs.", s.urlsafe, 24, 255),
		key("age_key", "AGE-SECRET-KEY-1", s.upnum, 50, 64),
		{name: "jwt", open: "eyJ", exact: true, steps: []step{
			some(s.urlsafe, 8, 4096), text("."), some(s.urlsafe, 8, 16384), text("."), some(s.urlsafe, 0, 2048),
		}},
		s.pem("PRIVATE KEY"), s.pem("RSA PRIVATE KEY"), s.pem("EC PRIVATE KEY"), s.pem("DSA PRIVATE KEY"),
		s.pem("OPENSSH PRIVATE KEY"), s.pem("ENCRYPTED PRIVATE KEY"), s.pem("PGP PRIVATE KEY BLOCK"),
		s.scheme("bearer"), s.scheme("basic"), s.scheme("token"),
		{name: "authorization", open: "bearer ", steps: []step{some(s.tokens, 20, 8192)}},
		{name: "url_password", open: "://", inWord: true, steps: []step{
			some(s.users, 0, 128), text(":"), some(s.secrets, 1, 256), text("@"),
		}, first: 2, last: 2},
		s.assignment("password", "password", 4),
		s.assignment("password", "passwd", 4),
		s.assignment("password", "pwd", 6),
		s.assignment("api_key", "api_key", 8),
		s.assignment("api_key", "apikey", 8),
		s.assignment("api_key", "api-key", 8),
		s.assignment("secret", "secret", 8),
		s.assignment("secret", "secret_key", 8),
		s.assignment("secret", "secret_access_key", 8),
		s.assignment("access_key", "access_key", 8),
		s.assignment("access_key", "accountkey", 8),
		s.assignment("token", "auth_token", 8),
		s.assignment("token", "access_token", 8),
		s.assignment("token", "refresh_token", 8),
	}
})

// remove removes the bytes of out from s and returns it.
func (s *set) remove(out string) *set {
	for i := range len(out) {
		s[out[i]] = false
	}
	return s
}

// some takes at least low and at most high bytes of s.
func some(s *set, low, high int) step { return step{set: s, min: low, max: high} }

// text takes exactly t, which is in lower case.
func text(t string) step { return step{text: t, min: 1} }

// key is a format of an opening and a run of at least low bytes. No byte of the set may
// follow a key of fixed length.
func key(name, open string, s *set, low, high int) format {
	f := format{name: name, open: open, exact: true, steps: []step{some(s, low, high)}}
	if low == high {
		f.notFollowedBy = s
	}
	return f
}

// pem is a block of a private key.
func (s *sets) pem(label string) format {
	return format{name: "private_key", open: "-----BEGIN " + label + "-----", inWord: true, steps: []step{
		{set: s.pems, min: 16, max: 32 << 10, until: "-----END "},
		some(newSet("AZ", " "), 0, 40),
		some(newSet("", "-"), 0, 5),
	}}
}

// assignment is NAME=value, or NAME: "value", of which the value is removed.
func (s *sets) assignment(name, open string, low int) format {
	return format{name: name, open: open, inWord: true, steps: []step{
		some(s.slashes, 0, 1), some(s.quotes, 0, 1), some(s.gaps, 0, 2),
		some(s.assigns, 1, 2), some(s.gaps, 0, 2),
		some(s.slashes, 0, 1), some(s.quotes, 0, 1),
		some(s.assigned, low, 512),
	}, first: 7, last: 7}
}

// scheme is an Authorization header, of which the credentials are removed.
func (s *sets) scheme(name string) format {
	return format{name: "authorization", open: "authorization", inWord: true, steps: []step{
		some(s.slashes, 0, 1), some(s.quotes, 0, 1), some(s.gaps, 0, 2), some(s.assigns, 1, 2), some(s.gaps, 0, 2),
		some(s.slashes, 0, 1), some(s.quotes, 0, 1),
		text(name), some(s.gaps, 1, 2), some(s.tokens, 6, 8192),
	}, first: 9, last: 9}
}

// sets are the sets of bytes that formats use. They are built when first needed: not
// every command redacts.
type sets struct {
	words, alnum, upnum, hexes, urlsafe, base64s, tokens, pems *set
	gaps, quotes, slashes, assigns, users, secrets, assigned   *set
}

// newSets returns the sets.
func newSets() *sets {
	return &sets{
		words:    newSet("azAZ09", "_"),
		alnum:    newSet("azAZ09", ""),
		upnum:    newSet("AZ09", ""),
		hexes:    newSet("afAF09", ""),
		urlsafe:  newSet("azAZ09", "_-"),
		base64s:  newSet("azAZ09", "+/=_-"),
		tokens:   newSet("azAZ09", "+/=_-.~"),
		pems:     newSet("azAZ09", "+/=\n\r\t \\:,.-;@()"),
		gaps:     newSet("", " \t"),
		quotes:   newSet("", `"'`),
		slashes:  newSet("", `\`),
		assigns:  newSet("", "=:"),
		users:    newSet("azAZ09", "._~%!$&*+-="),
		secrets:  newSet("!~", "").remove(" /@\"'<>\\`"),
		assigned: newSet("!~", "").remove("\"'`,;&<>(){}[]$\\ "),
	}
}
