package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"haft"
	"haft/app"
	"haft/sandbox"
	"haft/sandbox/modal"
)

// failing makes a fault of a method: always, or a number of times.
func failing(method string, times int64, err error) func(string) error {
	var n atomic.Int64
	return func(m string) error {
		if m == method && (times == 0 || n.Add(1) <= times) {
			return err
		}
		return nil
	}
}

// serverText stands for what a server may say; nothing of it is passed on.
const serverText = "text of the server"

// What the API answers becomes an error with a code, and nothing of its texts is passed on.
func TestModalClient_faults(t *testing.T) {
	s := startModalServer(t)
	var logged bytes.Buffer
	p := openModalClient(t, func(c *modal.Config) {
		c.Server, c.Fresh, c.Logger = "http://"+s.url, true, slog.New(slog.NewTextHandler(&logged, nil))
	})
	busy, err := status.New(codes.ResourceExhausted, serverText).WithDetails(
		pb.RPCRetryPolicy_builder{RetryAfterSecs: 7}.Build())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method string
		code   codes.Code
		want   haft.Code
		says   string
		lost   bool
	}{
		{"AuthTokenGet", codes.Unauthenticated, haft.CodeUnavailable, "MODAL_TOKEN_ID", false},
		{"AppGetOrCreate", codes.PermissionDenied, haft.CodeUnavailable, "MODAL_TOKEN_ID", false},
		{"ImageGetOrCreate", codes.InvalidArgument, haft.CodeUnavailable, "does not take", false},
		{"SandboxCreateV2", codes.Unauthenticated, haft.CodeUnavailable, "MODAL_TOKEN_SECRET", false},
		{"SandboxCreateV2", codes.NotFound, haft.CodeUnavailable, "HAFT_MODAL_IMAGE", false},
		{"SandboxCreateV2", codes.FailedPrecondition, haft.CodeUnavailable, "state", false},
		{"SandboxCreateV2", codes.ResourceExhausted, haft.CodeRateLimited, "no more", false},
		{"SandboxCreateV2", codes.Unavailable, haft.CodeUnavailable, "cannot be reached", false},
		{"SandboxCreateV2", codes.DeadlineExceeded, haft.CodeUnavailable, "in time", false},
		{"TaskExecStart", codes.ResourceExhausted, haft.CodeRateLimited, "no more", false},
		{"TaskExecStart", codes.NotFound, haft.CodeUnavailable, "no such sandbox", false},
		{"TaskExecStdinWrite", codes.InvalidArgument, haft.CodeUnavailable, "nobody knows", true},
		{"TaskExecStdioRead", codes.NotFound, haft.CodeUnavailable, "", false},
	} {
		fault := status.Error(c.code, serverText)
		if c.code == codes.ResourceExhausted {
			fault = busy.Err()
		}
		s.setFault(failing(c.method, 0, fault))
		_, err := runs(t, p, echoSpec("echo ran"))
		if haft.CodeOf(err) != c.want || !strings.Contains(haft.MessageOf(err), c.says) ||
			c.lost && !errors.Is(err, sandbox.ErrLost) || strings.Contains(fmt.Sprint(err), serverText) {
			t.Errorf("%s answered %s: %v, want code %s and %q", c.method, c.code, err, c.want, c.says)
		}
		if c.code == codes.ResourceExhausted && haft.RetryAfterOf(err) != haft.Millis(7*time.Second) {
			t.Errorf("%s: retry after %v", c.method, haft.RetryAfterOf(err))
		}
	}
	s.setFault(nil)
	if out, err := runs(t, p, echoSpec("echo ran")); err != nil || out != "ran\n" {
		t.Errorf("after all faults: %q, %v", out, err)
	}
	if list := s.running(); len(list) != 0 {
		t.Errorf("%d sandboxes were left", len(list))
	}
	if text := logged.String(); strings.Contains(text, serverText) || strings.Contains(text, modalTokenSecret) {
		t.Errorf("logged: %s", text)
	}
}

// An image that cannot be built is the operator's to mend, and is built again then.
func TestModalClient_reports_an_image_that_cannot_be_built(t *testing.T) {
	s := startModalServer(t)
	s.buildsFailed = true
	p := openModalClient(t, func(c *modal.Config) { c.Server, c.Image = "http://"+s.url, "acme/tools:7" })
	if _, err := runs(t, p, echoSpec("true")); !strings.Contains(haft.MessageOf(err), "HAFT_MODAL_IMAGE") ||
		strings.Contains(fmt.Sprint(err), serverText) {
		t.Errorf("Run = %v", err)
	}
	s.mu.Lock()
	s.buildsFailed = false
	s.mu.Unlock()
	if out, err := runs(t, p, echoSpec("echo ran")); err != nil || out != "ran\n" {
		t.Errorf("%q, %v", out, err)
	}
	if want := []string{"FROM acme/tools:7", "FROM acme/tools:7"}; !slices.Equal(s.images, want) {
		t.Errorf("built: %q, want %q", s.images, want)
	}
}

