package e2b

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"haft"
)

// configs has the sandbox configuration of one organisation.
type configs struct {
	haft.Sandboxes
	mu     sync.Mutex
	config haft.SandboxConfig
	puts   int
}

func (c *configs) SandboxConfig(ctx context.Context, _ haft.Principal, _ string) (*haft.SandboxConfig, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config
	return &now, ctx.Err()
}

func (c *configs) PutSandboxConfig(ctx context.Context, _ haft.Principal,
	n haft.SandboxConfig) (*haft.SandboxConfig, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.config, c.puts = n, c.puts+1
	}
	return &n, ctx.Err()
}

// A build that fails makes the template what it was, also when the server ends, and nothing if somebody has changed the
// template meanwhile or removed it.
func TestTemplate_undo(t *testing.T) {
	p, at := haft.Principal{Org: "acme", User: "alice"}, time.Now().UTC()
	old := haft.SandboxTemplate{Name: "t", Created: at}
	built, others := old, old
	built.Created, others.Created = at.Add(1), at.Add(2)
	for name, c := range map[string]struct {
		old         *haft.SandboxTemplate
		there, want []haft.SandboxTemplate
		puts        int
	}{
		"new":             {nil, []haft.SandboxTemplate{built}, []haft.SandboxTemplate{}, 1},
		"again":           {&old, []haft.SandboxTemplate{built}, []haft.SandboxTemplate{old}, 1},
		"changed":         {&old, []haft.SandboxTemplate{others}, []haft.SandboxTemplate{others}, 0},
		"new and changed": {nil, []haft.SandboxTemplate{others}, []haft.SandboxTemplate{others}, 0},
		"removed":         {&old, nil, nil, 0},
	} {
		w := newWorld(t)
		cfg := &configs{config: haft.SandboxConfig{Templates: c.there}}
		w.api.cfg.Configs = cfg
		w.api.Close()
		err := templateHandlers{w.api}.undo(p, built, c.old)
		if err != nil || cfg.puts != c.puts || fmt.Sprint(cfg.config.Templates) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, %d times written, %v", name, err, cfg.puts, cfg.config.Templates)
		}
	}
}

// Builds of one organisation take no place from those of another, and one that runs is not forgotten.
func TestTemplate_builds_are_bounded(t *testing.T) {
	a := templateHandlers{newWorld(t).api}
	add := func(org, id, status string) error {
		return a.addBuild(&build{id: id, owner: haft.Principal{Org: org}, status: status})
	}
	ids := func(org string) (list []string) {
		for _, b := range a.builds {
			if b.owner.Org == org {
				list = append(list, b.id)
			}
		}
		return list
	}
	for i, status := range []string{"building", "ready"} {
		if err := add("acme", fmt.Sprint("first", i), status); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxBuilds - 2 + 5 {
		if err := add("acme", fmt.Sprint(i), "building"); (err == nil) != (i < maxBuilds-1) {
			t.Errorf("build %d: %v", i, err)
		}
		if err := add("evil", fmt.Sprint(i), "waiting"); err != nil {
			t.Errorf("build %d of others: %v", i, err)
		}
	}
	mine := ids("acme")
	if len(mine) != maxBuilds || mine[0] != "first0" || slices.Contains(mine, "first1") ||
		len(ids("evil")) != maxBuilds || a.builds[len(a.builds)-1].id != fmt.Sprint(maxBuilds+2) {
		t.Errorf("there are %v and %v", mine, ids("evil"))
	}
}

// A build is begun once: asked for again it stays what it is, and takes no place for ever.
func TestTemplate_start_again(t *testing.T) {
	w := newWorld(t)
	w.api.cfg.Configs = &configs{}
	a := templateHandlers{w.api}
	b := &build{id: "b", template: "t", owner: haft.Principal{Org: "acme", User: "alice"}, status: "ready"}
	if err := a.addBuild(b); err != nil {
		t.Fatal(err)
	}
	if rec := w.ask("acme/alice", "POST", "/v2/templates/t/builds/b", `{}`); rec.Code != http.StatusConflict {
		t.Errorf("it is answered %d: %s", rec.Code, rec.Body)
	}
	if b.status != "ready" {
		t.Errorf("the build that has ended is %s", b.status)
	}
}

// A build that the end of the server breaks off has made the template what it was before the store is closed.
func TestTemplate_undone_at_the_end(t *testing.T) {
	w := newWorld(t)
	old := haft.SandboxTemplate{Name: "t", Created: time.Now().UTC()}
	cfg := &configs{config: haft.SandboxConfig{Templates: []haft.SandboxTemplate{old}}}
	w.api.cfg.Configs = cfg
	begun := make(chan struct{})
	w.api.cfg.Call = func(ctx context.Context, _ haft.Call, _ func(haft.Event)) (*haft.Result, bool, error) {
		close(begun)
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond) // the engine ends the call
		return nil, false, context.Cause(ctx)
	}
	b := &build{id: "b", template: "t", owner: haft.Principal{Org: "acme", User: "alice"}, status: "waiting"}
	if err := (templateHandlers{w.api}).addBuild(b); err != nil {
		t.Fatal(err)
	}
	steps := `{"steps":[{"type":"RUN","args":["pip install six"]}]}`
	if rec := w.ask("acme/alice", "POST", "/v2/templates/t/builds/b", steps); rec.Code != http.StatusAccepted {
		t.Fatal(rec.Code, rec.Body)
	}
	<-begun
	w.api.Close()
	w.api.Wait()
	if got := cfg.config.Templates; fmt.Sprint(got) != fmt.Sprint([]haft.SandboxTemplate{old}) || b.status != "error" {
		t.Errorf("the build is %s, the templates are %v", b.status, got)
	}
}

// What a build says stays in memory: code of its packages cannot make that large.
func TestTemplate_log_is_bounded(t *testing.T) {
	a, b := templateHandlers{newWorld(t).api}, new(build)
	for range 2000 {
		a.log(b, "info", strings.Repeat("ä", 30_000))
	}
	size := 0
	for _, l := range b.logs {
		size += len(l.Message)
		if !utf8.ValidString(l.Message) {
			t.Fatal("a line is no text")
		}
	}
	if size > 1<<20 {
		t.Errorf("the log of a build has %d bytes", size)
	}
}
