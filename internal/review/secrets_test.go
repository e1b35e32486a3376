package review_test

import (
	"strings"
	"testing"

	"haft"
	"haft/internal/review"
)

// Values are written in two pieces, so that scanners of this repository do not
// take them for real ones. They are made up.
func TestReview_secrets(t *testing.T) {
	const (
		b36 = "q7Zk2mXw9RtB4vN8cJ5hL1pDs6Gy3fAe0TuW"
		b64 = "k3Jd9Qm2Xz7Lw5Rt1Vb8Nc4Hp6Gs0Fy" + "Ae2TuWq7Zk4mXw9RtB1vN8cJ5hL3pDs6"
	)
	tests := []struct {
		name, secret, rule string
	}{
		{"aws access key", "AKIA" + "Q3EGRZ5MBT7YXWKD", "secret-aws"},
		{"aws session key", "ASIA" + "Q3EGRZ5MBT7YXWKD", "secret-aws"},
		{"google api key", "AIza" + "SyD3k9Qm2Xz7Lw5Rt1Vb8Nc4Hp6Gs0FyAe2", "secret-gcp"},
		{"google client secret", "GOCSPX-" + b36[:28], "secret-gcp"},
		{"azure storage", "AccountKey=" + b64 + b64[:23] + "==", "secret-azure"},
		{"azure client secret", "aB3" + "8Q~" + b36[:34], "secret-azure"},
		{"github classic", "ghp" + "_" + b36, "secret-github"},
		{"github server", "ghs" + "_" + b36, "secret-github"},
		{"github fine-grained", "github" + "_pat_" + b36[:22] + "_" + b64[:59], "secret-github"},
		{"gitlab", "glpat" + "-" + b36[:20], "secret-gitlab"},
		{"slack bot", "xoxb" + "-2847561930-" + b36[:24], "secret-slack"},
		{"slack app", "xapp" + "-1-A02ZKQ7-2847561930-" + "a3f9c27e5b8d146f0c3a", "secret-slack"},
		{"slack hook", "https://hooks.slack.com/services/T02" + "ZKQ7MX/B09QWERT/" + b36[:24], "secret-slack"},
		{"stripe", "sk" + "_live_" + b36[:24], "secret-stripe"},
		{"stripe restricted", "rk" + "_live_" + b36[:24], "secret-stripe"},
		{"openai project", "sk" + "-proj-" + b36 + b36[:12], "secret-openai"},
		{"openai old", "sk" + "-" + b36[:20] + "T3BlbkFJ" + b36[10:30], "secret-openai"},
		{"anthropic", "sk" + "-ant-api03-" + b36 + b36, "secret-anthropic"},
		{"hugging face", "hf" + "_" + "qZkmXwRtBvNcJhLpDsGyfAeTuWqZkmXwRt", "secret-huggingface"},
		{"npm", "npm" + "_" + b36, "secret-npm"},
		{"pypi", "pypi" + "-AgEIcHlwaS5vcmc" + b36 + b36, "secret-pypi"},
		{"sendgrid", "SG" + "." + b36[:22] + "." + b36 + "a1b2c3d", "secret-sendgrid"},
		{"telegram", "284756193" + ":AA" + b36[:33], "secret-telegram"},
		{"digital ocean", "dop" + "_v1_" + strings.Repeat("a3f9c27e5b8d146f", 4), "secret-digitalocean"},
		{"vault", "hvs" + "." + b36, "secret-vault"},
		{"jwt", "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiI5ODI3NDYifQ." + b36, "secret-jwt"},
		{"rsa key", "-----BEGIN RSA " + "PRIVATE KEY-----", "secret-private-key"},
		{"openssh key", "-----BEGIN OPENSSH " + "PRIVATE KEY-----", "secret-private-key"},
		{"pgp key", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----", "secret-private-key"},
		{"url", "postgres://app:" + "h7Qz2mXw" + "@db.internal/app", "secret-url"},
	}
	r := review.New(review.Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for kind, source := range map[haft.Kind]string{
				haft.KindJavaScript: "// a\nconst value = \"" + tt.secret + "\";\n",
				haft.KindBash:       "true\nx='" + tt.secret + "'\n",
				haft.KindTypeScript: "export const a = 1;\n// comment: " + tt.secret + "\n",
			} {
				rep, err := r.Review(t.Context(), kind, source)
				if err != nil {
					t.Fatal(err)
				}
				found := false
				for _, f := range rep.Findings {
					found = found || f.Rule == tt.rule && f.Line == 2
					if strings.Contains(f.Message, tt.secret) || strings.Contains(f.Message, tt.secret[8:]) {
						t.Errorf("the message quotes the secret")
					}
				}
				if !found {
					t.Errorf("Review(%s) = %q, want %s in line 2", kind, listed(rep), tt.rule)
				}
			}
		})
	}
}

