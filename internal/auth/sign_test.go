package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/auth"
)

// The clients in other languages sign this too.
func TestSignature_is_pinned(t *testing.T) {
	const key = "haft_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbntejriy"
	if id, ok := auth.ParseKey(key); !ok || id != "aaaaaaaaaaaa" {
		t.Errorf("ParseKey = %q, %v", id, ok)
	}
	got := header(key, "POST", "/v1/calls?wait=1", `{"tool":"add"}`, "0123456789abcdef", 1700000000)
	const want = "HAFT-HMAC-SHA256 " +
		"key=aaaaaaaaaaaa,time=1700000000,nonce=0123456789abcdef,body=c39ab5ee1d647999c74315b1028c80e02531dcaf3f4947f57f6c09c9be40fbac,signature=5d5495e079a4ede07d0fd33ef23aa01e6138c906b6d5016f8db9d11ffbebf845"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSign_over_HTTP(t *testing.T) {
	w := setup(t)
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id, err := w.Admit(r, netip.MustParseAddrPort(r.RemoteAddr).Addr())
		if err != nil || !id.Signed || id.Key != w.id {
			http.Error(rw, fmt.Sprint(err), http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusUnauthorized)
			return
		}
		bodies = append(bodies, string(body))
	}))
	defer server.Close()
	send := func(method, target string, body io.Reader) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+target, body)
		if err != nil {
			t.Fatal(err)
		}
		if err := auth.Sign(req, w.key); err != nil {
			t.Fatal(err)
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, _ := io.ReadAll(res.Body)
		if res.StatusCode != 200 {
			t.Logf("%s %s: %s", method, target, answer)
		}
		return res.StatusCode
	}
	for _, target := range []string{"", "/", "/v1/tools?format=openai&strict=true", "/a%2Fb/%c3%a9?q=a+b%20c",
		"//double", "/?", "/a;b=c", "/a/../b", "/é?q=1"} {
		if got := send("GET", target, nil); got != 200 {
			t.Errorf("GET %q: %d", target, got)
		}
		if got := send("POST", target, strings.NewReader(`{"a": 1}`)); got != 200 {
			t.Errorf("POST %q: %d", target, got)
		}
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if got := send("PUT", "/big", bytes.NewReader(big)); got != 200 || bodies[len(bodies)-1] != string(big) {
		t.Errorf("a large body: %d", got)
	}
	server.CloseClientConnections()
	server.Client().CloseIdleConnections()
}

func TestSign_refuses_what_it_cannot_sign(t *testing.T) {
	w := setup(t)
	once, _ := http.NewRequest("POST", "http://x/", io.MultiReader(strings.NewReader("a")))
	opaque, _ := http.NewRequest("GET", "http:opaque", nil)
	lower, _ := http.NewRequest("get", "http://x/", nil)
	good, _ := http.NewRequest("GET", "http://x/", nil)
	wantCode(t, "a body to be read once", auth.Sign(once, w.key), haft.CodeInvalid)
	wantCode(t, "an address without a path", auth.Sign(opaque, w.key), haft.CodeInvalid)
	wantCode(t, "a method in lower case", auth.Sign(lower, w.key), haft.CodeInvalid)
	wantCode(t, "no key", auth.Sign(good, w.key[1:]), haft.CodeInvalid)
	broken, _ := http.NewRequest("POST", "http://x/", strings.NewReader("a"))
	broken.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), nil }
	if err := auth.Sign(broken, w.key); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that cannot be read: %v", err)
	}
	broken.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
	if err := auth.Sign(broken, w.key); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a body that cannot be had again: %v", err)
	}
}

func TestBody(t *testing.T) {
	const text = `{"tool": "add"}`
	digest := header("haft_x_", "", "", text, "", 0)
	_, digest, _ = strings.Cut(digest, "body=")
	digest = digest[:64]
	for _, tt := range []struct {
		name, body, digest string
		ok                 bool
	}{
		{"the signed one", text, digest, true},
		{"one byte changed", `{"tool": "adt"}`, digest, false},
		{"longer", text + " ", digest, false},
		{"shorter", text[:14], digest, false},
		{"empty", "", digest, false},
		{"no digest", text, "", false},
		{"half a digest", text, digest[:32], false},
		{"not hex", text, strings.Repeat("z", 64), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
				"end with data": iotest.DataErrReader,
			} {
				b := auth.CheckBody(io.NopCloser(wrap(strings.NewReader(tt.body))), tt.digest)
				_, err := io.ReadAll(b)
				if tt.ok && err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if !tt.ok {
					wantRefused(t, err, auth.ReasonBody)
					_, again := b.Read(make([]byte, 1))
					wantRefused(t, again, auth.ReasonBody)
				}
			}
		})
	}
	// A decoder stops before the end, and Finish goes there.
	b := auth.CheckBody(io.NopCloser(strings.NewReader(`{"tool": "rm"}`+strings.Repeat(" ", 10_000))), digest)
	var v any
	if err := json.NewDecoder(b).Decode(&v); err != nil {
		t.Fatalf("the decoder reached the end: %v", err)
	}
	wantRefused(t, b.Finish(), auth.ReasonBody)
	cut := auth.CheckBody(io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), digest)
	if err := cut.Finish(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a connection that was cut: %v", err)
	}
}

