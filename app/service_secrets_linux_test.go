package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/credential"
	"haft/internal/event"
	"haft/internal/secret"
	"haft/internal/secret/vault"
)

// leaky is a tool that does its worst with its environment.
const leaky = `
import base64, json, os, sys, urllib.parse

def forms(text):
    raw = text.encode()
    out = [text, text.upper(), raw.hex(), raw.hex().upper(), urllib.parse.quote(text, safe=""), json.dumps(text), json.dumps(text, ensure_ascii=False)]
    for pad in (b"", b"x", b"xx"):
        out += [base64.b64encode(pad + raw + b"yy").decode(), base64.urlsafe_b64encode(pad + raw + b"yy").decode()]
    return out

def leak(names: list[str], how: str, note: str = "") -> dict[str, object]:
    """Show the environment in every way.

    Args:
        names: the variables
        how: return or raise
        note: more text
    """
    values = [os.environ[n] for n in names]
    every = [f for v in values for f in forms(v)]
    print("\n".join(every))
    for f in every:
        for c in f:
            sys.stderr.write(c)
            sys.stderr.flush() if len(f) < 20 else None
        sys.stderr.write("\n")
    os.makedirs("/work/out", exist_ok=True)
    with open("/work/out/all.txt", "w") as file:
        file.write("\n".join(every))
    if how == "raise":
        raise ValueError(" ".join(every) + note)
    return {"values": every, "nested": {f: [f] for f in every}, "note": note, "length": sum(map(len, values))}
`

// encodings are the forms in which the files are searched for a value.
func encodings(value string) map[string]string {
	quoted, _ := json.Marshal(value)
	all := map[string]string{
		"raw": value, "upper case": strings.ToUpper(value), "hex": hex.EncodeToString([]byte(value)),
		"upper hex": strings.ToUpper(hex.EncodeToString([]byte(value))), "url": url.QueryEscape(value),
		"path": url.PathEscape(value),
		"json": strings.Trim(string(quoted), `"`),
	}
	for pad := range 3 {
		for name, enc := range map[string]*base64.Encoding{"base64": base64.StdEncoding,
			"base64url": base64.URLEncoding} {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", pad) + value))
			// Without the characters at the ends, which depend on what is around.
			all[fmt.Sprint(name, " ", pad)] = strings.TrimRight(text[(pad*4+2)/3:len(text)-4], "=")
		}
	}
	return all
}

// search reports every value that is in data, in any encoding.
func search(t *testing.T, where string, data []byte, values map[string]string) {
	t.Helper()
	for name, value := range values {
		for form, text := range encodings(value) {
			if i := bytes.Index(data, []byte(text)); i >= 0 {
				t.Errorf("%s holds %s as %s: …%.80q", where, name, form, data[max(0, i-30):])
			}
		}
	}
}

// searchFiles searches all files below a directory.
func searchFiles(t *testing.T, dir string, values map[string]string) (files int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		search(t, filepath.Base(path), raw, values)
		files++
		return err
	}))
	return files
}

// buffer is a log that can be written to at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// twenty makes the values: plain keys, and some with characters that encodings
// change.
func twenty() (org, hook, agent, call, all map[string]string) {
	scopes := []map[string]string{{}, {}, {}, {}}
	all = map[string]string{}
	shapes := []string{"key-%d-Zx8Qv1Lm4Rt7", "pass %d/word+with=signs&more", "quo\"te-%d\\back'slash",
		"ünï-%d-cödé-välue", "line-%d\nbreak\tand-tab"}
	for i := range 20 {
		name, value := fmt.Sprintf("SECRET_%02d", i), fmt.Sprintf(shapes[i%len(shapes)], i*7919)
		scopes[i/5][name], all[name] = value, value
	}
	return scopes[0], scopes[1], scopes[2], scopes[3], all
}

// A run is a service that was used with 20 secrets, and what came out of it.
type leakyRun struct {
	*app.Service
	t       *testing.T
	dir     string
	logs    *buffer
	asked   atomic.Int64 // the webhook
	who     haft.Principal
	all     map[string]string
	call    haft.Call
	outputs map[string]any
}

