package secret_test

import (
	"strings"
	"testing"

	"haft/internal/secret"
)

func TestRedactor_formats(t *testing.T) {
	r := secret.NewRedactor(secret.Config{Formats: true})
	a := func(n int) string { return strings.Repeat("a1B2c3D4e5", n/10+1)[:n] }
	up := func(n int) string { return strings.Repeat("A1B2C3D4E5", n/10+1)[:n] }
	hex := func(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }
	pem := "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n" + a(64) + "\n" +
		a(30) + "==\n-----END RSA PRIVATE KEY-----"
	tests := []struct{ name, in, want string }{
		{"aws", "id AKIA" + up(16) + ".", "id [redacted:aws_access_key]."},
		{"github", "ghp_" + a(36), "[redacted:github_token]"},
		{"github fine", "x=github_pat_" + a(22) + "_" + a(59) + ";", "x=[redacted:github_token];"},
		{"gitlab", "glpat-" + a(20) + "\n", "[redacted:gitlab_token]\n"},
		{"slack", "(xoxb-123456789012-123456789012-" + a(24) + ")", "([redacted:slack_token])"},
		{"slack hook", "https://hooks.slack.com/services/T00000000/B00000000/" + a(24),
			"https://[redacted:slack_webhook]"},
		{"stripe", "sk_live_" + a(24), "[redacted:stripe_key]"},
		{"openai", "sk-" + a(48), "[redacted:openai_key]"},
		{"openai project", "sk-proj-" + a(20) + "_-" + a(60), "[redacted:openai_key]"},
		{"anthropic", "sk-ant-api03-" + a(80) + "-AA", "[redacted:anthropic_key]"},
		{"google", "key=AIza" + a(35), "key=[redacted:google_key]"},
		{"google oauth", "ya29." + a(60), "[redacted:google_token]"},
		{"jwt", "jwt eyJ" + a(20) + ".eyJ" + a(30) + "." + a(40) + " end", "jwt [redacted:jwt] end"},
		{"npm", "//registry/:_authToken=npm_" + a(36), "//registry/:_authToken=[redacted:npm_token]"},
		{"pem", "key:\n" + pem + "\nrest", "key:\n[redacted:private_key]\nrest"},
		{"pem in json", `{"k":"` + strings.ReplaceAll(pem, "\n", `\n`) + `\n","x":1}`,
			`{"k":"[redacted:private_key]\n","x":1}`},
		{"pem cut off", "-----BEGIN PRIVATE KEY-----\n" + a(64) + "\n" + a(10), "[redacted:private_key]"},
		{"authorization", "Authorization: Bearer " + a(12) + "\r\nAccept: x",
			"Authorization: Bearer [redacted:authorization]\r\nAccept: x"},
		{"authorization basic", `"authorization": "Basic dXNlcjpwYXNz"`,
			`"authorization": "Basic [redacted:authorization]"`},
		{"bearer", "use bearer " + a(30), "use [redacted:authorization]"},
		{"url", "postgres://app:p4ss:w0rd@db:5432/x", "postgres://app:[redacted:url_password]@db:5432/x"},
		{"url without user", "redis://:hunter2@cache/0", "redis://:[redacted:url_password]@cache/0"},
		{"password", "password=hunter22&x=1", "password=[redacted:password]&x=1"},
		{"password in yaml", "DB_PASSWORD: 'hunter22'", "DB_PASSWORD: '[redacted:password]'"},
		{"password in json", `{"password": "hunter22"}`, `{"password": "[redacted:password]"}`},
		{"password in json in json", `"{\"password\":\"hunter22\"}"`, `"{\"password\":\"[redacted:password]\"}"`},
		{"aws secret", "aws_secret_access_key = " + a(40), "aws_secret_access_key = [redacted:secret]"},
		{"azure", "AccountName=x;AccountKey=" + a(86) + "==;Suffix=y",
			"AccountName=x;AccountKey=[redacted:access_key];Suffix=y"},
		{"two", "ghp_" + a(36) + " ghp_" + a(36), "[redacted:github_token] [redacted:github_token]"},
		{"vault", "hvs." + a(30), "[redacted:vault_token]"},
		{"digitalocean", "dop_v1_" + hex(64), "[redacted:digitalocean_token]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Text(tt.in); got != tt.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
			if got := chunked(r, tt.in, func() int { return 1 }); got != tt.want {
				t.Errorf("byte by byte %q\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestRedactor_formats_leave_text_alone(t *testing.T) {
	r := secret.NewRedactor(secret.Config{Formats: true})
	for _, text := range []string{
		"", "a", "sk-", "sk-learn is a library", "AKIA", "AKIAIOSFODNN7EXAMPLEX and more", "the token is invalid",
		"task-123 and risk-free",
		"http://localhost:8080/path", "https://example.com/a:b@c", "ftp://host:21/", "see https://user@host/x",
		"eyJhbGciOi is the beginning of a JWT", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"password: ", "password=", "my password is long", "func (p *T) password() string", "secret: the",
		"Authorization is required: Bearer or Basic",
		"BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY----- and END", "ghp_short", "a:b:c://d",
		"password: ${DB_PASSWORD}", "def f(token: str, api_key: str)",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
}

func TestRedactor_personal(t *testing.T) {
	r := secret.NewRedactor(secret.Config{Personal: true})
	tests := []struct{ name, in, want string }{
		{"e-mail", "mail Jane.Doe+x@mail.example.co.uk.", "mail [redacted:email]."},
		{"e-mail in brackets", "<a@b.io>,'c@d.org'", "<[redacted:email]>,'[redacted:email]'"},
		{"no e-mail", "@handle a@b user@localhost git@ x@.com", ""},
		{"card", "card 4111111111111111 ok", "card [redacted:card_number] ok"},
		{"card in groups", "4111 1111 1111 1111", "[redacted:card_number]"},
		{"card with dashes", "5500-0000-0000-0004.", "[redacted:card_number]."},
		{"amex", "3782 822463 10005", "[redacted:card_number]"},
		{"no card: check digit", "4111 1111 1111 1112", ""},
		{"no card: part of a word", "x4111111111111111 id_4111111111111111 4111111111111111x", ""},
		{"no card: a time", "1763187600000 1763187600000000", ""},
		{"iban", "to DE89370400440532013000.", "to [redacted:iban]."},
		{"iban in groups", "IBAN GB82 WEST 1234 5698 7654 32, please", "IBAN [redacted:iban], please"},
		{"no iban: check digits", "DE88 3704 0044 0532 0130 00", ""},
		{"phone", "call +49 (0)30 901820 now", "call [redacted:phone] now"},
		{"phone american", "call (415) 555-2671 or 415-555-2671", "call [redacted:phone] or [redacted:phone]"},
		{"no phone", "2026-11-15 06:30:00 v1.2.3 10.0.0.1 1+2 192.168.100.200 100-200-300 +5", ""},
		{"cpf", "CPF 529.982.247-25", "CPF [redacted:national_id]"},
		{"no cpf", "529.982.247-26", ""},
		{"dni", "DNI 12345678Z", "DNI [redacted:national_id]"},
		{"nie", "X1234567L", "[redacted:national_id]"},
		{"no dni", "12345678A", ""},
		{"pesel", "44051401359", "[redacted:national_id]"},
		{"nothing", "The quick brown fox, 42 times at 3.14 per 1,000,000 (or 7%).", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.in
			}
			if got := r.Text(tt.in); got != want {
				t.Errorf("Text(%q)\n got %q\nwant %q", tt.in, got, want)
			}
			if got := chunked(r, tt.in, func() int { return 1 }); got != want {
				t.Errorf("byte by byte %q\n got %q\nwant %q", tt.in, got, want)
			}
		})
	}
	if plain := secret.NewRedactor(secret.Config{Formats: true}); plain.Text("a@example.org") != "a@example.org" {
		t.Error("personal data stays unless it is asked for")
	}
}