// While an image is built, which takes minutes, everything but new sandboxes goes on.
func TestModalClient_lists_while_an_image_is_built(t *testing.T) {
	s := startModalServer(t)
	p := openModalClient(t, func(c *modal.Config) { c.Server = "http://" + s.url })
	building, hold, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s.setFault(func(method string) error {
		if method == "ImageGetOrCreate" {
			close(building)
			<-hold
		}
		return nil
	})
	go func() {
		_, err := p.Run(t.Context(), echoSpec("true"))
		ended <- err
	}()
	<-building
	if list, err := p.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List = %v, %v", list, err)
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Errorf("after the build: %v", err)
	}
}

// One sandbox serves the runs of a tenant, one after the other, as long as it lives long enough; one that has ended is
// replaced, and the run does not notice. Tenants share none, and neither do runs without one.
func TestModalClient_keeps_and_replaces_machines(t *testing.T) {
	s := startModalServer(t)
	p := openModalClient(t, func(c *modal.Config) { c.Server = "http://" + s.url })
	run := func(tenant, script string, wall time.Duration) string {
		t.Helper()
		spec := echoSpec(script)
		spec.Tenant, spec.Limits.Wall = tenant, haft.Millis(wall)
		spec.Env = append(spec.Env, "TOKEN=hidden-in-the-environment")
		out, err := runs(t, p, spec)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for i, c := range []struct {
		tenant, script string
		wall           time.Duration
		before         func()
		machines       int
	}{
		{"acme", "echo left > /tmp/left", time.Minute, nil, 1},
		{"acme", "cat /tmp/left", time.Minute, nil, 1},
		{"other", "cat /tmp/left 2>/dev/null; true", time.Minute, nil, 2},
		{"", "cat /tmp/left 2>/dev/null; true", time.Minute, nil, 3},
		{"", "cat /tmp/left 2>/dev/null; true", time.Minute, nil, 4},
		{"acme", "true", 5 * time.Hour, nil, 5}, // none lives so long
		{"acme", "true", time.Minute, func() {
			for _, b := range s.running() {
				s.die(b.id)
			}
		}, 6},
	} {
		if c.before != nil {
			c.before()
		}
		out := run(c.tenant, c.script, c.wall)
		if want := map[int]string{1: "left\n"}[i]; out != want {
			t.Errorf("run %d of %q finds %q, want %q", i, c.tenant, out, want)
		}
		if n := s.count("SandboxCreateV2"); n != c.machines {
			t.Errorf("after run %d: %d sandboxes were made, want %d", i, n, c.machines)
		}
	}
	for _, b := range s.boxes {
		d := b.definition
		if text := fmt.Sprint(d, b.tags); strings.Contains(text, "hidden") || strings.Contains(text, "acme") ||
			strings.Contains(text, modalTokenSecret) {
			t.Errorf("Modal can read %s", text)
		}
		if d.GetNetworkAccess().GetNetworkAccessType() != pb.NetworkAccess_BLOCKED || d.GetIdleTimeoutSecs() != 180 ||
			d.GetTimeoutSecs() < 3600 || d.GetRuntime() != "gvisor" || b.tags["haft_state"] == "" {
			t.Errorf("a sandbox was made with %v and the tags %v", d, b.tags)
		}
	}
}

// A sandbox that dies in the middle of a call leaves it unknown what the command did. A stream that is cut goes on.
func TestModalClient_in_the_middle(t *testing.T) {
	s := startModalServer(t)
	p := openModalClient(t, func(c *modal.Config) { c.Server = "http://" + s.url })
	spec := echoSpec("echo ready; sleep 60")
	spec.Stdout = writes(func() {
		for _, b := range s.running() {
			go s.die(b.id)
		}
	})
	_, err := p.Run(t.Context(), spec)
	if !errors.Is(err, sandbox.ErrLost) || haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Run = %v, want that the sandbox was lost", err)
	}
	if list, err := p.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left over: %v, %v", list, err)
	}
	streams, cut := context.WithCancel(t.Context())
	s.setStreams(streams)
	spec = echoSpec("echo one; read go; echo two")
	in, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer say.Close()
	var out strings.Builder
	spec.Stdin, spec.Stdout = in, writesTo(func(b []byte) {
		if out.Write(b); out.String() == "one\n" {
			s.setStreams(t.Context())
			cut()
			_, _ = say.WriteString("go\n")
		}
	})
	if exit, err := p.Run(t.Context(), spec); err != nil || exit.Code != 0 || out.String() != "one\ntwo\n" {
		t.Errorf("with a stream that was cut: %q, %+v, %v", out.String(), exit, err)
	}
	if n := s.count("TaskExecStdioRead"); n != 3 {
		t.Errorf("%d streams were read, want three", n)
	}
}

