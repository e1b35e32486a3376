package secret

import (
	"slices"
	"sync"
)

// formats are those of well-known keys, tokens and passwords. Each begins with an
// opening that is rare in other text; formats without one, such as forty characters
// of base64, are not recognised.
var formats = sync.OnceValue(func() []format {
	s := newSets()
	return slices.Concat(
		keys("aws_access_key", s.upnum, 16, 16, "AKIA", "ASIA"),
		keys("github_token", s.alnum, 36, 255, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
		keys("github_token", s.words, 50, 255, "github_pat_"),
		keys("gitlab_token", s.tokens, 20, 255, "glpat-"),
		keys("gitlab_token", s.urlsafe, 20, 255, "gldt-", "glrt-", "glcbt-"),
		keys("slack_token", s.urlsafe, 20, 255, "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xapp-"),
		keys("slack_webhook", newSet("azAZ09", "/"), 20, 255, "hooks.slack.com/services/"),
		keys("stripe_key", s.alnum, 16, 255, "sk_live_", "sk_test_", "rk_live_", "rk_test_"),
		keys("stripe_key", s.base64s, 24, 255, "whsec_"),
		keys("anthropic_key", s.urlsafe, 20, 255, "sk-ant-"),
		keys("openai_key", s.urlsafe, 20, 255, "sk-proj-", "sk-svcacct-"),
		keys("openai_key", s.alnum, 32, 255, "sk-"),
		keys("google_key", s.urlsafe, 35, 35, "AIza"),
		keys("google_token", s.urlsafe, 20, 2048, "ya29."),
		keys("google_secret", s.urlsafe, 20, 64, "GOCSPX-"),
		keys("huggingface_token", s.alnum, 30, 64, "hf_"),
		keys("npm_token", s.alnum, 36, 36, "npm_"),
		keys("pypi_token", s.urlsafe, 50, 512, "pypi-"),
		keys("digitalocean_token", s.hexes, 64, 64, "dop_v1_"),
		keys("sendgrid_key", newSet("azAZ09", "_-."), 60, 80, "SG."),
		keys("shopify_token", s.hexes, 32, 32, "shpat_"),
		keys("databricks_token", s.hexes, 32, 34, "dapi"),
		keys("vault_token", s.urlsafe, 24, 255, "hvs."),
		keys("age_key", s.upnum, 50, 64, "AGE-SECRET-KEY-1"),
		[]format{{name: "jwt", open: "eyJ", exact: true, steps: []step{
			some(s.urlsafe, 8, 4096), text("."), some(s.urlsafe, 8, 16384), text("."), some(s.urlsafe, 0, 2048),
		}},
			s.pem("PRIVATE KEY"), s.pem("RSA PRIVATE KEY"), s.pem("EC PRIVATE KEY"), s.pem("DSA PRIVATE KEY"),
			s.pem("OPENSSH PRIVATE KEY"), s.pem("ENCRYPTED PRIVATE KEY"), s.pem("PGP PRIVATE KEY BLOCK"),
			s.scheme("bearer"), s.scheme("basic"), s.scheme("token"),
			{name: "authorization", open: "bearer ", steps: []step{some(s.tokens, 20, 8192)}},
			{name: "url_password", open: "://", inWord: true, steps: []step{
				some(s.users, 0, 128), text(":"), some(s.secrets, 1, 256), text("@"),
			}, first: 2, last: 2}},
		s.assignments("password", 4, "password", "passwd"),
		s.assignments("password", 6, "pwd"),
		s.assignments("api_key", 8, "api_key", "apikey", "api-key"),
		s.assignments("secret", 8, "secret", "secret_key", "secret_access_key"),
		s.assignments("access_key", 8, "access_key", "accountkey"),
		s.assignments("token", 8, "auth_token", "access_token", "refresh_token"),
	)
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

// keys are formats of an opening and a run of at least low bytes. No byte of the set may
// follow a key of fixed length.
func keys(name string, s *set, low, high int, openings ...string) (all []format) {
	for _, open := range openings {
		f := format{name: name, open: open, exact: true, steps: []step{some(s, low, high)}}
		if low == high {
			f.notFollowedBy = s
		}
		all = append(all, f)
	}
	return all
}

// pem is a block of a private key.
func (s *sets) pem(label string) format {
	return format{name: "private_key", open: "-----BEGIN " + label + "-----", inWord: true, steps: []step{
		{set: s.pems, min: 16, max: 32 << 10, until: "-----END "},
		some(newSet("AZ", " "), 0, 40),
		some(newSet("", "-"), 0, 5),
	}}
}

// assignments are NAME=value, or NAME: "value"; the value is removed.
func (s *sets) assignments(name string, low int, openings ...string) (all []format) {
	for _, open := range openings {
		all = append(all, format{name: name, open: open, inWord: true, steps: []step{
			some(s.slashes, 0, 1), some(s.quotes, 0, 1), some(s.gaps, 0, 2),
			some(s.assigns, 1, 2), some(s.gaps, 0, 2),
			some(s.slashes, 0, 1), some(s.quotes, 0, 1),
			some(s.assigned, low, 512),
		}, first: 7, last: 7})
	}
	return all
}

// scheme is an Authorization header; its credentials are removed.
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
