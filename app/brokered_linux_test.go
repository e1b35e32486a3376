package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/secret"
	"haft/sandbox/sandboxtest"
)

// hoarder uses every secret it is given, keeps all that it gets, and then looks for
// forms of the real values in its own memory and in all that it can read. They come
// backwards, and are put together one character in brackets at a time, so that the
// search itself has none of them in memory.
const hoarder = `
import glob, json, os, re, urllib.request

def hoard(url: str, names: list[str], backwards: list[str]) -> dict[str, object]:
    """Use secrets and look for them.

    Args:
        url: where to send them
        names: their variables
        backwards: what to look for
    """
    got = []
    for n in names:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"X-" + n.replace("_", "-"): os.environ[n]}), timeout=30) as r:
            got += [r.read(), str(r.headers)]
    kept = json.dumps([str(g) for g in got]) + repr(os.environ) + open("/proc/self/environ").read() + open("/proc/self/cmdline").read()
    def pattern(texts):
        return re.compile(b"|".join(b"".join(b"[" + re.escape(bytes([c])) + b"]" for c in reversed(t.encode())) for t in texts))
    def found(p):
        n, size = 0, 0
        for task in glob.glob("/proc/[0-9]*"):
            try:
                with open(task + "/maps") as maps, open(task + "/mem", "rb", 0) as mem:
                    for line in maps:
                        span, mode = line.split()[:2]
                        if "r" not in mode or "[v" in line: continue
                        low, high = (int(x, 16) for x in span.split("-"))
                        try:
                            mem.seek(low)
                            while low < high:
                                chunk = mem.read(min(high - low, 1 << 22))
                                if not chunk: break
                                n, size, low = n + len(p.findall(chunk)), size + len(chunk), low + len(chunk)
                        except OSError: pass
            except OSError: pass
        return n, size
    own = pattern([os.environ[n][::-1] for n in names])
    n, size = found(pattern(backwards))
    print(kept)
    return {"found": n, "searched": size, "own": found(own)[0] > 0, "kept": len(kept)}
`

// A run that used 20 bound secrets has none of them in the memory of the program,
// in its environment, in the files of the store, the log or the audit, in any
// encoding.
func TestService_keeps_bound_secrets_out_of_memory(t *testing.T) {
	m := openMarket(t, nil, app.ServiceConfig{Busy: true})
	org, hook, agent, call, _ := twenty()
	all, names, forms := map[string]string{}, []string{}, []string{}
	i := 0
	for _, scope := range []map[string]string{org, hook, agent, call} {
		for name := range scope {
			all[name] = fmt.Sprintf("bound/%d+Zx8Qv1=Lm4Rt7&%d", i, i*7919)
			i++
		}
	}
	for name, value := range all {
		names = append(names, name)
		m.bind("", name, value, secret.Binding{Header: "X-" + strings.ReplaceAll(name, "_", "-")})
		for _, text := range encodings(value) {
			forms = append(forms, reversed(text))
		}
	}
	put(t, m.Service, hoarder, haft.Settings{Network: m.hosts("api.example"), Secrets: names})
	res := m.do(root(), "hoard", map[string]any{"url": "https://api.example:" + m.https, "names": names,
		"backwards": forms}, nil)
	var got struct {
		Found, Searched, Kept int
		Own                   bool
	}
	if err := json.Unmarshal(res.Value, &got); err != nil || got.Found != 0 || !got.Own || got.Searched < 4<<20 ||
		got.Kept == 0 {
		t.Errorf("the program found %+v: %v %s %+v", got, err, res.Status, res.Error)
	}
	for _, r := range m.requests() {
		for name := range all {
			if got := r.Header.Get("X-" + strings.ReplaceAll(name, "_", "-")); got != "" && got != all[name] {
				t.Errorf("the server got %q for %s", got, name)
			}
		}
	}
	if len(m.requests()) != 20 {
		t.Errorf("the server got %d requests", len(m.requests()))
	}
	search(t, "stdout", []byte(res.Stdout), all)
	raw, err := json.Marshal(res)
	must(t, err)
	search(t, "the result", raw, all)
	search(t, "the audit", []byte(m.audit()), all)
	if searchFiles(t, m.dir, all) < 3 {
		t.Error("there are no files")
	}
	must(t, m.Close())
	searchFiles(t, m.dir, all)
	m.logs.mu.Lock()
	defer m.logs.mu.Unlock()
	search(t, "the log", m.logs.b.Bytes(), all)
}