// writesTo calls a function with what is written.
type writesTo func(p []byte)

// Write implements [io.Writer].
func (w writesTo) Write(p []byte) (int, error) { w(p); return len(p), nil }

// What a process left is cleaned and used by the next of the same owner, and by no other; the rest is ended.
func TestModalClient_takes_over_what_was_left(t *testing.T) {
	s := startModalServer(t)
	as := func(owner string) func(*modal.Config) {
		return func(c *modal.Config) { c.Server, c.Owner = "http://"+s.url, owner }
	}
	address, cut := forward(t, s.url)
	t.Setenv("MODAL_SERVER_URL", "http://"+address)
	first := openModalClient(t, func(c *modal.Config) { c.Server, c.Owner = "http://"+address, "one" })
	t.Setenv("MODAL_SERVER_URL", "http://"+s.url)
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}, 1), make(chan struct{})
	left := echoSpec("mkdir -p /tmp/haft/left; echo ready; sleep 600")
	left.Stdout = writes(func() { begun <- struct{}{} })
	go func() { // the run of a process that is gone, as far as the next can see
		defer close(ended)
		_, _ = first.Run(ctx, left)
	}()
	defer func() { cancel(); <-ended }()
	<-begun
	cut() // it can end no sandbox any more
	stranger := openModalClient(t, as("two"))
	if _, err := runs(t, stranger, echoSpec("true")); err != nil {
		t.Fatal(err)
	}
	second := openModalClient(t, as("one"))
	out, err := runs(t, second, echoSpec("ls /tmp/haft/left 2>/dev/null; echo ran"))
	if err != nil || out != "ran\n" {
		t.Errorf("the next run: %q, %v", out, err)
	}
	<-ended // its command was killed
	if n := s.count("SandboxCreateV2"); n < 2 || n > 3 {
		t.Errorf("%d sandboxes were made, want one for each owner, or another for what could not be cleaned", n)
	}
	list, err := second.List(t.Context())
	if err != nil || len(list) < 2 {
		t.Fatalf("List = %v, %v", list, err)
	}
	for _, info := range list {
		if info.Started.IsZero() || time.Until(info.Ends) < time.Minute {
			t.Errorf("listed: %+v", info)
		}
		if err := second.Remove(t.Context(), info.ID); err != nil {
			t.Error(err)
		}
	}
	if err := second.Remove(t.Context(), list[0].ID); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Remove again = %v", err)
	}
}

// forward passes connections on to a server until cut is called: who uses its address does not reach the server then.
func forward(t *testing.T, to string) (address string, cut func()) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close() // nobody is there
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				all.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until one of them ends
					_ = pair[0].Close()
				})
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
		}
	})
	cut = sync.OnceFunc(func() {
		cancel()
		_ = ln.Close() // Accept returns
		all.Wait()
	})
	t.Cleanup(cut)
	return ln.Addr().String(), cut
}

