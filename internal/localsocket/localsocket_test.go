package localsocket

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
)

// olga is on whose behalf the tests work.
func olga() haft.Principal {
	return haft.Principal{Org: "acme", User: "olga", Roles: []string{haft.RoleAdmin}}
}

// listen serves a directory: every request is answered with the principal.
func listen(t *testing.T, dir string) *Listener {
	t.Helper()
	l, err := Listen(dir, Welcome{Version: "v1", Command: "serve", Reduced: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	web := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			p, ok := PeerOf(r.Context())
			_ = json.NewEncoder(w).Encode(map[string]any{"principal": p, "local": ok})
		})}
	go func() { served <- web.Serve(l) }()
	t.Cleanup(func() {
		if err := web.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return l
}

// ask sends one request over a connection.
func ask(t *testing.T, conn net.Conn) (p haft.Principal) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
	res, err := c.Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct {
		Principal haft.Principal
		Local     bool
	}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || !got.Local {
		t.Fatalf("the answer: %+v, %v", got, err)
	}
	return got.Principal
}

// deep makes a directory whose socket has a longer path than an address of the kernel can hold.
func deep(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDial(t *testing.T) {
	for name, dir := range map[string]string{"short path": t.TempDir(), "long path": deep(t)} {
		t.Run(name, func(t *testing.T) {
			hello := Hello{Version: "v2", Principal: olga()}
			hello.Principal.Credential, hello.Principal.Scope = "key:x.y", []string{"tool:*"}
			if _, _, err := Dial(t.Context(), dir, hello); !errors.Is(err, ErrNotServed) {
				t.Fatalf("Dial before Listen: %v", err)
			}
			l := listen(t, dir)
			if info, err := os.Lstat(l.Path()); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
			}
			conn, w, err := Dial(t.Context(), dir, hello)
			if err != nil {
				t.Fatal(err)
			}
			if w.Version != "v1" || w.PID != os.Getpid() || w.Command != "serve" || !w.Reduced || w.Agents {
				t.Errorf("the welcome is %+v", w)
			}
			got := ask(t, conn)
			if got.Org != "acme" || got.User != "olga" || len(got.Roles) != 1 || got.Credential != "" ||
				got.Scope != nil {
				t.Errorf("the principal is %+v", got)
			}
			if err := errors.Join(l.Close(), l.Close()); err != nil {
				t.Error(err)
			}
			if _, _, err := Dial(t.Context(), dir, hello); !errors.Is(err, ErrNotServed) {
				t.Errorf("Dial after Close: %v", err)
			}
		})
	}
}

// A principal is checked where it arrives.
func TestDial_refused(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir)
	for name, p := range map[string]haft.Principal{"no organisation": {User: "olga"}, "nothing": {}} {
		if _, _, err := Dial(t.Context(), dir, Hello{Principal: p}); haft.CodeOf(err) != haft.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is no line of a client gets no principal, and is bounded.
func TestListener_garbage(t *testing.T) {
	dir := t.TempDir()
	l := listen(t, dir)
	for name, text := range map[string]string{
		"not JSON":             "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"another version":      `{"protocol":2,"principal":{"org":"acme","user":"olga"}}` + "\n",
		"too long":             `{"protocol":1,"version":"` + strings.Repeat("x", maxLine) + `"}` + "\n",
		"a request behind it":  `{"protocol":1,"principal":{"org":"acme","user":"olga"}}` + "\nGET / HTTP/1.1\r\n\r\n",
		"a number for a name":  `{"protocol":1,"principal":{"org":7}}` + "\n",
		"nothing but an empty": "\n",
	} {
		conn, err := net.Dial("unix", l.Path())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text) // a server that has read enough does not read on
		var w Welcome
		if err := receive(conn, &w); err != nil || w.Refused == nil || w.Refused.Code != haft.CodeInvalid {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
		_ = conn.Close()
	}
}

// A server that is leaving, or was killed, has not served: the client goes elsewhere.
func TestDial_leaving(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir, Welcome{}, nil) // which accepts nobody
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := Dial(t.Context(), dir, Hello{Principal: olga()})
		done <- err
	}()
	<-time.After(50 * time.Millisecond) // either way it is not served
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, ErrNotServed) {
		t.Errorf("Dial of a server that leaves: %v", err)
	}
}

// A server of another version is named, with what to do.
func TestDial_versions(t *testing.T) {
	dir := t.TempDir()
	old, err := net.Listen("unix", filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	go func() {
		if conn, err := old.Accept(); err == nil {
			_ = send(conn, Welcome{Protocol: 7, Version: "v7", Command: "serve", PID: 42})
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	_, _, err = Dial(t.Context(), dir, Hello{Version: "v1", Principal: olga()})
	if haft.CodeOf(err) != haft.CodeConflict ||
		!strings.Contains(haft.MessageOf(err), "haft serve (pid 42), which has the data directory, is of version v7") {
		t.Errorf("Dial = %v", err)
	}
}

// One process serves a directory. What a killed one left is replaced, and other files are not.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	first := listen(t, dir)
	if _, err := Listen(dir, Welcome{}, nil); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("a second listener: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, Name), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // as if it was killed
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Dial(t.Context(), dir, Hello{Principal: olga()}); !errors.Is(err, ErrNotServed) {
		t.Errorf("Dial of what a killed process left: %v", err)
	}
	again := listen(t, dir)
	conn, _, err := Dial(t.Context(), dir, Hello{Principal: olga()})
	if err != nil {
		t.Fatal(err)
	}
	ask(t, conn)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, Name), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir, Welcome{}, nil); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("Listen where a file is: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, Name)); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if _, _, err := Dial(t.Context(), dir, Hello{}); !errors.Is(err, ErrNotServed) {
		t.Errorf("Dial where a file is: %v", err)
	}
}

// A server that yields is asked to, and one that does not goes on.
func TestDial_yield(t *testing.T) {
	for name, yields := range map[string]bool{"yields": true, "stays": false} {
		dir, asked := t.TempDir(), make(chan struct{})
		var yield func()
		if yields {
			yield = func() { close(asked) }
		}
		l, err := Listen(dir, Welcome{}, yield)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := l.Accept(); err == nil {
				_ = conn.Close()
			}
		}()
		_, w, err := Dial(t.Context(), dir, Hello{Principal: olga(), Yield: true})
		if err != nil || w.Yields != yields {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
		if yields {
			<-asked
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Many clients at once are all served.
func TestDial_many(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir)
	const clients = 3 * maxHandshakes
	failed := make(chan error, clients)
	for range clients {
		go func() {
			conn, _, err := Dial(t.Context(), dir, Hello{Principal: olga()})
			if err == nil {
				err = conn.Close()
			}
			failed <- err
		}()
	}
	for range clients {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// FuzzReceive: no line makes a principal that is none, and every one is read within its bound.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"protocol":1,"version":"v1","principal":{"org":"acme","user":"olga","roles":["admin"]}}` + "\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, b := net.Pipe()
		go func() {
			_, _ = a.Write(text)
			_ = a.Close()
		}()
		var h Hello
		if receive(b, &h) == nil && len(text) > maxLine {
			t.Error("a line is longer than its bound")
		}
		_ = b.Close()
	})
}