// clients are tools as people write them: each fetches url with its key.
var clients = []struct {
	name, place, source string
	kind                haft.Kind
}{
	{"requests", "bearer", "import os, requests\ndef requests_(url: str) -> int:\n    \"\"\"Fetch.\n\n    Args:\n   " +
		"     url: where\n    \"\"\"\n    return requests.get(url, headers={'Authorization': 'Bearer ' + " +
		"os.environ['API_KEY']}, timeout=20).status_code\n", haft.KindPython},
	{"httpx", "bearer", "import os, httpx\ndef httpx_(url: str) -> int:\n    \"\"\"Fetch.\n\n    Args:\n        " +
		"url: where\n    \"\"\"\n    return httpx.get(url, headers={'Authorization': 'Bearer ' + " +
		"os.environ['API_KEY']}, timeout=20).status_code\n", haft.KindPython},
	{"curl", "basic", "#!/bin/bash\n# Fetch.\n#\n# Args:\n#   url (string): where\ncurl -sS -o /dev/null -w " +
		"'%{http_code}' -m 20 -u \"me:$API_KEY\" \"$ARG_URL\"\n", haft.KindBash},
	{"git", "basic", "#!/bin/bash\n# Fetch.\n#\n# Args:\n#   url (string): where\ncd /tmp && git -c " +
		"credential.helper='!f() { echo username=me; echo \"password=$API_KEY\"; }; f' clone -q " +
		"\"$ARG_URL/repo.git\" repo && git -C repo log -1 --format=%s >&2 && echo 200\n", haft.KindBash},
	{"fetch", "bearer", "/**\n * Fetch.\n * @param url where\n */\nexport async function fetch_(url: string): " +
		"Promise<number> {\n  const r = await fetch(url, { headers: { Authorization: 'Bearer ' + " +
		"process.env.API_KEY } });\n  return r.status;\n}\n", haft.KindTypeScript},
}

// Real clients work with a stored secret that they never have, over the whole way.
func TestService_brokers_for_real_clients(t *testing.T) {
	for _, program := range []string{"curl", "git", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			sandboxtest.Require(t, program, err.Error())
		}
	}
	site := venv(t)
	files := http.FileServer(http.Dir(bareRepo(t)))
	m := openMarket(t, func(w http.ResponseWriter, r *http.Request) bool {
		_, password, basic := r.BasicAuth()
		if password != brokered && r.Header.Get("Authorization") != "Bearer "+brokered {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if basic && strings.HasPrefix(r.URL.Path, "/repo.git") {
			files.ServeHTTP(w, r)
			return true
		}
		return false
	}, app.ServiceConfig{Config: app.Config{Interpreters: map[haft.Kind]string{haft.KindPython: site}}})
	for _, tt := range clients {
		t.Run(tt.name, func(t *testing.T) {
			m.t = t
			to := secret.Binding{Header: "Authorization", Prefix: "Bearer "}
			if tt.place == "basic" {
				to = secret.Binding{Basic: "password"}
			}
			m.bind("", "API_KEY", brokered, to)
			change, err := m.PutTool(t.Context(), root(),
				haft.Draft{Name: "try_" + tt.name, Kind: tt.kind, Source: tt.source,
					Settings: haft.Settings{Network: m.hosts("api.example")}})
			must(t, err)
			if change.Waiting != 0 {
				_, err := m.SetTool(t.Context(), root(), change.Tool.Name,
					haft.ToolState{Review: &haft.Answer{Approve: true}})
				must(t, err)
			}
			for _, base := range m.hosts("api.example") {
				res := m.do(root(), "try_"+tt.name, map[string]string{"url": base}, nil)
				if got := strings.Trim(string(res.Value), `"`); got != "200" {
					t.Errorf("%s: %s %s %+v %s %v", base, res.Status, res.Value, res.Error, res.Stderr, res.Notices)
				}
				res = m.do(root(), "try_"+tt.name, map[string]string{"url": strings.Replace(base, "api.", "other.", 1)},
					nil)
				if got := strings.Trim(string(res.Value), `"`); got == "200" ||
					!strings.Contains(fmt.Sprint(res.Notices), "network: [") {
					t.Errorf("%s, another host: %s %s %+v, notices %v", base, res.Status, res.Value, res.Error,
						res.Notices)
				}
			}
		})
	}
}