// startLeaky opens the service and stores the secrets, five in each scope.
func startLeaky(t *testing.T) *leakyRun {
	t.Helper()
	org, hook, agent, call, all := twenty()
	r := &leakyRun{t: t, dir: t.TempDir(), logs: &buffer{}, who: root(), all: all, outputs: map[string]any{}}
	signing := secret.New("signing-key-of-the-webhook")
	all["BEARER"], all["SIGNING"] = "bearer-key-of-the-webhook", signing.Reveal()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		signed := credential.Sign(signing, q.Header.Get(credential.HeaderTimestamp), body)
		if err != nil || q.Header.Get(credential.HeaderSignature) != signed {
			http.Error(w, "who are you", http.StatusForbidden)
			return
		}
		r.asked.Add(1)
		_ = json.NewEncoder(w).Encode(hook)
	}))
	t.Cleanup(service.Close)
	cfg := app.ServiceConfig{Data: r.dir, Busy: true, Credentials: app.CredentialsConfig{
		URL: service.URL + "/webhook/sandbox-credentials", Key: secret.New(all["BEARER"]), Signing: signing,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}
	cfg.Logger = slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	cfg.AllowReduced = true // what a machine gives is what is tried
	r.Service, err = app.OpenService(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	put(t, r.Service, leaky, haft.Settings{Secrets: []string{"SECRET_00", "SECRET_05", "SECRET_10", "SECRET_15"}})
	for name, value := range org {
		must(t, r.PutSecret(t.Context(), root(), "", name, secret.New(value)))
	}
	helper, err := r.PutAgent(t.Context(), root(), haft.Agent{Name: "helper", Tools: []string{"leak"}, Env: agent})
	must(t, err)
	r.who.Agent, r.outputs["agent"] = string(helper.ID), helper
	r.call = haft.Call{Tool: "leak", Principal: r.who, Env: call}
	return r
}

// leak calls the tool, and gives it some of the values as arguments too.
func (r *leakyRun) leak(how string) haft.Call {
	c := r.call
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.all)),
		func(n string) bool { return !strings.HasPrefix(n, "SECRET_") })
	args, err := json.Marshal(map[string]any{"names": names, "how": how,
		"note": "in the arguments: " + r.all["SECRET_01"] + " " + r.all["SECRET_11"] + " " + r.all["SECRET_16"]})
	must(r.t, err)
	c.Args = args
	return c
}

// returns has the tool return, and checks that it really saw all.
func (r *leakyRun) returns() {
	r.t.Helper()
	res, err := r.Call(r.t.Context(), r.leak("return"))
	must(r.t, err)
	var value struct{ Length int }
	length := 0
	for name, text := range r.all {
		if strings.HasPrefix(name, "SECRET_") {
			length += len([]rune(text))
		}
	}
	if err := json.Unmarshal(res.Value, &value); err != nil || value.Length != length {
		r.t.Errorf("the tool saw %d characters of secrets, want %d: %v, %.300s, %+v", value.Length, length, err,
			res.Value, res.Error)
	}
	if len(res.Artifacts) != 1 || res.Stdout == "" || res.Stderr == "" || r.asked.Load() != 1 {
		r.t.Errorf("the tool left %d artifacts, %d bytes on stdout and %d on stderr; the webhook was asked %d times",
			len(res.Artifacts), len(res.Stdout), len(res.Stderr), r.asked.Load())
	}
	for _, a := range res.Artifacts {
		search(r.t, "an artifact", a.Data, r.all)
	}
	r.outputs["returned"] = res
}

