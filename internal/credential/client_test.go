package credential_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"haft"
	"haft/internal/credential"
	"haft/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a service of credentials and returns a client of it.
func serve(t *testing.T, cfg credential.Config, h http.HandlerFunc) *credential.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	cfg.URL, cfg.Client = s.URL+"/credentials?token=in-the-address", s.Client()
	c, err := credential.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is an answer with a body and headers.
func answer(body string, headers ...string) *http.Response {
	res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(headers); i += 2 {
		res.Header.Add(headers[i], headers[i+1])
	}
	return res
}

// over returns a client over f.
func over(t *testing.T, cfg credential.Config, f transport) *credential.Client {
	t.Helper()
	cfg.URL, cfg.Client = "https://credentials.example/x", &http.Client{Transport: f}
	c, err := credential.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask is the question of the tests.
var ask = credential.Ask{Org: "acme", User: "ann", Agent: "ag_1", Tool: "deploy", ToolID: "t_1", Call: "c_1"}

// reveal shows what a test was given.
func reveal(values []secret.Named) map[string]string {
	out := map[string]string{}
	for _, v := range values {
		out[v.Name] = v.Value.Reveal()
	}
	return out
}

func TestClient_asks_as_Letta_does_and_signs(t *testing.T) {
	signing := secret.New("signing-key")
	var wrong atomic.Pointer[string]
	c := serve(t, credential.Config{Key: secret.New("bearer-key"), Signing: signing},
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			var got map[string]string
			err = errors.Join(err, json.Unmarshal(body, &got),
				credential.Verify(signing, r.Header, body, time.Now(), time.Minute))
			want := map[string]string{"organization_id": "acme", "user_id": "ann", "agent_id": "ag_1",
				"tool_name": "deploy", "tool_id": "t_1", "call_id": "c_1"}
			if diff := cmp.Diff(want, got); diff != "" || err != nil || r.Method != http.MethodPost ||
				r.Header.Get("Authorization") != "Bearer bearer-key" {
				text := fmt.Sprintf("%s %v %s %v", diff, err, r.Method, r.Header)
				wrong.Store(&text)
			}
			fmt.Fprint(w, `{"API_KEY": "k-é", "EMPTY": "", "GONE": null}`)
		})
	values, err := c.Fetch(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"API_KEY": "k-é", "EMPTY": ""}, reveal(values)); diff != "" {
		t.Error(diff)
	}
	if w := wrong.Load(); w != nil {
		t.Error(*w)
	}
}

