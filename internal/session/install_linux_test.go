package session_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"haft/executor"
	"haft/internal/session"
	"haft/sandbox"
)

// wheel is a package for pip.
func wheel(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range map[string]string{
		"tiny.py":                     "answer = 42\n",
		"tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
		"tiny-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"tiny-1.0.dist-info/RECORD":   "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n",
	} {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tarball is a package for npm.
func tarball(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"tiny","version":"1.0.0","main":"index.js"}`,
		"package/index.js":     "module.exports = 42\n",
	} {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// index is the egress of a session in which one host is: an index of packages.
func index(t *testing.T) func(context.Context, net.Conn) {
	t.Helper()
	py, js := wheel(t), tarball(t)
	mux := http.NewServeMux()
	send := func(kind string, b []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Host != "index.test" {
				http.Error(w, "this host is not allowed", http.StatusForbidden)
				return
			}
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(b) // the client says what it misses
		}
	}
	mux.Handle("GET /simple/tiny/", send("text/html", []byte(`<a href="/files/tiny-1.0-py3-none-any.whl">tiny</a>`)))
	mux.Handle("GET /files/tiny-1.0-py3-none-any.whl", send("application/zip", py))
	mux.Handle("GET /tiny", send("application/json", []byte(`{"name":"tiny","dist-tags":{"latest":"1.0.0"},`+
		`"versions":{"1.0.0":{"name":"tiny","version":"1.0.0","dist":{"tarball":"http://index.test/tiny.tgz"}}}}`)))
	mux.Handle("GET /tiny.tgz", send("application/octet-stream", js))
	return func(ctx context.Context, conn net.Conn) {
		l := &oneConn{conn: conn, done: make(chan struct{})}
		server := &http.Server{Handler: mux, ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				l.once.Do(func() { close(l.done) })
			}
		}}
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		_ = server.Serve(l) // it ends with the connection
	}
}

// oneConn is a listener of one connection.
type oneConn struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
	gave bool
}

// Accept implements [net.Listener].
func (l *oneConn) Accept() (net.Conn, error) {
	if !l.gave {
		l.gave = true
		return l.conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements [net.Listener].
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// Where a call may reach an index, code installs packages with the usual programs, and later code has them. Between
// calls nothing is reached.
func TestSession_installs_packages(t *testing.T) {
	m, serve := setup(t, session.Config{}), index(t)
	s := open(t, m, session.Options{Request: executor.Request{Network: sandbox.NetworkEgress, ServeEgress: serve}})
	pip := "python3 -m pip install -q --no-input --retries 0 --timeout 60 --index-url http://index.test/simple " +
		"--trusted-host index.test tiny 2>&1"
	npm := "npm install --registry http://index.test/ --fetch-retries 0 --no-audit --no-fund tiny 2>&1"
	_, found := runCode(t, s, "bash", "python3 -m pip --version >&2 && echo pip; command -v npm >/dev/null && echo npm")
	code(t, s, "python", "import sys") // the interpreter is there before the package is
	if _, out := runCode(t, s, "bash", pip+"; echo status $?"); !strings.Contains(out, "status 1") {
		t.Errorf("without a call that may, pip reaches %s", out)
	}
	stop := s.Serve(serve)
	for _, c := range []struct{ program, install, language, use string }{
		{"pip", pip, "python", "import tiny; tiny.answer"}, {"npm", npm, "javascript", "require('tiny')"},
	} {
		if !strings.Contains(found, c.program+"\n") {
			t.Logf("%s is not in the session", c.program)
			continue
		}
		if _, out := runCode(t, s, "bash", c.install+"; echo status $?"); !strings.Contains(out, "status 0") {
			t.Errorf("%s: %s", c.program, out)
			continue
		}
		if text, _ := code(t, s, c.language, c.use); text != "42" {
			t.Errorf("%s says %q", c.language, text)
		}
	}
	stop()
	other := open(t, m, session.Options{Name: "other", Request: executor.Request{Network: sandbox.NetworkEgress,
		ServeEgress: serve}})
	if out, _ := runCode(t, other, "python", "import tiny"); out.Error == nil {
		t.Error("another session has the package")
	}
}
