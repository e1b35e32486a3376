package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/egress"
	"haft/internal/oauth"
	"haft/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a token endpoint, and a client that trusts it.
type endpoint struct {
	*httptest.Server
	asked  atomic.Int64
	answer atomic.Value // func(http.ResponseWriter, *http.Request)
	now    atomic.Int64 // seconds that the clock of the client is ahead
}

// start starts one, which is reached through the guard as everything is.
func start(t *testing.T, answer http.HandlerFunc) (*endpoint, *oauth.Client) {
	t.Helper()
	e := &endpoint{}
	e.answer.Store(answer)
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.asked.Add(1)
		e.answer.Load().(http.HandlerFunc)(w, r)
	}))
	t.Cleanup(e.Close)
	guard := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		TLS: &egress.TLS{Roots: e.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	t.Cleanup(guard.CloseIdle)
	c := oauth.New(oauth.Config{HTTP: guard.Client(),
		Now: func() time.Time { return time.Now().Add(time.Duration(e.now.Load()) * time.Second) }})
	return e, c
}

// ask asks for client credentials.
func (e *endpoint) ask() oauth.Ask {
	return oauth.Ask{OAuth: secret.OAuth{TokenURL: e.URL + "/token", Grant: secret.GrantClient, ClientID: "id & co",
		Scope: "a b"}, Client: secret.New("the client's secret: 50%")}
}

// gives answers with a token and how long it is good.
func gives(token string, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"%s}`, token, more)
	}
}

func TestClient_sends_what_the_standard_says(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*oauth.Ask)
		want   map[string]string
		basic  bool
	}{
		{"client credentials", func(*oauth.Ask) {},
			map[string]string{"grant_type": "client_credentials", "scope": "a b"}, true},
		{"in the body", func(a *oauth.Ask) { a.Post, a.Audience = true, "api" },
			map[string]string{"grant_type": "client_credentials", "client_id": "id & co",
				"client_secret": "the client's secret: 50%", "audience": "api"}, false},
		{"refresh token", func(a *oauth.Ask) { a.Grant, a.Refresh = secret.GrantRefresh, secret.New("r-1234567") },
			map[string]string{"grant_type": "refresh_token", "refresh_token": "r-1234567"}, true},
		{"refresh token of a public client", func(a *oauth.Ask) {
			a.Grant, a.Refresh, a.Client = secret.GrantRefresh, secret.New("r-1234567"), secret.Value{}
		}, map[string]string{"client_id": "id & co", "client_secret": ""}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, c := start(t, func(w http.ResponseWriter, r *http.Request) {
				for name, want := range tt.want {
					if got := r.PostFormValue(name); got != want {
						t.Errorf("%s = %q, want %q", name, got, want)
					}
				}
				user, password, ok := r.BasicAuth()
				if ok != tt.basic || ok && (user != "id+%26+co" || password != "the+client%27s+secret%3A+50%25") {
					t.Errorf("basic authentication: %q %q %v", user, password, ok)
				}
				gives("token-1", "")(w, r)
			})
			a := e.ask()
			tt.change(&a)
			if got, err := c.Token(t.Context(), a); err != nil || got.Reveal() != "token-1" {
				t.Errorf("Token = %q, %v", got.Reveal(), err)
			}
		})
	}
}