func TestReview_assigned_secrets(t *testing.T) {
	r := review.New(review.Config{})
	for _, tt := range []struct {
		name   string
		kind   haft.Kind
		source string
		want   bool
	}{
		{"password", haft.KindJavaScript, `const password = "Tr0ub4dor&3x";`, true},
		{"key in an object", haft.KindJavaScript, `const c = { "api_key": "k3Jd9Qm2Xz7Lw5Rt1Vb8" };`, true},
		{"camel case", haft.KindTypeScript, `const clientSecret: string = "k3Jd9Qm2Xz7Lw5Rt1Vb8";`, true},
		{"member", haft.KindJavaScript, `this.authToken = 'k3Jd9Qm2Xz7Lw5Rt1Vb8';`, true},
		{"in a comment", haft.KindJavaScript, `// token: "k3Jd9Qm2Xz7Lw5Rt1Vb8"`, true},
		{"bash", haft.KindBash, `API_TOKEN=k3Jd9Qm2Xz7Lw5Rt1Vb8`, true},
		{"bash export", haft.KindBash, `export DB_PASSWORD="pQ7-zk2mXw9"`, true},
		{"hex", haft.KindJavaScript, `const SECRET_KEY = "a3f9c27e5b8d146f0c3ae7b1d2945f68";`, true},

		{"placeholder", haft.KindJavaScript, `const apiKey = "YOUR_API_KEY_123";`, false},
		{"changeme", haft.KindBash, `PASSWORD=changeme123`, false},
		{"stars", haft.KindJavaScript, `const password = "********";`, false},
		{"environment", haft.KindJavaScript, `const apiKey = process.env.API_KEY_2;`, false},
		{"template", haft.KindJavaScript, "const token = `${prefix}-9a8b7c6d5e`;", false},
		{"url of it", haft.KindJavaScript, `const tokenUrl = "https://x.example/oauth2/v1/token";`, false},
		{"name of it", haft.KindJavaScript, `const secretName = "prod/db/credentials-v2";`, false},
		{"header of it", haft.KindJavaScript, `const apiKeyHeader = "X-Api-Key-V2";`, false},
		{"words", haft.KindJavaScript, `const password = "correct-horse-battery";`, false},
		{"bash variable", haft.KindBash, `TOKEN="$ARG_TOKEN_2"`, false},
		{"bash command", haft.KindBash, `TOKEN=$(cat token.txt)`, false},
		{"css class", haft.KindJavaScript, `const token = "token-operator";`, false},
		{"documentation's key", haft.KindJavaScript, `const k = "AKIA` + `IOSFODNN7EXAMPLE";`, false},
		{"url with a gap", haft.KindJavaScript, `const u = "postgres://user:password@localhost/db";`, false},
		{"a digest", haft.KindJavaScript,
			`const sha256 = "a3f9c27e5b8d146f0c3ae7b1d2945f68a3f9c27e5b8d146f0c3ae7b1d2945f68";`, false},
		{"max tokens", haft.KindJavaScript, `const max_tokens = "4096";`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rep, err := r.Review(t.Context(), tt.kind, tt.source+"\n")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(listed(rep), " secret-"); got != tt.want {
				t.Errorf("Review(%s) = %q, want a secret: %v", tt.source, listed(rep), tt.want)
			}
		})
	}
}
