package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/egress"
	"haft/internal/skiptest"
	"haft/sandbox"
	"haft/sandbox/local"
)

// The programs of tools, as their authors write them. Each gets the text behind
// url, with the placeholder in a header, or fails.
var egressTools = []struct {
	name   string
	kind   haft.Kind
	needs  string // a program, or Python packages
	source string
}{
	{"urllib", haft.KindPython, "", `
import urllib.request
def f(url, key):
    return urllib.request.urlopen(urllib.request.Request(url, headers={"X-Key": key}), timeout=20).read().decode()`},
	{"requests", haft.KindPython, "requests urllib3 charset_normalizer certifi idna", `
import sys; sys.path.insert(0, "packages.zip")
import requests
def f(url, key):
    r = requests.get(url, headers={"X-Key": key}, timeout=20)
    if not r.ok: raise OSError(r.text)
    return r.text`},
	{"httpx", haft.KindPython, "httpx httpcore h11 anyio certifi idna typing_extensions", `
import sys; sys.path.insert(0, "packages.zip")
import httpx
def f(url, key):
    r = httpx.get(url, headers={"X-Key": key}, timeout=20)
    if r.is_error: raise OSError(r.text)
    return r.text`},
	{"http.client in a child", haft.KindPython, "", `
import subprocess, sys
code = "import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], headers={'X-Key': sys.argv[2]}), timeout=20).read().decode(), end='')"
def f(url, key):
    p = subprocess.run([sys.executable, "-c", code, url, key], capture_output=True, text=True)
    if p.returncode: raise OSError(p.stderr)
    return p.stdout`},
	{"curl", haft.KindBash, "curl", `exec curl -sS --fail-with-body -m 20 -H "X-Key: $ARG_KEY" "$ARG_URL"`},
	{"curl by socks", haft.KindBash, "curl",
		`exec curl -sS --fail-with-body -m 20 --proxy "$SOCKS_PROXY" -H "X-Key: $ARG_KEY" "$ARG_URL"`},
	{"fetch", haft.KindJavaScript, "", `
exports.f = async ({ url, key }) => {
  const r = await fetch(url, { headers: { "X-Key": key } });
  if (!r.ok) throw new Error(await r.text());
  return await r.text();
};`},
	{"http and https", haft.KindJavaScript, "", `
const get = (url, options) => new Promise((yes, no) => {
  require(url.startsWith("https:") ? "https" : "http").get(url, options, (r) => {
    let s = "";
    r.on("data", (b) => (s += b));
    r.on("end", () => (r.statusCode === 200 ? yes(s) : no(new Error(s))));
  }).on("error", no);
});
exports.f = ({ url, key }) => get(url, { headers: { "X-Key": key } });`},
	{"an agent of its own", haft.KindTypeScript, "", `
import http from "node:http"; import https from "node:https";
export async function f({ url, key }: { url: string, key: string }) {
  const m: any = url.startsWith("https:") ? https : http;
  const agent = new m.Agent({ keepAlive: true });
  const get = () => new Promise<string>((yes, no) => {
    m.get(url, { agent, headers: { "X-Key": key } }, (r: any) => { let s = ""; r.on("data", (b: any) => (s += b)); r.on("end", () => yes(s)); }).on("error", no);
  });
  const first = await get();
  if (await get() !== first) throw new Error("two answers");
  return first;
}`},
}