func TestSkew_and_nonces_over_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // requests of before the start are another test's
		kept := auth.NewMemoryNonces(0, 0)
		w := setup(t, func(c *auth.Config) { c.Nonces, c.Skew = kept, time.Minute })
		time.Sleep(10 * time.Minute)
		now := time.Now()
		for _, tt := range []struct {
			off  time.Duration
			want auth.Reason
		}{
			{0, ""}, {-time.Minute, ""}, {time.Minute, ""}, {-time.Minute - time.Second, auth.ReasonClock},
			{time.Minute + time.Second, auth.ReasonClock},
			{-24 * time.Hour, auth.ReasonClock}, {100 * 365 * 24 * time.Hour, auth.ReasonClock},
		} {
			_, err := w.Admit(received("GET", "/", "", header(w.key, "GET", "/", "", nonce(), now.Add(tt.off).Unix())),
				home)
			if auth.ReasonOf(err) != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("signed %v from now: %v, want %q", tt.off, err, tt.want)
			}
		}
		// At no moment from its first use on is a request good again.
		ahead := header(w.key, "GET", "/", "", nonce(), now.Add(time.Minute).Unix())
		if _, err := w.Admit(received("GET", "/", "", ahead), home); err != nil {
			t.Fatal(err)
		}
		for range 150 {
			_, err := w.Admit(received("GET", "/", "", ahead), home)
			wantCode(t, time.Since(now).String(), err, haft.CodeUnauthenticated)
			time.Sleep(time.Second)
		}
		// And what is over is forgotten.
		if _, err := w.Admit(received("GET", "/", "", header(w.key, "GET", "/", "", nonce(), time.Now().Unix())),
			home); err != nil {
			t.Fatal(err)
		}
		if total, keys := kept.Kept(); total != 1 || keys != 1 {
			t.Errorf("%d nonces of %d keys are kept, want 1 of 1", total, keys)
		}
	})
}

func TestNonces_have_bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := auth.NewMemoryNonces(3, 5)
		use := func(key, nonce string, until time.Duration) (bool, haft.Code) {
			fresh, err := m.Use(t.Context(), key, nonce, time.Now(), time.Now().Add(until))
			return fresh, haft.CodeOf(err)
		}
		for i, tt := range []struct {
			key, nonce string
			fresh      bool
			code       haft.Code
		}{
			{"a", "1", true, ""}, {"a", "2", true, ""}, {"a", "3", true, ""}, {"a", "4", false, haft.CodeRateLimited},
			{"a", "1", false, ""}, // a full one still knows
			{"b", "1", true, ""}, {"b", "2", true, ""}, {"b", "3", false, haft.CodeRateLimited},
			{"c", "1", false, haft.CodeRateLimited},
		} {
			if fresh, code := use(tt.key, tt.nonce, time.Minute); fresh != tt.fresh || code != tt.code {
				t.Errorf("%d: Use(%s, %s) = %v, %q, want %v, %q", i, tt.key, tt.nonce, fresh, code, tt.fresh, tt.code)
			}
		}
		if total, keys := m.Kept(); total != 5 || keys != 2 {
			t.Errorf("%d nonces of %d keys", total, keys)
		}
		time.Sleep(59 * time.Second)
		if fresh, _ := use("a", "1", time.Minute); fresh {
			t.Error("a nonce was forgotten before its time")
		}
		time.Sleep(30 * time.Second)
		if fresh, code := use("a", "4", time.Minute); !fresh {
			t.Errorf("there is no room after the others' time: %q", code)
		}
		if fresh, _ := use("a", "5", -time.Second); fresh {
			t.Error("a nonce of the past is good")
		}
	})
}

func TestNonces_of_before_a_restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := time.Now()
		time.Sleep(5 * time.Second)
		w := setup(t)
		_, err := w.Admit(received("GET", "/", "", header(w.key, "GET", "/", "", nonce(), before.Unix())), home)
		wantRefused(t, err, auth.ReasonReplay)
		if _, err := w.Admit(received("GET", "/", "", header(w.key, "GET", "/", "", nonce(), time.Now().Unix())),
			home); err != nil {
			t.Error(err)
		}
	})
}
