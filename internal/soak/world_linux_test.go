package soak

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A world is one system under test, and what was seen of it.
type world struct {
	t       *testing.T
	ctx     context.Context
	sc      scenario
	set     settings
	dir     string
	env     []string
	tool    *toolServer
	db      *database // nil with embedded storage
	nodes   []*node
	tenants []tenant
	watch   []*watcher
	waiting sync.WaitGroup // requests in the background

	mu      sync.Mutex
	history History
	latest  map[string]Sighting // by server and id
}

// A tenant is an organisation and its key.
type tenant struct{ org, key string }

// pace is how many calls of a tenant run at once, so that the others wait.
const pace = 32

// policy lets administrators of every tenant call everything, so many at once.
var policy = fmt.Sprintf(`version: 1
roles:
  admin: ["tool:*"]
rules:
  - {id: pace, effect: limit, concurrency: {max: %d}}
`, pace)

// newWorld starts servers with tenants that have the tool.
func newWorld(t *testing.T, sc scenario, set settings) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), sc: sc, set: set, dir: t.TempDir(), latest: map[string]Sighting{}}
	w.history.Limit = set.settle
	if sc.postgres {
		w.db = openDatabase(t)
	}
	w.tool = startTool(t)
	data := filepath.Join(w.dir, "data")
	w.must(os.Mkdir(data, 0o700))
	if sc.mount != nil {
		sc.mount(t, data)
	}
	w.env = []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "HAFT_LOCK_WAIT=10s",
		"HAFT_MCP_ALLOW=127.0.0.1/32", "HAFT_MCP_NAMES=127.0.0.1"}
	if w.db != nil {
		w.env = append(w.env, masterKey())
	}
	w.tenants = append(w.tenants, tenant{org: "local"})
	for i := 1; i < max(1, sc.tenants); i++ {
		w.tenants = append(w.tenants, tenant{org: fmt.Sprintf("tenant%d", i)})
	}
	for i := range w.tenants {
		who := &w.tenants[i]
		text := w.command(data, "key", "create", "--org", who.org, "--for-user", "soak", "--role", "admin")
		who.key = strings.TrimSpace(text)
	}
	for i := range max(1, sc.servers) {
		w.addNode(data, i)
	}
	w.put(w.tenants[0], "/v1/policies/server", "application/yaml", policy)
	for _, who := range w.tenants {
		w.put(who, "/v1/mcp_servers/fx", "application/json", fmt.Sprintf(`{"url": %q}`, w.tool.url))
		w.watch = append(w.watch, w.startWatcher(who))
	}
	return w
}

// masterKey is a variable with a key for servers that share a database. The other keys are there once a command has
// run; this one is made when it is first needed.
func masterKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return "HAFT_MASTER_KEY=" + base64.StdEncoding.EncodeToString(key)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// addNode starts one more server. All have the keys of the first, as servers of one
// database need.
func (w *world) addNode(data string, i int) {
	w.t.Helper()
	dir := data
	if i > 0 {
		dir = fmt.Sprintf("%s%d", data, i)
		w.must(os.Mkdir(dir, 0o700))
		files, err := filepath.Glob(filepath.Join(data, "*"))
		w.must(err)
		for _, name := range files {
			if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
				continue // the socket of the first
			}
			raw, err := os.ReadFile(name)
			w.must(err)
			w.must(os.WriteFile(filepath.Join(dir, filepath.Base(name)), raw, 0o600))
		}
	}
	name := string(rune('A' + i))
	log, err := os.OpenFile(filepath.Join(w.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_EXCL, 0o600)
	w.must(err)
	w.t.Cleanup(func() { _ = log.Close() })
	n := &node{name: name, bin: w.set.binary, env: w.env, log: log}
	n.flags = slices.Concat(w.place(dir), w.sc.serve, w.set.serve)
	w.t.Cleanup(n.remove)
	w.must(n.start(w.ctx))
	w.nodes = append(w.nodes, n)
}

// place are the flags that say where everything is kept.
func (w *world) place(data string) []string {
	if w.db == nil {
		return []string{"--data", data}
	}
	return []string{"--data", data, "--database", w.db.url}
}

// command runs a command of haft on the store itself.
func (w *world) command(data string, args ...string) string {
	w.t.Helper()
	out, err := w.try(data, args...)
	w.must(err)
	return out
}

func (w *world) try(data string, args ...string) (string, error) {
	cmd := exec.CommandContext(w.ctx, w.set.binary, append(args, w.place(data)...)...)
	var out, bad bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = w.env, &out, &bad
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("haft %s %s: %w\n%s", args[0], args[1], err, bad.String())
	}
	return out.String(), nil
}

// background has requests made that finish waits for.
func (w *world) background(do func()) { w.waiting.Go(do) }

// fault notes how long something was broken, which do breaks and mends.
func (w *world) fault(what string, do func()) {
	w.t.Helper()
	f := Fault{What: what, From: time.Now()}
	do()
	f.To = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Faults = append(w.history.Faults, f)
}

// finish waits until everything has ended or is overdue, looks at everything twice
// on every server, stops them and checks the history.
func (w *world) finish() []Violation {
	w.t.Helper()
	began := time.Now()
	w.tool.openGate()
	w.waiting.Wait()
	quiet := w.observe(w.history.Limit + 5*time.Second)
	w.t.Logf("calls have ended: %v, %s after the scenario", quiet, time.Since(began).Round(time.Millisecond))
	for range 2 {
		for _, n := range w.nodes {
			if err := w.sweep(n); err != nil {
				w.t.Errorf("list the calls at %s: %v", n.name, err)
			}
		}
	}
	w.history.Streams = w.streams()
	for _, n := range w.nodes {
		if err := n.signal(stop); err != nil {
			w.t.Logf("stop: %v", err)
		}
	}
	w.audit()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Effects = w.tool.seen()
	w.keep()
	return Check(&w.history)
}

// audit verifies the log of every tenant.
func (w *world) audit() {
	for _, who := range w.tenants {
		out, err := w.try(filepath.Join(w.dir, "data"), "audit", "verify", "--org", who.org)
		sound := err == nil && strings.HasPrefix(out, "sound")
		said := shorten(fmt.Sprint(strings.TrimSpace(out), " ", err))
		w.history.Audits = append(w.history.Audits, Audit{who.org, sound, said})
	}
}

// shorten keeps the beginning of a text, such as of a stack trace.
func shorten(text string) string { return text[:min(len(text), 800)] }

// keep writes the history to where HAFT_SOAK_HISTORY says.
func (w *world) keep() {
	if w.set.history == "" {
		return
	}
	raw, err := json.Marshal(&w.history)
	name := filepath.Join(w.set.history, strings.ReplaceAll(w.t.Name(), "/", "_")+".json")
	if err = errors.Join(err, os.WriteFile(name, raw, 0o600)); err != nil {
		w.t.Errorf("keep the history: %v", err)
	}
	for _, n := range w.nodes {
		if log, err := os.ReadFile(n.log.Name()); err == nil {
			_ = os.WriteFile(name+"."+n.name+".log", log, 0o600) // the history itself is there
		}
	}
}