// searchAll searches everything that came out, and the files.
func (r *leakyRun) searchAll() {
	t, ctx := r.t, r.t.Context()
	t.Helper()
	events, err := r.Store.Events.EventsAfter(ctx, event.Filter{}, 0, 1000)
	must(t, err)
	entries, err := r.Store.Audit.AuditEntries(ctx, "local", 0, 1000)
	must(t, err)
	if len(events) < 10 || len(entries) < 10 {
		t.Errorf("there are %d events and %d entries of the audit", len(events), len(entries))
	}
	r.outputs["events"], r.outputs["audit"] = events, entries
	for rec, err := range r.Records(ctx, root(), haft.CallFilter{Org: "local"}) {
		must(t, err)
		r.outputs[string(rec.Call.ID)] = rec
	}
	for what, v := range r.outputs {
		raw, err := json.Marshal(v)
		must(t, err)
		search(t, what, raw, r.all)
		search(t, what+", printed", fmt.Appendf(nil, "%+v", v), r.all)
	}
	if searchFiles(t, r.dir, r.all) < 3 { // with the write-ahead log
		t.Error("there are no files")
	}
	must(t, r.Close())
	searchFiles(t, r.dir, r.all)
	r.logs.mu.Lock()
	defer r.logs.mu.Unlock()
	search(t, "the log", r.logs.b.Bytes(), r.all)
}

// A run that used 20 secrets of all scopes leaves none of them anywhere, in any
// encoding.
func TestService_leaves_no_secret_behind(t *testing.T) {
	open(t, app.Config{})
	r, ctx := startLeaky(t), t.Context()
	r.returns()
	raised, err := r.Call(ctx, r.leak("raise"))
	if must(t, err); raised.Error == nil || raised.Error.Kind != haft.FailException {
		t.Errorf("the tool that raises: %+v", raised)
	}
	rec, err := r.Submit(ctx, r.leak("return"))
	must(t, err)
	queued, err := r.Wait(ctx, r.who, rec.Call.ID)
	must(t, err)
	missing := r.leak("return")
	missing.Tool = "nothing"
	_, refused := r.Call(ctx, missing)
	must(t, r.Stop(ctx, root(), "for a moment", false))
	stopped, err := r.Call(ctx, r.leak("return"))
	must(t, err)
	for what, v := range map[string]any{"raised": raised, "queued": queued, "record": rec, "stopped": stopped,
		"refused": fmt.Sprint(refused)} {
		r.outputs[what] = v
	}
	r.searchAll()
}

// put registers a tool, and agrees to it.
func put(t *testing.T, s *app.Service, source string, settings haft.Settings) {
	t.Helper()
	change, err := s.PutTool(t.Context(), root(), haft.Draft{Kind: haft.KindPython, Source: source, Settings: settings})
	must(t, err)
	if change.Waiting != 0 {
		other := root()
		other.User = "second"
		_, err := s.SetTool(t.Context(), other, change.Tool.Name,
			haft.ToolState{Review: &haft.Answer{Approve: true, Reason: "a test"}})
		must(t, err)
	}
}

// A call that waits for a person is in the database, and nothing of it can be read
// there.
func TestService_seals_what_waits(t *testing.T) {
	open(t, app.Config{})
	dir := t.TempDir()
	s := openService(t, dir)
	put(t, s, `
import os

def show(password: str) -> str:
    """Show.

    Args:
        password: what to show
    """
    return str(password == "hunter2-in-the-" + "arguments") + str(os.environ["TOKEN"] == "hunter2-in-the-" + "environment")
`, haft.Settings{RequiresApproval: true})
	all := map[string]string{"the argument": "hunter2-in-the-arguments", "the variable": "hunter2-in-the-environment"}
	res, err := s.Call(t.Context(), haft.Call{Tool: "show", Principal: root(),
		Env:  map[string]string{"TOKEN": all["the variable"]},
		Args: json.RawMessage(`{"password":"hunter2-in-the-arguments"}`)})
	must(t, err)
	if res.Status != haft.StatusPending {
		t.Fatalf("the call does not wait: %+v", res)
	}
	searchFiles(t, dir, all)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openService(t, dir)
	person := haft.Principal{Org: "local", User: "second", Roles: []string{haft.RoleAdmin, haft.RoleApprover}}
	_, err = s.Decide(t.Context(), person, res.Approval, haft.Answer{Approve: true})
	must(t, err)
	done, err := s.Wait(t.Context(), root(), res.Call)
	must(t, err)
	if string(done.Value) != `"TrueTrue"` {
		t.Errorf("after a restart: %s, %+v", done.Value, done.Error)
	}
	searchFiles(t, dir, all)
}