// Real programs reach an allowed host, with a secret that they do not have, and
// are told which rule to ask for at another.
func TestEgress_programs(t *testing.T) {
	w := openWay(t, t.TempDir())
	executors := map[haft.Kind]*script.Executor{}
	for _, k := range []haft.Kind{haft.KindPython, haft.KindJavaScript, haft.KindBash} {
		executors[k] = setupLocal(t, k, script.Config{})
	}
	executors[haft.KindTypeScript] = executors[haft.KindJavaScript]
	for _, tt := range egressTools {
		t.Run(tt.name, func(t *testing.T) {
			var files []sandbox.File
			if tt.kind == haft.KindPython && tt.needs != "" {
				files = packages(t, strings.Fields(tt.needs)...)
			} else if tt.needs != "" {
				if _, err := exec.LookPath(tt.needs); err != nil {
					skiptest.Lacking(t, tt.needs, err.Error())
				}
			}
			x := executors[tt.kind]
			call := func(url string) *haft.Result {
				args, _ := json.Marshal(map[string]string{"url": url, "key": w.secret.Placeholder})
				return execute(t, x,
					w.request(executor.Request{Kind: tt.kind, Source: tt.source, Args: args, Files: files}))
			}
			for _, base := range []string{w.http, w.https} {
				w.records()
				host := strings.SplitN(base, "//", 2)[1]
				res := call(base + "/hello")
				if want := fmt.Sprintf("%q", "hello "+host+" key=true"); string(res.Value) != want {
					t.Errorf("%s: %s %s %+v\n%s", base, res.Status, res.Value, res.Error, res.Stderr)
				}
				log := w.records()
				if len(log) == 0 {
					t.Errorf("%s: nothing is recorded when the call has ended", base)
				}
				for _, c := range log {
					if c.Outcome != egress.OutcomeOK || c.Host != "api.example" {
						t.Errorf("%s: recorded %+v", base, c)
					}
				}
				res = call(strings.Replace(base, "api.", "other.", 1) + "/hello")
				if res.Status != haft.StatusError {
					t.Fatalf("another host: %s %s", res.Status, res.Value)
				}
				said := res.Error.Message + res.Stdout + res.Stderr
				if !strings.Contains(said, "other.example") && !strings.Contains(said, "403") &&
					!strings.Contains(tt.name, "socks") {
					t.Errorf("another host: nobody is told why: %+v\n%s\n%s", res.Error, res.Stdout, res.Stderr)
				}
				if log := w.records(); len(log) == 0 || log[0].Outcome != egress.OutcomeRefused {
					t.Errorf("another host: recorded %+v", log)
				}
			}
		})
	}
}

// A repository is cloned over HTTP and over HTTPS that the proxy opens.
func TestEgress_git_clone(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		skiptest.Lacking(t, "git", err.Error())
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "src"}, {"-C", "src", "commit", "-q", "--allow-empty", "-m", "the first"},
		{"clone", "-q", "--bare", "src", "repo.git"}, {"-C", "repo.git", "update-server-info"},
	} {
		cmd := exec.CommandContext(t.Context(), git, args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_AUTHOR_NAME=a",
			"GIT_AUTHOR_EMAIL=a@a.example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.example"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	w := openWay(t, dir)
	x := setupLocal(t, haft.KindBash, script.Config{})
	clone := func(url string) *haft.Result {
		args, _ := json.Marshal(map[string]string{"url": url})
		return execute(t, x, w.request(executor.Request{
			Kind: haft.KindBash, Args: args, Source: `git clone -q "$ARG_URL" repo && git -C repo log -1 --format=%s`,
		}))
	}
	for _, base := range []string{w.http, w.https} {
		if res := clone(base + "/files/repo.git"); string(res.Value) != `"the first"` {
			t.Errorf("%s: %s %s %+v\n%s", base, res.Status, res.Value, res.Error, res.Stderr)
		}
		res := clone(strings.Replace(base, "api.", "other.", 1) + "/files/repo.git")
		if res.Status != haft.StatusError || !strings.Contains(res.Stderr, "403") {
			t.Errorf("another host: %s %s\n%s", res.Status, res.Value, res.Stderr)
		}
	}
}

// What a tool tries without the proxy fails, and at once: there is no name server
// to wait for, and no route.
func TestEgress_is_the_only_way(t *testing.T) {
	w := openWay(t, t.TempDir())
	for _, tt := range []struct {
		name   string
		kind   haft.Kind
		source string
	}{
		{"names", haft.KindPython, "import socket\ndef f(port):\n    socket.getaddrinfo('api.example', 80)"},
		{"names of the system's own programs", haft.KindBash, "getent hosts api.example"},
		{"the host", haft.KindPython, "import socket\ndef f(port):\n    socket.create_connection(('127.0.0.1', port))"},
		{"the internet", haft.KindPython,
			"import socket\ndef f(port):\n    socket.create_connection(('1.1.1.1', 443))"},
		{"udp", haft.KindPython, "import socket\ndef f(port):\n    socket.socket(socket.AF_INET, " +
			"socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))"},
		{"urllib without the proxy", haft.KindPython,
			"import urllib.request as u\ndef f(port):\n    " +
				"u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:%d/hello' % port)"},
		{"curl without the proxy", haft.KindBash,
			`exec curl -sS -m 20 --noproxy '*' "http://127.0.0.1:$ARG_PORT/hello"`},
		{"names in node", haft.KindJavaScript, "exports.f = () => new Promise((yes, no) => " +
			"require('dns').lookup('api.example', (e, a) => e ? no(e) : yes(a)))"},
		{"net in node", haft.KindJavaScript, "exports.f = (port) => new Promise((yes, no) => " +
			"require('net').connect(port, '127.0.0.1').on('error', no).on('connect', yes))"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := setupLocal(t, tt.kind, script.Config{Cold: true})
			port := w.http[strings.LastIndexByte(w.http, ':')+1:]
			req := w.request(executor.Request{Kind: tt.kind, Source: tt.source,
				Args: json.RawMessage(`{"port":` + port + `}`), Pass: []executor.Argument{{Name: "port"}}})
			res := execute(t, x, req)
			if res.Status != haft.StatusError || res.Timeline.Execute.D() > 15*time.Second {
				t.Errorf("%s %s after %v: %+v", res.Status, res.Value, res.Timeline.Execute.D(), res.Error)
			}
			if log := w.records(); len(log) != 0 {
				t.Errorf("it went through: %+v", log)
			}
		})
	}
}