// One exchange serves all who ask at once, and the token is used until shortly
// before it is over.
func TestClient_keeps_tokens_for_as_long_as_they_are_good(t *testing.T) {
	e, c := start(t, gives("token-1", `,"expires_in":"3600"`))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := c.Token(t.Context(), e.ask()); err != nil || got.Reveal() != "token-1" {
				t.Errorf("Token = %q, %v", got.Reveal(), err)
			}
		})
	}
	all.Wait()
	if n := e.asked.Load(); n != 1 {
		t.Errorf("20 callers asked %d times", n)
	}
	e.answer.Store(gives("token-2", `,"expires_in":60`))
	for _, step := range []struct {
		ahead int64
		want  string
	}{{3500, "token-1"}, {3580, "token-2"}, {3630, "token-2"}, {3640, "token-2"}} {
		e.now.Store(step.ahead)
		if got, err := c.Token(t.Context(), e.ask()); err != nil || got.Reveal() != step.want {
			t.Errorf("after %d seconds: %q, %v", step.ahead, got.Reveal(), err)
		}
	}
	if n := e.asked.Load(); n != 3 {
		t.Errorf("the endpoint was asked %d times in all, want 3", n)
	}
	other := e.ask()
	other.Client = secret.New("another secret")
	if _, err := c.Token(t.Context(), other); err != nil || e.asked.Load() != 4 {
		t.Errorf("another credential: %v, asked %d times", err, e.asked.Load())
	}
}

// A server that gives a new refresh token has it used from then on, and rotated.
func TestClient_follows_refresh_tokens(t *testing.T) {
	var n atomic.Int64
	e, c := start(t, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.PostFormValue("refresh_token"), fmt.Sprint("refresh-", n.Load()); got != want {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		gives(fmt.Sprint("token-", n.Load()), fmt.Sprintf(`,"expires_in":100,"refresh_token":"refresh-%d"`, n.Add(1)))(
			w, r)
	})
	a := e.ask()
	a.Grant, a.Refresh = secret.GrantRefresh, secret.New("refresh-0")
	var rotated []string
	a.Rotated = func(_ context.Context, _, next secret.Value) { rotated = append(rotated, next.Reveal()) }
	for i := range 3 {
		e.now.Store(int64(i * 200))
		if got, err := c.Token(t.Context(), a); err != nil || got.Reveal() != fmt.Sprint("token-", i) {
			t.Errorf("Token = %q, %v", got.Reveal(), err)
		}
	}
	if strings.Join(rotated, " ") != "refresh-1 refresh-2 refresh-3" {
		t.Errorf("the rotated tokens are %v", rotated)
	}
	kept := a
	kept.Refresh = secret.New("refresh-3")
	if got, err := c.Token(t.Context(), kept); err != nil || got.Reveal() != "token-2" || e.asked.Load() != 3 {
		t.Errorf("who reads the new one: %q, %v; the endpoint was asked %d times", got.Reveal(), err, e.asked.Load())
	}
}

// An exchange that began is finished though who asked has left: the refresh token
// it brings would be lost.
func TestClient_finishes_what_it_began(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	e, c := start(t, func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-goOn
		gives("token-1", `,"refresh_token":"refresh-1"`)(w, r)
	})
	a := e.ask()
	a.Grant, a.Refresh = secret.GrantRefresh, secret.New("refresh-0")
	rotated := make(chan string, 1)
	a.Rotated = func(_ context.Context, _, next secret.Value) { rotated <- next.Reveal() }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := c.Token(ctx, a); done <- err }()
	<-inside
	cancel()
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("Token = %v", err)
	}
	if got := <-rotated; got != "refresh-1" {
		t.Errorf("the rotated token is %q", got)
	}
}

// A slow is a token endpoint that takes all the time that it has.
type slow struct{}

func (slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body := struct {
		io.Reader
		io.Closer
	}{strings.NewReader(`{"access_token":"token-1","refresh_token":"refresh-1"}`),
		closer(func() error { <-r.Context().Done(); return nil })}
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

type closer func() error

func (f closer) Close() error { return f() }

// However long others had the refresh token, an exchange has its own time; and
// however long that took, there is time to keep what came.
func TestClient_has_time_for_what_must_not_be_lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oauth.New(oauth.Config{HTTP: &http.Client{Transport: slow{}}})
		rotated := ""
		a := oauth.Ask{
			OAuth:   secret.OAuth{TokenURL: "https://example.com/token", Grant: secret.GrantRefresh, ClientID: "id"},
			Refresh: secret.New("refresh-0"),
			Rotated: func(ctx context.Context, _, next secret.Value) {
				if err := ctx.Err(); err != nil {
					t.Errorf("a new refresh token cannot be kept: %v", err)
				}
				rotated = next.Reveal()
			},
			Alone: func(ctx context.Context) (secret.Value, func(), error) {
				<-ctx.Done() // others took all the time there was to wait
				return secret.New("refresh-0"), func() {}, nil
			},
		}
		if got, err := c.Token(t.Context(), a); err != nil || got.Reveal() != "token-1" || rotated != "refresh-1" {
			t.Errorf("Token = %q, %v, and the rotated token is %q", got.Reveal(), err, rotated)
		}
	})
}