func TestVerify_refuses(t *testing.T) {
	key, body, now := secret.New("k"), []byte("{}"), time.Unix(1000, 0)
	header := func(at, sig string) http.Header {
		return http.Header{credential.HeaderTimestamp: {at}, credential.HeaderSignature: {sig}}
	}
	good := credential.Sign(key, "1000", body)
	if err := credential.Verify(key, header("1000", good), body, now, time.Minute); err != nil {
		t.Errorf("a good signature: %v", err)
	}
	for name, err := range map[string]error{
		"another key": credential.Verify(secret.New("l"), header("1000", good), body, now, time.Minute),
		"no key": credential.Verify(secret.Value{},
			header("1000", credential.Sign(secret.Value{}, "1000", body)), body, now, time.Minute),
		"another body":      credential.Verify(key, header("1000", good), []byte("[]"), now, time.Minute),
		"another timestamp": credential.Verify(key, header("1001", good), body, now, time.Minute),
		"an old one":        credential.Verify(key, header("1000", good), body, now.Add(time.Hour), time.Minute),
		"one of tomorrow":   credential.Verify(key, header("1000", good), body, now.Add(-time.Hour), time.Minute),
		"no timestamp":      credential.Verify(key, http.Header{}, body, now, time.Minute),
	} {
		if haft.CodeOf(err) != haft.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClient_refuses_bad_answers(t *testing.T) {
	const hidden = "hunter2-in-the-answer"
	huge := fmt.Sprintf(`{"A":%q}`, strings.Repeat("x", credential.MaxAnswer))
	many := &strings.Builder{}
	for i := range credential.MaxVariables + 1 {
		fmt.Fprintf(many, `"V%d":"x",`, i)
	}
	tests := []struct {
		name, body, says string
		status           int
		kind             string
	}{
		{name: "redirects", status: http.StatusFound, says: "redirect"},
		{name: "redirects with the method", status: http.StatusTemporaryRedirect, says: "redirect"},
		{name: "fails", status: http.StatusInternalServerError, body: hidden, says: "status 500"},
		{name: "is empty", body: "", says: "the text ends"},
		{name: "is an array", body: `["` + hidden + `"]`, says: "not a JSON object"},
		{name: "is a page", kind: "text/html; charset=utf-8", body: "<html>", says: "JSON"},
		{name: "is cut", body: `{"A":"` + hidden, says: "closing double quote"},
		{name: "has more", body: `{} {}`, says: "something after the value"},
		{name: "nests", body: `{"A":{"B":"` + hidden + `"}}`, says: "nested deeper"},
		{name: "has numbers", body: `{"A":1}`, says: "A is neither"},
		{name: "names twice", body: `{"A":"1","A":"2"}`, says: "a key stands twice"},
		{name: "names a loader's variable", body: `{"LD_PRELOAD":"` + hidden + `"}`, says: "LD_PRELOAD is reserved"},
		{name: "names what is no variable", body: `{"a b":"` + hidden + `"}`, says: "letters"},
		{name: "holds NUL", body: `{"A":"` + hidden + `\u0000"}`, says: "NUL"},
		{name: "is not UTF-8", body: "{\"A\":\"\xff\"}", says: "UTF-8"},
		{name: "is huge", body: huge, says: "more than 262144 bytes"},
		{name: "has many", body: "{" + strings.TrimSuffix(many.String(), ",") + "}", says: "more than 100 variables"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			followed := false
			c := serve(t, credential.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/credentials" {
					followed = true
				}
				if tt.kind != "" {
					w.Header().Set("Content-Type", tt.kind)
				}
				if tt.status != 0 {
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(tt.status)
				}
				fmt.Fprint(w, tt.body)
			})
			values, err := c.Fetch(t.Context(), ask)
			if haft.CodeOf(err) != haft.CodeUnavailable || values != nil ||
				!strings.Contains(haft.MessageOf(err), tt.says) {
				t.Errorf("Fetch = %v, %v; want an error that says %q", reveal(values), err, tt.says)
			}
			if err != nil && (strings.Contains(err.Error(), hidden) ||
				strings.Contains(err.Error(), "in-the-address")) {
				t.Errorf("the error shows what it should not: %v", err)
			}
			if followed {
				t.Error("the redirect was followed")
			}
		})
	}
}

func TestClient_says_that_the_service_is_away(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	url := s.URL
	s.Close()
	c, err := credential.New(credential.Config{URL: url + "/?token=in-the-address", Client: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(t.Context(), ask); haft.CodeOf(err) != haft.CodeUnavailable ||
		strings.Contains(err.Error(), "in-the-address") {
		t.Errorf("Fetch = %v", err)
	}
}

func TestClient_waits_no_longer_than_it_may(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		c := over(t, credential.Config{Timeout: 3 * time.Second}, slow)
		began := time.Now()
		if _, err := c.Fetch(t.Context(), ask); haft.CodeOf(err) != haft.CodeUnavailable ||
			time.Since(began) != 3*time.Second {
			t.Errorf("Fetch = %v after %v", err, time.Since(began))
		}
		// The failure is the answer for a moment, and then the service is asked
		// again.
		if _, err := c.Fetch(t.Context(), ask); err == nil || time.Since(began) != 3*time.Second {
			t.Errorf("a second Fetch = %v after %v", err, time.Since(began))
		}
		time.Sleep(5 * time.Second)
		if _, err := c.Fetch(t.Context(), ask); err == nil || time.Since(began) != 11*time.Second {
			t.Errorf("a later Fetch = %v after %v", err, time.Since(began))
		}
	})
}