// What was expected, or is started for one call, has its egress, too, and a request
// need not bring certificates.
func TestEgress_of_a_cold_process(t *testing.T) {
	w := openWay(t, t.TempDir())
	for kind, source := range map[haft.Kind]string{
		haft.KindPython: "import urllib.request\ndef f(url): return urllib.request.urlopen(url, " +
			"timeout=20).read().decode()",
		haft.KindJavaScript: "exports.f = async ({ url }) => (await fetch(url)).text();",
	} {
		for _, expected := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " expected ", expected), func(t *testing.T) {
				x := setupLocal(t, kind, script.Config{Cold: true})
				args, _ := json.Marshal(map[string]string{"url": w.http + "/hello"})
				req := w.request(executor.Request{Org: "acme", Tool: "tool", Kind: kind, Source: source, Args: args})
				req.CA = nil
				if expected {
					early := req
					early.ServeEgress = nil // what confines the call is enough
					x.Expect(t.Context(), early)
				}
				res := execute(t, x, req)
				if want := fmt.Sprintf("%q", "hello "+strings.TrimPrefix(w.http, "http://")+" key=false"); string(
					res.Value) != want {
					t.Errorf("%s %s %+v\n%s", res.Status, res.Value, res.Error, res.Stderr)
				}
			})
		}
	}
}

// A host that is not allowed is named, with the rule to ask for, in the error that
// the model reads.
func TestEgress_refusal_is_reported(t *testing.T) {
	w := openWay(t, t.TempDir())
	other := strings.Replace(w.https, "api.", "other.", 1)
	for kind, source := range map[haft.Kind]string{
		haft.KindPython:     "import urllib.request\ndef f(): urllib.request.urlopen('" + other + "', timeout=20)",
		haft.KindJavaScript: "exports.f = () => fetch('" + other + "');",
		haft.KindTypeScript: "import https from 'node:https';\nexport const f = () => new Promise((yes, no) => " +
			"https.get('" + other + "', yes).on('error', no));",
	} {
		t.Run(string(kind), func(t *testing.T) {
			x := setupLocal(t, map[bool]haft.Kind{true: haft.KindPython,
				false: haft.KindJavaScript}[kind == haft.KindPython], script.Config{})
			res := execute(t, x, w.request(executor.Request{Kind: kind, Source: source}))
			if res.Status != haft.StatusError || !strings.Contains(res.Error.Message, "network: [") ||
				!strings.Contains(res.Error.Message, "other.example") {
				t.Errorf("%s %s %+v", res.Status, res.Value, res.Error)
			}
		})
	}
}

// Warm cells serve calls with egress, each with its own.
func TestEgress_of_a_warm_cell_is_the_calls_own(t *testing.T) {
	needControl(t, haft.ControlNetNS)
	for kind, source := range map[haft.Kind]string{
		haft.KindPython: "import socket\ndef f(n):\n    s = socket.create_connection(('127.0.0.1', 7718)); " +
			"s.sendall(b'%d' % n); return s.recv(99).decode()",
		haft.KindJavaScript: "exports.f = ({n}) => new Promise((yes, no) => { const s = " +
			"require('net').connect(7718, '127.0.0.1'); s.on('error', no).on('data', (b) => yes(String(b))); " +
			"s.write(String(n)); })",
	} {
		t.Run(string(kind), func(t *testing.T) {
			x := setupLocal(t, kind, script.Config{})
			hits := atomic.Int64{}
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() {
					for range 5 {
						call(t, x, kind, source, n, &hits)
					}
				})
			}
			all.Wait()
			for deadline := time.Now().Add(time.Minute); x.IdleCells("acme") == 0 && time.Now().Before(deadline); {
				<-time.After(10 * time.Millisecond) // there is no event for "it is idle"
			}
			if call(t, x, kind, source, 9, &hits); hits.Load() == 0 {
				t.Error("no call found a warm cell")
			}
		})
	}
}

