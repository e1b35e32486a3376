package egress_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/egress"
	"haft/internal/skiptest"
)

// program finds a program, or skips the test, which HAFT_REQUIRE forbids.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skiptest.Lacking(t, strings.TrimSuffix(name, "3"), err.Error()) // python3 is required as python
	}
	return path
}

const urllibScript = `
import sys, urllib.request, urllib.error
req = urllib.request.Request(sys.argv[1], headers={"X-Key": sys.argv[2]})
try:
    print(urllib.request.urlopen(req, timeout=20).read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.reason, e.read().decode()); sys.exit(1)
except Exception as e:
    print(e); sys.exit(1)
`

const requestsScript = `
import sys
try:
    import requests
except ImportError:
    print("MISSING requests"); sys.exit(0)
try:
    r = requests.get(sys.argv[1], headers={"X-Key": sys.argv[2]}, timeout=20)
    print(r.text); sys.exit(0 if r.ok else 1)
except Exception as e:
    print(e); sys.exit(1)
`

// Programs as they are: they find the proxy and the authority in the environment,
// get through to an allowed host with a placeholder, and are told clearly why not
// to another.
func TestPrograms(t *testing.T) {
	s := bind(t, egress.Place{Header: "X-Key"}, "http://api.example:*", "https://api.example:*")
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"api.example:HTTP_", "https://api.example:HTTPS"},
		http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Key") == real {
				_, _ = rw.Write([]byte("welcome, you sent " + r.Header.Get("X-Key")))
			}
		}))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, b.CAPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := "http://" + w.addr
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "http_proxy=" + proxy, "https_proxy=" + proxy,
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy,
		"SSL_CERT_FILE=" + ca, "REQUESTS_CA_BUNDLE=" + ca, "CURL_CA_BUNDLE=" + ca,
		"PYENV_ROOT=" + os.Getenv("PYENV_ROOT"),
	}
	programs := []struct {
		name, program string
		args          []string
	}{
		{"curl", "curl", []string{"-sS", "--fail-with-body", "-m", "20", "-H", "X-Key: KEY", "URL"}},
		{"curl socks", "curl", []string{"-sS", "--fail-with-body", "-m", "20", "--proxy", "socks5h://" + w.addr, "-H",
			"X-Key: KEY", "URL"}},
		{"urllib", "python3", []string{"-c", urllibScript, "URL", "KEY"}},
		{"requests", "python3", []string{"-c", requestsScript, "URL", "KEY"}},
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			path := program(t, p.program)
			run := func(u string) (string, error) {
				cmd := exec.CommandContext(t.Context(), path, p.args...)
				for i, a := range cmd.Args {
					cmd.Args[i] = strings.NewReplacer("URL", u, "KEY", s.Placeholder).Replace(a)
				}
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			for _, u := range []string{"http://api.example:" + w.http + "/x", "https://api.example:" + w.https + "/x"} {
				out, err := run(u)
				if strings.Contains(out, "MISSING") {
					t.Skip(out)
				}
				if err != nil || !strings.Contains(out, "welcome, you sent "+s.Placeholder) ||
					strings.Contains(out, real) {
					t.Errorf("%s: %v\n%s", u, err, out)
				}
			}
			for _, u := range []string{"http://other.example:" + w.http + "/x",
				"https://other.example:" + w.https + "/x"} {
				out, err := run(u)
				if err == nil || strings.Contains(out, "welcome") {
					t.Errorf("%s: went through\n%s", u, out)
				}
				explained := strings.Contains(out, "network: [") || strings.Contains(out, "403") ||
					strings.Contains(p.name, "socks")
				if !explained {
					t.Errorf("%s: the program was not told why:\n%s", u, out)
				}
			}
		})
	}
}

func TestPrograms_git(t *testing.T) {
	git := program(t, "git")
	dir := t.TempDir()
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), git, args...)
		cmd.Dir = dir
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_TERMINAL_PROMPT=0",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.example", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@a.example"}, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"init", "-q", "src"},
		{"-C", "src", "commit", "-q", "--allow-empty", "-m", "first"}, {"clone", "-q", "--bare", "src", "repo.git"},
		{"-C", "repo.git", "update-server-info"}} {
		if out, err := run(nil, args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_", "https://api.example:HTTPS"},
		http.FileServer(http.Dir(dir)))
	env := []string{"http_proxy=http://" + w.addr, "https_proxy=http://" + w.addr, "GIT_SSL_NO_VERIFY=1"}
	for name, u := range map[string]string{"plain": "http://api.example:" + w.http,
		"tls": "https://api.example:" + w.https} {
		if out, err := run(env, "clone", "-q", u+"/repo.git", name); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err := run(env, "clone", "-q", "https://other.example:"+w.https+"/repo.git", "other"); err == nil ||
		!strings.Contains(out, "403") {
		t.Errorf("another host: %v\n%s", err, out)
	}
}
