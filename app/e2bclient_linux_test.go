package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/sandbox"
	"haft/sandbox/e2b"
	"haft/sandbox/sandboxtest"
)

// e2bServerVar names the data directory of a process of this test that is a server.
const e2bServerVar = "HAFT_TEST_E2B_SERVER"

// serveE2B is that process: it prints its address, and ends with its input.
func serveE2B(dir string) int {
	ctx := context.Background()
	s, err := app.OpenServer(ctx, app.ServerConfig{ServiceConfig: app.ServiceConfig{Data: dir,
		Config: app.Config{AllowReduced: true}}})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	go func() { _ = s.HTTP.Serve(ln) }()
	fmt.Println("http://" + ln.Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
	ended, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := errors.Join(s.HTTP.Shutdown(ended), s.Close()); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// startE2BServer starts a server in a process of its own: what a client has in memory and holds open can be seen then.
func startE2BServer(t *testing.T) (url, key string) {
	t.Helper()
	open(t, app.Config{}) // it skips where there is no sandbox
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stderr = append(os.Environ(), e2bServerVar+"="+dir), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	t.Cleanup(func() {
		_ = in.Close()
		rest, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v\n%s", err, rest)
		}
	})
	line, err := lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("the server: %v %s", err, line)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), strings.TrimSpace(string(raw))
}

// openE2BClient returns Haft as a client of an E2B-compatible API.
func openE2BClient(t *testing.T, url, key string, change func(*e2b.Config)) *e2b.Provider {
	t.Helper()
	cfg := e2b.Config{Key: key, APIURL: url + "/e2b", SandboxURL: url + "/e2b/sandbox", Level: haft.LevelMachine,
		Max: 64, MaxOfTenant: 64}
	if change != nil {
		change(&cfg)
	}
	p, err := e2b.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// ofTenant makes all runs those of one tenant, so that they use machines one after the other.
type ofTenant struct{ sandbox.Provider }

// Run implements [sandbox.Provider].
func (p ofTenant) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	spec.Tenant = "acme"
	return p.Provider.Run(ctx, spec)
}

// The provider keeps what it promises, against the server whose fidelity E2B's own clients show.
func TestE2BClient_conforms(t *testing.T) {
	// Descriptors are counted at the end: connections that nobody uses are closed soon.
	transport := http.DefaultTransport.(*http.Transport)
	old := transport.IdleConnTimeout
	transport.IdleConnTimeout = 500 * time.Millisecond
	t.Cleanup(func() { transport.IdleConnTimeout = old })
	sandboxtest.RunSome(t, func(t *testing.T) sandbox.Provider {
		url, key := startE2BServer(t)
		return ofTenant{openE2BClient(t, url, key, nil)}
	}, func(c sandboxtest.Case) bool {
		return c.Name != "full_network_is_the_hosts" // no sandbox of this server has it
	})
}