// call makes one call with egress of its own, which adds its number to what
// comes.
func call(t *testing.T, x *script.Executor, kind haft.Kind, source string, n int, hits *atomic.Int64) {
	open := atomic.Int64{}
	res, err := x.Execute(t.Context(), executor.Request{
		Org: "acme", Tool: "tool", Kind: kind, Source: source, Function: "f",
		Args:    json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
		Network: sandbox.NetworkEgress,
		ServeEgress: func(_ context.Context, conn net.Conn) {
			open.Add(1)
			defer open.Add(-1)
			b := make([]byte, 16)
			k, _ := conn.Read(b)
			fmt.Fprintf(conn, "%s by %d", b[:k], n)
			_, _ = io.Copy(io.Discard, conn)
		},
	})
	if err != nil || string(res.Value) != fmt.Sprintf(`"%d by %d"`, n, n) {
		t.Errorf("call %d = %+v, %v", n, res, err)
		return
	}
	if k := open.Load(); k != 0 {
		t.Errorf("%d connections are served after the call", k)
	}
	if res.Timeline.Cell == "hit" {
		hits.Add(1)
	}
}

// With one process for all calls, a connection still ends with its call, and the
// next call has another egress and other certificates.
func TestEgress_of_a_reused_process(t *testing.T) {
	needControl(t, haft.ControlNetNS)
	x := setupLocal(t, haft.KindPython, script.Config{Reuse: []string{"acme/tool"}})
	source := "import socket\nheld = []\ndef f(n):\n    s = socket.create_connection(('127.0.0.1', 7718)); " +
		"held.append(s); s.sendall(b'%d' % n); return s.recv(99).decode()"
	hits := atomic.Int64{}
	for n := range 3 {
		call(t, x, haft.KindPython, source, n, &hits)
	}
	if hits.Load() != 2 {
		t.Errorf("%d calls found the process of the first", hits.Load())
	}
}

// The real value of a secret is nowhere in the memory of a program that used it.
func TestEgress_secret_is_not_in_memory(t *testing.T) {
	w := openWay(t, t.TempDir())
	x := setupLocal(t, haft.KindPython, script.Config{})
	args, _ := json.Marshal(map[string]string{"url": w.https + "/hello", "key": w.secret.Placeholder,
		"back": reverse(realKey), "own": reverse(w.secret.Placeholder)})
	res := execute(t, x, w.request(executor.Request{Kind: haft.KindPython, Args: args, Source: `
import re, urllib.request
def f(url, key, back, own):
    said = urllib.request.urlopen(urllib.request.Request(url, headers={"X-Key": key}), timeout=20).read().decode()
    def found(text):
        pattern, n = re.compile(re.escape(text[::-1].encode()).replace(b"t", b"[t]")), 0
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
            for line in maps:
                span, mode = line.split()[:2]
                if "r" not in mode or "[v" in line: continue
                low, high = (int(x, 16) for x in span.split("-"))
                try:
                    mem.seek(low); n += len(pattern.findall(mem.read(high - low)))
                except OSError: pass
        return n
    return [said.endswith("key=true"), found(own) > 1, found(back)]`}))
	// One of each is the text that is looked for.
	if got := string(res.Value); got != "[true,true,1]" && got != "[true,true,0]" {
		t.Errorf("%s %s %+v", res.Status, res.Value, res.Error)
	}
}