func TestClient_keeps_answers_as_long_as_they_say(t *testing.T) {
	tests := []struct {
		name   string
		ttl    time.Duration
		header []string
		keeps  time.Duration // 0 means not at all
	}{
		{name: "a minute if nobody says", keeps: time.Minute},
		{name: "as configured", ttl: 5 * time.Second, keeps: 5 * time.Second},
		{name: "as the answer says", ttl: 5 * time.Second, header: []string{"Cache-Control", "private, max-age=90"},
			keeps: 90 * time.Second},
		{name: "never too long", header: []string{"Cache-Control", "max-age=999999999"}, keeps: credential.MaxTTL},
		{name: "not if configured so", ttl: -1},
		{name: "not if the answer says so", header: []string{"Cache-Control", "max-age=60", "Cache-Control",
			"no-store"}},
		{name: "not if it cannot be read", header: []string{"Cache-Control", "max-age=-1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c := over(t, credential.Config{TTL: tt.ttl}, func(*http.Request) (*http.Response, error) {
					asked++
					return answer(fmt.Sprintf(`{"N":"%d"}`, asked), tt.header...), nil
				})
				fetch := func(want string) {
					t.Helper()
					next := ask
					next.Call = haft.CallID(fmt.Sprint("c_", asked)) // each call asks for the same
					got, err := c.Fetch(t.Context(), next)
					if err != nil || reveal(got)["N"] != want {
						t.Errorf("Fetch = %v, %v; want %s", reveal(got), err, want)
					}
				}
				fetch("1")
				if tt.keeps == 0 {
					fetch("2")
					return
				}
				time.Sleep(tt.keeps - time.Nanosecond)
				fetch("1")
				time.Sleep(time.Nanosecond)
				fetch("2")
				c.Forget()
				fetch("3")
				other := ask
				other.User = "bob"
				if got, err := c.Fetch(t.Context(), other); err != nil || reveal(got)["N"] != "4" {
					t.Errorf("another user was given %v, %v", reveal(got), err)
				}
			})
		})
	}
}

// Those who ask at the same time share a request, and it does not fail for all
// when the one who made it leaves.
func TestClient_shares_requests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := over(t, credential.Config{Timeout: time.Minute}, func(r *http.Request) (*http.Response, error) {
			asked++
			select {
			case <-time.After(10 * time.Second):
				return answer(`{"A":"x"}`), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.Fetch(first, ask); haft.CodeOf(err) != haft.CodeUnavailable {
				t.Errorf("whoever left got %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			all.Go(func() {
				if got, err := c.Fetch(t.Context(), ask); err != nil || reveal(got)["A"] != "x" {
					t.Errorf("Fetch = %v, %v", reveal(got), err)
				}
			})
		}
		synctest.Wait()
		if asked != 1 {
			t.Errorf("%d requests on their way, want 1", asked)
		}
		leave()
		all.Wait()
		if asked != 2 {
			t.Errorf("%d requests in all, want 2: one of those who stayed asks again", asked)
		}
	})
}

func TestClient_forgets_the_oldest_of_too_many(t *testing.T) {
	c := over(t, credential.Config{}, func(*http.Request) (*http.Response, error) { return answer(`{}`), nil })
	for i := range 20_000 {
		if _, err := c.Fetch(t.Context(), credential.Ask{Org: "acme", User: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Kept(); n > 4096 {
		t.Errorf("%d answers are kept", n)
	}
}

func TestNew_refuses(t *testing.T) {
	for name, url := range map[string]string{
		"nothing": "", "no host": "https:///x", "a file": "file:///etc/passwd", "a password": "https://u:hunter2@host/",
		"plain http": "http://credentials.example/", "no URL": "https://host:port:1/",
	} {
		_, err := credential.New(credential.Config{URL: url, Client: http.DefaultClient})
		if haft.CodeOf(err) != haft.CodeInvalid || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cfg := range []credential.Config{{URL: "http://127.0.0.1:1/"}, {URL: "http://[::1]/"},
		{URL: "http://x.example/", Insecure: true}} {
		cfg.Client = http.DefaultClient
		if _, err := credential.New(cfg); err != nil {
			t.Errorf("%s: %v", cfg.URL, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"A":"b","C":null}`, `{"A":1}`, `{"A":"b"} x`, `{"A":"\ud800"}`, `{`, `[]`,
		`{"LD_X":""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		values, err := credential.Parse(raw)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeUnavailable || values != nil {
				t.Fatalf("Parse = %v, %v", values, err)
			}
			return
		}
		var want map[string]*string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("it was taken, and encoding/json says %v", err)
		}
		got := reveal(values)
		for name, text := range want {
			if text == nil {
				if _, ok := got[name]; ok {
					t.Errorf("%q is null and was taken", name)
				}
			} else if got[name] != *text || secret.CheckEnvName(name) != nil {
				t.Errorf("%q = %q, want %q", name, got[name], *text)
			}
		}
	})
}
