package secret_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/internal/secret"
)

func TestNames_Sensitive(t *testing.T) {
	yes := strings.Fields(
		`password Password PASSWORD passwd pwd passphrase user_password userPassword db-password dbpassword
		password1 new_password pass db_pass DB_PASS token Token access_token accessToken auth-token id_token refreshToken refresh_tokens bot_token github_token
		GITHUB_TOKEN api_key apiKey APIKey apikey API-KEY x-api-key X_Api_Key openai_api_key secret client_secret clientSecret
		SECRET_KEY aws_secret_access_key awsAccessKey access_key private_key privateKey ssh_private_key authorization Authorization
		proxy-authorization cookie Cookie set-cookie cookies credential credentials creds aws_credentials auth jwt session_id sessionId
		signing_key encryptionKey master.key otp mfa_code cvv ssn connection_string connectionString dsn passwort contraseña bearer service_key`)
	no := strings.Fields(
		`token_count tokenCount max_tokens maxTokens tokens total_tokens prompt_tokens num_tokens tokenizer tokenize tokenization
		passenger passengers compass bypass passage pass_rate_limit secretary key keys primary_key foreign_key public_key keyboard monkey sort_key
		page_token next_page_token nextPageToken continuation_token eos_token pad_token password_policy password_length secret_name token_type
		author authority auth_type author_name name id user username email url path cookie_policy message session sessions text x code zip_code country_code
		pin passport_type tokens_per_second keep_alive`)
	var n *secret.Names
	for _, name := range yes {
		if !n.Sensitive(name) {
			t.Errorf("Sensitive(%q) = false, want true", name)
		}
	}
	for _, name := range append(no, "", "_", "___", "123") {
		if n.Sensitive(name) {
			t.Errorf("Sensitive(%q) = true, want false", name)
		}
	}
}

func TestNames_extra(t *testing.T) {
	n := secret.NewNames([]string{"billing-pin", "token_count"})
	for _, name := range []string{"billing_pin", "billingPin", "BILLING_PIN", "x_billing_pin", "tokenCount",
		"password"} {
		if !n.Sensitive(name) {
			t.Errorf("Sensitive(%q) = false, want true", name)
		}
	}
	if n.Sensitive("billing") || n.Sensitive("pin") {
		t.Error("a part of an extra name is not one")
	}
}

func TestNames_Redact(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to do", `{"a": 1, "b":[{"c":"password"}]}`, ""},
		{"top", `{"user":"u","password":"p"}`, `{"user":"u","password":"[redacted]"}`},
		{"number, object, list", `{"token":12,"secret":{"a":[1,"]"]},"auth":[{"x":"}"}],"z":1}`,
			`{"token":"[redacted]","secret":"[redacted]","auth":"[redacted]","z":1}`},
		{"deep", `[{"a":{"b":[{"apiKey" : "x\"y" , "c":2}]}}]`, `[{"a":{"b":[{"apiKey" : "[redacted]" , "c":2}]}}]`},
		{"escaped key", `{"p\u0061ssword":"p"}`, `{"p\u0061ssword":"[redacted]"}`},
		{"null stays", `{"password":null,"token":""}`, `{"password":null,"token":"[redacted]"}`},
		{"twice the same key", `{"password":"a","password":"b"}`, `{"password":"[redacted]","password":"[redacted]"}`},
		{"a string that is no key", `["password","x"]`, ""},
		{"empty", ``, ""},
		{"scalar", `"password"`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n *secret.Names
			got, changed, err := n.Redact(json.RawMessage(tt.in))
			want := tt.want
			if want == "" {
				want = tt.in
			}
			if err != nil || string(got) != want || changed != (tt.want != "") {
				t.Errorf("Redact(%s) = %s, %v, %v, want %s", tt.in, got, changed, err, want)
			}
		})
	}
	if _, _, err := (*secret.Names)(nil).Redact(json.RawMessage(`{"password":`)); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("what is no JSON is refused: %v", err)
	}
}