// venv makes a virtual environment with the real packages, where no sandbox has
// something of its own.
func venv(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("../.haft/testenv/lib/python3*/site-packages")
	if len(found) != 1 {
		sandboxtest.Require(t, "requests", "it is not in the test environment")
	}
	home, err := os.UserHomeDir()
	must(t, err)
	dir, err := os.MkdirTemp(home, ".haft-venv-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	python, err := filepath.EvalSymlinks("../.haft/testenv/bin/python3")
	must(t, err)
	if out, err := exec.CommandContext(t.Context(), python, "-m", "venv", "--without-pip",
		dir).CombinedOutput(); err != nil {
		t.Fatalf("make a virtual environment: %v\n%s", err, out)
	}
	to, _ := filepath.Glob(filepath.Join(dir, "lib/python3*/site-packages"))
	for _, n := range []string{"requests", "urllib3", "charset_normalizer", "httpx", "httpcore", "h11", "anyio",
		"certifi", "idna", "sniffio"} {
		if err := os.CopyFS(filepath.Join(to[0], n), os.DirFS(filepath.Join(found[0], n))); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(found[0], "typing_extensions.py")); err == nil {
		must(t, os.WriteFile(filepath.Join(to[0], "typing_extensions.py"), b, 0o644))
	}
	return dir
}

// bareRepo makes a directory with repo.git that can be cloned over plain files.
func bareRepo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "src"}, {"-C", "src", "commit", "-q", "--allow-empty", "-m", "the first"},
		{"clone", "-q", "--bare", "src", "repo.git"}, {"-C", "repo.git", "update-server-info"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_AUTHOR_NAME=a",
			"GIT_AUTHOR_EMAIL=a@a.example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.example"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// A secret that is exchanged never leaves but to the token endpoint; the token goes
// to the host and nowhere else, and a refresh token that the server replaces is
// stored, encrypted.
func TestService_exchanges_secrets_for_tokens(t *testing.T) {
	var n atomic.Int64
	var fail atomic.Bool
	m := openMarket(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		_, client, _ := r.BasicAuth()
		if want := fmt.Sprint("refresh-token-of-4711-", n.Load()); fail.Load() || client != "client-secret-of-4711" ||
			r.PostFormValue("refresh_token") != want {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return true
		}
		fmt.Fprintf(w,
			`{"access_token":"access-token-of-4711-%d","token_type":"bearer","expires_in":0,"refresh_token":"refresh-token-of-4711-%d"}`, n.Load(), n.Add(1))
		return true
	}, app.ServiceConfig{})
	all := map[string]string{"the client's secret": "client-secret-of-4711"}
	for i := range 6 {
		all[fmt.Sprint("refresh ", i)], all[fmt.Sprint("token ", i)] = fmt.Sprint("refresh-token-of-4711-", i),
			fmt.Sprint("access-token-of-4711-", i)
	}
	o := &secret.OAuth{TokenURL: "https://login.example:" + m.https + "/token", Grant: secret.GrantRefresh,
		ClientID: "me"}
	value, err := o.Join(secret.New(all["the client's secret"]), secret.New(all["refresh 0"]))
	must(t, err)
	m.bind("", "GOOGLE", value.Reveal(), secret.Binding{Header: "Authorization", Prefix: "Bearer ", OAuth: o})
	put(t, m.Service, sender, haft.Settings{Network: m.hosts("api.example"), Secrets: []string{"GOOGLE"}})
	for i := range 2 {
		stand, status, body, res := m.sent(root(), "https://api.example:"+m.https, "GOOGLE", "bearer", nil)
		seen := m.requests()
		if got := seen[len(seen)-1].Header.Get("Authorization"); status != "200" ||
			!strings.HasPrefix(got, "Bearer access-token-of-4711-") {
			t.Fatalf("call %d: %s %v; the server got %q", i, status, res.Notices, got)
		}
		if !strings.HasPrefix(stand, "a") && len(stand) != len(all["token 0"]) {
			t.Errorf("the placeholder %q has not the shape of a token", stand)
		}
		search(t, "what the tool got", []byte(stand+body), all)
	}
	must(t, m.Close())
	if n.Load() < 2 || !strings.Contains(m.logs.b.String(), "a server replaced a refresh token") {
		t.Errorf("%d exchanges; the log: %s", n.Load(), m.logs.b.String())
	}
	searchFiles(t, m.dir, all)
	search(t, "the log", m.logs.b.Bytes(), all)
}