func TestClient_errors_say_what_and_not_which(t *testing.T) {
	echo := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			w.WriteHeader(status)
			fmt.Fprint(w, strings.ReplaceAll(body, "ECHO", fmt.Sprint(r.PostForm, r.Header["Authorization"])))
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"known code", echo(400, `{"error":"invalid_client","error_description":"ECHO"}`), "invalid_client"},
		{"unknown code", echo(401, `{"error":"ECHO"}`), "status 401"},
		{"text", echo(200, `ECHO`), "not JSON"},
		{"no token", echo(200, `{"access_token":""}`), "no token"},
		{"a token with a line break", echo(200, `{"access_token":"abcdef\r\nX-Evil: 1"}`), "no token"},
		{"not for bearers", echo(200, `{"access_token":"abcdefgh","token_type":"DPoP"}`), "bearers"},
		{"strange time", echo(200, `{"access_token":"abcdefgh","expires_in":{}}`), "how long"},
		{"huge", echo(200, `{"access_token":"`+strings.Repeat("a", 2<<20)+`"}`), "more than"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "status 307"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, c := start(t, tt.answer)
			a := e.ask()
			a.Post = true
			_, err := c.Token(t.Context(), a)
			if haft.CodeOf(err) != haft.CodeUnavailable || !strings.Contains(haft.MessageOf(err), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
			raw, _ := json.Marshal(err)
			if all := fmt.Sprintf("%v %+v %s %v", err, err, raw, errors.Unwrap(err)); strings.Contains(all,
				"client's") || strings.Contains(all, "secret: 50") {
				t.Errorf("the error holds the secret: %s", all)
			}
			if _, err := c.Token(t.Context(), a); err == nil || e.asked.Load() != 1 {
				t.Errorf("a refusal is not believed for a moment: %v, asked %d times", err, e.asked.Load())
			}
		})
	}
}

func TestClient_refuses(t *testing.T) {
	e, c := start(t, gives("token", ""))
	for name, change := range map[string]func(*oauth.Ask){
		"http": func(a *oauth.Ask) {
			a.TokenURL = strings.Replace(a.TokenURL, "https", "http",
				1)
		},
		"a user in the URL":         func(a *oauth.Ask) { a.TokenURL = "https://a:b@example.com/" },
		"no URL":                    func(a *oauth.Ask) { a.TokenURL = "token" },
		"another grant":             func(a *oauth.Ask) { a.Grant = "password" },
		"no client":                 func(a *oauth.Ask) { a.ClientID = "" },
		"a line break in the scope": func(a *oauth.Ask) { a.Scope = "a\r\nb" },
		"no secret":                 func(a *oauth.Ask) { a.Client = secret.Value{} },
		"no refresh token":          func(a *oauth.Ask) { a.Grant = secret.GrantRefresh },
	} {
		a := e.ask()
		change(&a)
		if _, err := c.Token(t.Context(), a); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Where the guard does not let anybody go, neither does this.
	a := e.ask()
	a.TokenURL = "https://169.254.169.254/token"
	if _, err := c.Token(t.Context(), a); haft.CodeOf(err) != haft.CodeUnavailable ||
		!strings.Contains(haft.MessageOf(err), "may not be reached") {
		t.Errorf("the metadata service: %v", err)
	}
	if e.asked.Load() != 0 {
		t.Error("something was asked all the same")
	}
}