// The environment of the server is not in any process that a tool can see.
func TestService_hides_its_own_environment(t *testing.T) {
	open(t, app.Config{})
	t.Setenv("HAFT_MASTER_KEY", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	t.Setenv("SERVER_ONLY", "hunter2-of-the-server")
	s := openService(t, t.TempDir())
	must(t, s.PutSecret(t.Context(), root(), "", "GIVEN", secret.New("given-to-the-tool")))
	put(t, s, `
import glob, os

def look() -> list[str]:
    """Look."""
    seen = [k + "=" + v for k, v in os.environ.items()]
    for name in glob.glob("/proc/*/environ") + glob.glob("/proc/*/task/*/environ"):
        try:
            seen += open(name, "rb").read().decode(errors="replace").split("\0")
        except OSError:
            pass
    names = sorted({s.split("=")[0] for s in seen if s})
    return names + [str("GIVEN=given-to-the-" + "tool" in seen)]
`, haft.Settings{})
	res, err := s.Call(t.Context(), haft.Call{Tool: "look", Principal: root()})
	must(t, err)
	text := string(res.Value)
	if !strings.Contains(text, `"True"`) || strings.Contains(text, "SERVER_ONLY") ||
		strings.Contains(text, "HAFT_MASTER_KEY") || strings.Contains(text, "GOCACHE") {
		t.Errorf("the tool sees %s, %+v", text, res.Error)
	}
}

// Whatever the webhook does, a tool that said what it needs is not run without
// it, and another runs with a notice.
func TestService_webhook_that_does_not_answer(t *testing.T) {
	open(t, app.Config{})
	handlers := map[string]http.HandlerFunc{
		"fails": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter2", http.StatusBadGateway) },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"huge":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20)) },
		"malformed": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"TOKEN":["hunter2"]}`) },
		"hostile":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"LD_PRELOAD":"/tmp/hunter2.so"}`) },
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the client left
			<-r.Context().Done()
		},
		"down":      nil,
		"elsewhere": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"TOKEN":"hunter2"}`) },
	}
	source := func(name string) string {
		return fmt.Sprintf("import os\n\ndef %s() -> str:\n    \"\"\"Show.\"\"\"\n    return "+
			"os.environ.get(\"TOKEN\", \"none\")\n", name)
	}
	for name, h := range handlers {
		t.Run(name, func(t *testing.T) {
			service := httptest.NewServer(h)
			if h == nil {
				service.Close()
			} else {
				t.Cleanup(service.Close)
			}
			cfg := app.ServiceConfig{Credentials: app.CredentialsConfig{URL: service.URL,
				Timeout: 300 * time.Millisecond}}
			if name != "elsewhere" { // an address that nobody allowed
				cfg.Credentials.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
			cfg.AllowReduced = true // what a machine gives is what is tried
			s, err := app.OpenService(t.Context(), cfg)
			must(t, err)
			defer s.Close()
			put(t, s, source("easy"), haft.Settings{})
			put(t, s, source("needs"), haft.Settings{Secrets: []string{"TOKEN"}})
			res, err := s.Call(t.Context(), haft.Call{Tool: "easy", Principal: root()})
			must(t, err)
			if string(res.Value) != `"none"` || len(res.Notices) != 1 ||
				!strings.Contains(res.Notices[0], "the credentials webhook") {
				t.Errorf("a tool that needs nothing: %s, %q, %+v", res.Value, res.Notices, res.Error)
			}
			must(t, s.PutSecret(t.Context(), root(), "", "TOKEN", secret.New("of-the-organisation")))
			res, err = s.Call(t.Context(), haft.Call{Tool: "needs", Principal: root()})
			must(t, err)
			if res.Status != haft.StatusError || res.Error == nil ||
				!strings.Contains(res.Error.Message, "the tool needs the variable TOKEN") ||
				res.Error.Retry != haft.RetrySame {
				t.Errorf("a tool that needs it: %s, %+v", res.Status, res.Error)
			}
			raw, err := json.Marshal(res)
			if must(t, err); bytes.Contains(raw, []byte("hunter2")) || bytes.Contains(raw, []byte(service.URL)) {
				t.Errorf("the result shows too much: %s", raw)
			}
			res, err = s.Call(t.Context(), haft.Call{Tool: "needs", Principal: root(),
				Env: map[string]string{"TOKEN": "own"}})
			must(t, err)
			if string(res.Value) != `"own"` && !strings.Contains(string(res.Value), "redacted") {
				t.Errorf("a call that brings its own: %s, %+v", res.Value, res.Error)
			}
		})
	}
}

// The next call sees what was changed, and a call that runs does not.
func TestService_environment_of_running_calls_stays(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	put(t, s, `
import os, time