// reverse returns s backwards.
func reverse(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

func TestEgress_environment(t *testing.T) {
	w := openWay(t, t.TempDir())
	x := setupLocal(t, haft.KindBash, script.Config{})
	req := w.request(executor.Request{Kind: haft.KindBash, Source: "env", Env: map[string]string{"MINE": "kept"}})
	out := execute(t, x, req).Stdout
	for _, want := range []string{
		"http_proxy=http://127.0.0.1:7718", "HTTPS_PROXY=http://127.0.0.1:7718", "ALL_PROXY=http://127.0.0.1:7718",
		"NO_PROXY=", "no_proxy=",
		"SSL_CERT_FILE=/work/.haft/ca.pem", "CURL_CA_BUNDLE=/work/.haft/ca.pem", "GIT_SSL_CAINFO=/work/.haft/ca.pem",
		"REQUESTS_CA_BUNDLE=/work/.haft/ca.pem", "PIP_CERT=/work/.haft/ca.pem",
		"NODE_EXTRA_CA_CERTS=/work/.haft/ca.pem", "MINE=kept",
	} {
		if !strings.Contains("\n"+out, "\n"+want+"\n") {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
	req.Network, req.ServeEgress, req.CA = sandbox.NetworkNone, nil, nil
	if out := execute(t, x, req).Stdout; strings.Contains(out, "7718") || strings.Contains(out, "ca.pem") {
		t.Errorf("without egress:\n%s", out)
	}
	for _, name := range []string{"HTTPS_PROXY", "no_proxy", "CURL_CA_BUNDLE"} {
		req.Env = map[string]string{name: "elsewhere"}
		if _, err := x.Execute(t.Context(), req); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s is not refused: %v", name, err)
		}
	}
}

func TestEgress_refuses(t *testing.T) {
	egress := func(context.Context, net.Conn) {}
	ca := openWay(t, t.TempDir()).ca
	full := setupLocal(t, haft.KindBash, script.Config{})
	reduced := func() *script.Executor {
		p, err := local.Open(context.WithoutCancel(t.Context()),
			local.Config{Dir: t.TempDir(), AllowReduced: true, Forbid: []haft.Control{haft.ControlNetNS}})
		if err != nil {
			t.Fatal(err)
		}
		x := script.New(context.WithoutCancel(t.Context()), p, "local", newFinder(t), script.Config{})
		t.Cleanup(func() {
			x.Close()
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return x
	}()
	for _, tt := range []struct {
		name    string
		x       *script.Executor
		network sandbox.Network
		egress  func(context.Context, net.Conn)
		ca      []byte
		code    haft.Code
	}{
		{"egress that nobody serves", full, sandbox.NetworkEgress, nil, nil, haft.CodeInvalid},
		{"egress without its network", full, sandbox.NetworkNone, egress, nil, haft.CodeInvalid},
		{"egress beside the full network", full, sandbox.NetworkFull, egress, nil, haft.CodeInvalid},
		{"certificates without egress", full, sandbox.NetworkFull, nil, ca, haft.CodeInvalid},
		{"certificates that are none", full, sandbox.NetworkEgress, egress, []byte("-----BEGIN NOTHING-----"),
			haft.CodeInvalid},
		{"certificates with a key", full, sandbox.NetworkEgress, egress,
			append(bytes.Clone(ca), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"...),
			haft.CodeInvalid},
		{"too many certificates", full, sandbox.NetworkEgress, egress, bytes.Repeat(ca, 1000), haft.CodeInvalid},
		{"a sandbox without a network of its own", reduced, sandbox.NetworkEgress, egress, nil, haft.CodeDenied},
		{"no sandbox", setup(t, haft.KindBash, script.Config{}), sandbox.NetworkEgress, egress, nil, haft.CodeDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := tt.x.Execute(t.Context(), executor.Request{Org: "acme", Tool: "t", Kind: haft.KindBash,
				Source: "echo ran", Network: tt.network, ServeEgress: tt.egress, CA: tt.ca})
			if haft.CodeOf(err) != tt.code {
				t.Errorf("Execute = %+v, %v, want code %q", res, err, tt.code)
			}
		})
	}
}

// userVar is set in a test binary that was started again as somebody else.
const userVar = "HAFT_TEST_USER"

// Everything above holds for an ordinary user.
func TestEgress_as_an_ordinary_user(t *testing.T) {
	if os.Getenv(userVar) != "" || os.Getuid() != 0 {
		t.Skip("the tests run as an ordinary user already")
	}
	dir, err := os.MkdirTemp("", "haft-script-test-") // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	program := filepath.Join(dir, "script.test")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	const ordinary = 12345
	if err == nil {
		err = os.Chown(dir, ordinary, ordinary)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^TestEgress_")
	cmd.Dir = dir
	cmd.Env = []string{userVar + "=1", "HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin",
		"HAFT_REQUIRE=" + os.Getenv("HAFT_REQUIRE"), siteVar + "=" + handOver(t, dir)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestEgress_programs/")) {
		t.Errorf("as user %d: %v\n%s", ordinary, err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
}