func FuzzNames_Redact(f *testing.F) {
	f.Add(`{"a":[{"password":{"x":"]}"}}],"b":"password"}`)
	f.Add(`{"token":{},"k":[[["\\"]]]}`)
	f.Fuzz(func(t *testing.T, doc string) {
		n := secret.NewNames([]string{"k"})
		out, changed, err := n.Redact(json.RawMessage(doc))
		if err != nil {
			return
		}
		if doc != "" && !json.Valid(out) {
			t.Fatalf("Redact(%q) = %q is no JSON", doc, out)
		}
		if again, more, _ := n.Redact(out); more != changed || string(again) != string(out) {
			t.Fatalf("Redact(%q) = %q, and again %q", doc, out, again)
		}
		var v any
		if json.Unmarshal(out, &v) == nil {
			walk(t, n, v)
		}
	})
}

// walk fails if a sensitive name has a value.
func walk(t *testing.T, n *secret.Names, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, w := range v {
			if n.Sensitive(k) && w != nil && w != "[redacted]" {
				t.Fatalf("%q has the value %v", k, w)
			}
			walk(t, n, w)
		}
	case []any:
		for _, w := range v {
			walk(t, n, w)
		}
	}
}

func TestCheckEnvName(t *testing.T) {
	for _, name := range strings.Fields(
		`API_KEY _x a MY_PATH PATHS LDAP_URL NODEJS DATABASE_URL GIT_TOKEN SSH_PRIVATE_KEY ENVIRONMENT HOMEPAGE USER_ID HAFTED`) {
		if err := secret.CheckEnvName(name); err != nil {
			t.Errorf("CheckEnvName(%q) = %v", name, err)
		}
	}
	bad := strings.Fields(
		`LD_PRELOAD LD_LIBRARY_PATH ld_preload LD_ DYLD_INSERT_LIBRARIES PYTHONPATH PYTHONSTARTUP PYTHON NODE_OPTIONS Node_Options BASH_ENV
		BASH_FUNC_x ENV PATH Path HAFT_ORG_ID HAFT_X IFS PS4 SHELLOPTS BASHOPTS PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS GIT_SSH_COMMAND GLIBC_TUNABLES
		GCONV_PATH HTTP_PROXY https_proxy no_proxy HOME TMPDIR OPENSSL_CONF SSLKEYLOGFILE ARG_x 1A A-B A.B A=B é`)
	for _, name := range append(bad, "", "A B", "A\x00", "A\n", "BASH_FUNC_x%%", strings.Repeat("A", 129)) {
		if err := secret.CheckEnvName(name); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("CheckEnvName(%q) = %v, want invalid", name, err)
		}
	}
}

// leastAllocs is how often f allocates when nothing else does: encoding/json keeps its scanners in a sync.Pool, which
// the race detector empties at random, so that an average is not the same twice.
func leastAllocs(f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for range 100 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

func TestNames_clean_arguments_need_no_memory(t *testing.T) {
	n := secret.NewNames([]string{"billing_pin"})
	args := json.RawMessage(`{"path":"a.txt","max_tokens":12,"options":{"dry_run":true,"labels":["a","b"]}}`)
	if got := leastAllocs(func() { _, _, _ = n.Redact(args) }); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestNames_joined_in_any_way(t *testing.T) {
	n := secret.NewNames([]string{"billing_pin"})
	for name, want := range map[string]bool{
		"api_key": true, "api-key": true, "api.key": true, "api__key": true, "_api_key": true, "api_key_": true,
		"api key": true,
		"apiKey":  true, "API_KEY": true, "api_key2": true, "x_billing_pin": true, "x_billingPin": true,
		"a_b_c_d_e_f_g_h_password": true, "": false, "_": false, "path": false, "a_b": false, "token_count": false,
	} {
		if got := n.Sensitive(name); got != want {
			t.Errorf("Sensitive(%q) = %v", name, got)
		}
	}
}