// Packages are sent to a machine once, and the number of machines is bounded, for each tenant too.
func TestModalClient_sends_packages_once_and_bounds_machines(t *testing.T) {
	s := startModalServer(t)
	p := openModalClient(t, func(c *modal.Config) { c.Server, c.Max, c.MaxOfTenant = "http://"+s.url, 2, 1 })
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "module.py"), []byte("x = 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := echoSpec("cat /tmp/packages/abc/python/module.py")
	spec.Mounts = []sandbox.Mount{{Host: dir, Inside: "/tmp/packages/abc/python"}, {Host: "/usr", Inside: "/usr"}}
	for range 3 {
		if out, err := runs(t, p, spec); err != nil || out != "x = 7\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
	if n := s.count("TaskExecWait"); n != 1 {
		t.Errorf("packages were sent %d times, want once", n)
	}
	held := echoSpec("echo ready; read end")
	in, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	held.Stdin, held.Stdout = in, writes(func() { begun <- struct{}{} })
	go func() {
		_, err := p.Run(t.Context(), held)
		ended <- err
	}()
	<-begun
	if _, err := runs(t, p, echoSpec("true")); haft.CodeOf(err) != haft.CodeRateLimited {
		t.Errorf("a second machine of a tenant that may have one: %v", err)
	}
	if err := say.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What is not configured, or would send the token in the clear, is refused at once, with what is missing.
func TestModalClient_configuration(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  modal.Config
		code haft.Code
		says string
	}{
		"nothing":      {modal.Config{}, haft.CodeUnavailable, "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"},
		"half a token": {modal.Config{TokenID: "a"}, haft.CodeUnavailable, "MODAL_TOKEN_SECRET"},
		"no token":     {modal.Config{TokenID: "a", TokenSecret: "b\nc"}, haft.CodeInvalid, "MODAL_TOKEN_SECRET"},
		"clear": {modal.Config{TokenID: "a", TokenSecret: "b", Server: "http://example.com"}, haft.CodeInvalid,
			"clear"},
		"clear machines": {modal.Config{TokenID: "a", TokenSecret: "b", Server: "https://172.21.0.1"}, haft.CodeInvalid,
			"clear"},
		"another server": {modal.Config{TokenID: "a", TokenSecret: "b", Server: "https://example.com"},
			haft.CodeInvalid, "MODAL_SERVER_URL"},
		"an image of two lines": {modal.Config{TokenID: "a", TokenSecret: "b", Image: "a\nRUN b"}, haft.CodeInvalid,
			"HAFT_MODAL_IMAGE"},
		"a level": {modal.Config{TokenID: "a", TokenSecret: "b", Level: "best"}, haft.CodeInvalid, "ISOLATION"},
		"a level of Modal itself": {modal.Config{TokenID: "a", TokenSecret: "b", Level: haft.LevelMachine},
			haft.CodeInvalid, "own"},
		"the same by another name": {modal.Config{TokenID: "a", TokenSecret: "b", Level: haft.LevelMachine,
			Server: "https://API.modal.com"}, haft.CodeInvalid, "own"},
		"https to a name of this machine": {modal.Config{TokenID: "a", TokenSecret: "b",
			Server: "https://localhost:1"}, haft.CodeInvalid, "without TLS"},
		"https to this machine": {modal.Config{TokenID: "a", TokenSecret: "b", Server: "https://[::1]:1"},
			haft.CodeInvalid, "without TLS"},
	} {
		if _, err := modal.New(t.Context(), c.cfg); haft.CodeOf(err) != c.code ||
			!strings.Contains(haft.MessageOf(err), c.says) {
			t.Errorf("%s: %v, want code %s and %q", name, err, c.code, c.says)
		}
	}
	t.Setenv("MODAL_SANDBOX_V2", "False")
	if _, err := modal.New(t.Context(), modal.Config{TokenID: "a", TokenSecret: "b"}); !strings.Contains(
		haft.MessageOf(err), "MODAL_SANDBOX_V2") {
		t.Errorf("sandboxes of the first version: %v", err)
	}
	t.Setenv("MODAL_TOKEN_ID", "")
	if _, err := app.Open(t.Context(), app.Config{Sandbox: "modal", AllowReduced: true}); !strings.Contains(
		haft.MessageOf(err), "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET") {
		t.Errorf("a sandbox that is named and not configured: %v", err)
	}
}

// A tool runs at Modal through the same choice as everywhere.
func TestModalClient_runs_tools(t *testing.T) {
	s := startModalServer(t)
	t.Setenv("MODAL_TOKEN_ID", modalTokenID)
	t.Setenv("MODAL_TOKEN_SECRET", modalTokenSecret)
	a := open(t, app.Config{Sandbox: "modal"})
	if got, err := call(t.Context(), a, prepare(t, a, "add"), "acme", `{"a": 2, "b": 40}`); err != nil || got != "42" {
		t.Errorf("%s, %v", got, err)
	}
	if n := s.count("SandboxCreateV2"); n != 1 {
		t.Errorf("%d sandboxes were made, want one", n)
	}
	for _, k := range a.Sandboxes.Kinds(t.Context()) {
		if k.Type == haft.SandboxModal && (k.Missing != "" || !k.Remote || k.Isolation.Level != haft.LevelNone) {
			t.Errorf("modal is shown as %+v", k)
		}
	}
}