def poll(rounds: int) -> list[int]:
    """Look again and again.

    Args:
        rounds: how often
    """
    seen = set()
    for _ in range(rounds):
        seen.add(len(os.environ.get("KEY", "")))
        time.sleep(0.02)
    return sorted(seen)
`, haft.Settings{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, s.PutSecret(ctx, root(), "", "KEY", secret.New("12345")))
	rec, err := s.Submit(ctx, haft.Call{Tool: "poll", Args: json.RawMessage(`{"rounds":50}`), Principal: root()})
	must(t, err)
	for {
		r, err := s.Record(ctx, root(), rec.Call.ID)
		if must(t, err); r.Status == haft.StatusRunning || r.Status.Final() {
			break
		}
		select { // the record is all there is to see of it
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the call does not begin")
		}
	}
	must(t, s.PutSecret(ctx, root(), "", "KEY", secret.New("1234567")))
	next, err := s.Call(ctx, haft.Call{Tool: "poll", Args: json.RawMessage(`{"rounds":1}`), Principal: root()})
	must(t, err)
	running, err := s.Wait(ctx, root(), rec.Call.ID)
	must(t, err)
	if string(next.Value) != "[7]" || string(running.Value) != "[5]" {
		t.Errorf("the next call saw %s, want [7]; the running one %s, want [5]", next.Value, running.Value)
	}
}

// The plan of a chain is kept sealed while the chain waits, and without secrets when
// it has ended.
func TestService_seals_plans(t *testing.T) {
	open(t, app.Config{})
	dir := t.TempDir()
	s := openService(t, dir)
	put(t, s, "def check(password: str, note: str) -> bool:\n    \"\"\"Check.\n\n    Args:\n        password: what "+
		"to check\n        note: more\n    \"\"\"\n    return password == 'hunter2-in-' + 'the-plan' and note == "+
		"'stored-value-' + 'of-4711'\n", haft.Settings{RequiresApproval: true})
	must(t, s.PutSecret(t.Context(), root(), "", "STORED", secret.New("stored-value-of-4711")))
	all := map[string]string{"the argument": "hunter2-in-the-plan", "the stored value": "stored-value-of-4711"}
	c, err := s.Run(t.Context(), root(), haft.Plan{Input: json.RawMessage(`{"password":"hunter2-in-the-plan"}`),
		Steps: []haft.Step{{ID: "a", Tool: "check",
			Args: json.RawMessage(`{"password":{"$from":"input/password"},"note":"stored-value-of-4711"}`)}}})
	must(t, err)
	if c.Status != haft.StatusPending {
		t.Fatalf("the chain does not wait: %+v", c)
	}
	searchFiles(t, dir, all)
	must(t, s.Close())
	s = openService(t, dir)
	rotated, err := s.RotateSecrets(t.Context(), root(), vault.RotateConfig{})
	if must(t, err); rotated.Keys != 0 || rotated.Next == "" {
		t.Errorf("a rotation beside an open chain: %+v", rotated)
	}
	person := haft.Principal{Org: "local", User: "second", Roles: []string{haft.RoleAdmin, haft.RoleApprover}}
	_, err = s.Decide(t.Context(), person, c.Steps[0].Result.Approval, haft.Answer{Approve: true})
	must(t, err)
	_, err = s.Wait(t.Context(), root(), c.Steps[0].Call)
	must(t, err)
	for range 200 {
		c, err = s.Chain(t.Context(), root(), c.ID)
		if must(t, err); c.Status.Final() {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if c.Status != haft.StatusSuccess || string(c.Steps[0].Result.Value) != "true" {
		t.Errorf("after a restart: %+v", c)
	}
	raw, err := json.Marshal(c)
	must(t, err)
	search(t, "the chain", raw, all)
	searchFiles(t, dir, all)
}
