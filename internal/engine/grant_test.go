package engine_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/egress/route"
	"haft/internal/engine"
	"haft/internal/secret"
)

// openGuard is an egress guard that keeps what was last opened.
type openGuard struct {
	mu  sync.Mutex
	way route.Request
}

func (*openGuard) Host(entry string) (string, error) { return entry, nil }

func (g *openGuard) Open(_ context.Context, w route.Request) (*route.Route, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.way = w
	return &route.Route{Session: noSession{}}, nil
}

// forbids asks what the running call may not reach.
func (g *openGuard) forbids(host string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.way.Forbids(host, 443)
}

type noSession struct{}

func (noSession) Serve(context.Context, net.Conn)             {}
func (noSession) Refused() bool                               { return false }
func (noSession) Close() ([]route.Connection, []secret.Named) { return nil, nil }

// slowWorld has a tool that runs until the test ends it, and others that run until they
// are cancelled.
type slowWorld struct {
	*world
	started chan string // names of tools
	end     chan struct{}
}

func newSlowWorld(t *testing.T, g route.Guard) *slowWorld {
	t.Helper()
	w := &slowWorld{world: setup(t, allowAll, engine.Config{Egress: g})}
	w.started, w.end = make(chan string, 8), make(chan struct{})
	w.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		w.started <- req.Tool
		end := w.end
		if req.Tool != "slow" {
			end = nil
		}
		select {
		case <-ctx.Done():
			return failing(req, haft.StatusCancelled, haft.FailCancelled), nil
		case <-end:
			return ok(req, "1"), nil
		}
	})
	return w
}

// begin starts a tool and waits until it runs.
func (w *slowWorld) begin(tool string) haft.CallID {
	w.t.Helper()
	rec, err := w.Submit(w.t.Context(), haft.Call{Tool: tool, Args: json.RawMessage(`{}`), Principal: user("o", "ann")})
	if err != nil {
		w.t.Fatal(err)
	}
	if name := <-w.started; name != tool {
		w.t.Fatalf("%s runs, not %s", name, tool)
	}
	return rec.Call.ID
}

// reviewed waits until the calls have been reviewed after the last change. Reviews of an
// organisation follow each other: when the second one ends a call, the first is over.
func (w *slowWorld) reviewed() {
	w.t.Helper()
	for _, name := range []string{"first", "second"} {
		w.tool("o", name, nil)
		id := w.begin(name)
		check(w.t, second(w.SetTool(w.t.Context(), admin("o"), name, haft.ToolState{Disabled: new(true)})))
		want(w.t, w.world.end(admin("o"), id), haft.StatusCancelled)
	}
}

// TestGranted_is_taken_back holds changes against a call that runs with a version, a
// network and an isolation.
func TestGranted_is_taken_back(t *testing.T) {
	rule := func(text string) func(*world, *haft.Tool) error {
		return func(w *world, v1 *haft.Tool) error {
			text := "version: 1\nrules:\n  - " + strings.ReplaceAll(text, "V1", v1.Version.Digest) + "\n"
			return second(w.PutPolicy(w.t.Context(), admin("o"), false, haft.PolicyText{Text: []byte(text)}))
		}
	}
	type change = func(*world, *haft.Tool) error
	limit := func(text string) change { return rule("{id: x, effect: limit, " + text + "}") }
	const refused = "policy does not let the tool reach a.example"
	version := func(network ...string) change {
		return func(w *world, _ *haft.Tool) error {
			w.tool("o", "slow", func(d *haft.Draft) { d.Source, d.Settings.Network = "def slow(): return 2", network })
			return nil
		}
	}
	both := func(a, b change) change {
		return func(w *world, v1 *haft.Tool) error {
			if err := a(w, v1); err != nil {
				return err
			}
			return b(w, v1)
		}
	}
	sandbox := func(network ...string) change {
		return func(w *world, _ *haft.Tool) error {
			c := haft.SandboxConfig{Type: haft.SandboxLocal, Network: network}
			return second(w.PutSandboxConfig(w.t.Context(), admin("o"), c))
		}
	}
	for name, c := range map[string]struct {
		network []string // of the tool; none means that of the organisation
		change  change
		why     string // "" means that the call goes on
	}{
		"another host":                 {[]string{"a.example"}, limit(`network: [b.example]`), refused},
		"no host":                      {[]string{"a.example"}, limit(`network: []`), refused},
		"for others":                   {[]string{"a.example"}, limit(`users: [bob], network: []`), ""},
		"the same host and more":       {[]string{"a.example"}, limit(`network: [a.example, b.example]`), ""},
		"the organisation has no host": {nil, sandbox(), "may not reach a.example any more"},
		"the organisation has more":    {nil, sandbox("a.example", "b.example"), ""},
		"the isolation":                {nil, limit(`min_isolation: machine`), "isolation machine"},
		"the version that runs": {nil, both(version("a.example"),
			rule(`{id: x, effect: deny, digests: ["V1"]}`)), "org/x"},
		"the version that ran is older": {nil, version("a.example"), ""},
		"the new version has less":      {[]string{"a.example"}, version("b.example"), "which does not name a.example"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSlowWorld(t, &openGuard{})
			check(t, sandbox("a.example")(w.world, nil))
			v1 := w.tool("o", "slow", func(d *haft.Draft) { d.Settings.Network = c.network })
			id := w.begin("slow")
			check(t, c.change(w.world, v1))
			if c.why == "" {
				w.reviewed()
				close(w.end)
				want(t, w.world.end(admin("o"), id), haft.StatusSuccess)
				return
			}
			res := w.world.end(admin("o"), id)
			want(t, res, haft.StatusCancelled)
			if res.Error == nil || !strings.Contains(res.Error.Message, "withdrawn: ") ||
				!strings.Contains(res.Error.Message, c.why) {
				t.Errorf("it says %+v, want %q", res.Error, c.why)
			}
		})
	}
}

// TestGranted_connections_follow_the_rules: a call that may run on is held to the rules
// of now at its next connection.
func TestGranted_connections_follow_the_rules(t *testing.T) {
	g := &openGuard{}
	w := newSlowWorld(t, g)
	w.tool("o", "slow", func(d *haft.Draft) { d.Settings.Network = []string{"a.example"} })
	id := w.begin("slow")
	if rule := g.forbids("login.example"); rule != "" {
		t.Errorf("%s forbids what no rule speaks of", rule)
	}
	text := "version: 1\nrules:\n  - {id: x, effect: limit, network: [a.example]}\n"
	check(t, second(w.PutPolicy(t.Context(), admin("o"), false, haft.PolicyText{Text: []byte(text)})))
	w.reviewed()
	if rule := g.forbids("login.example"); rule != "org/x" {
		t.Errorf("a connection is held against rules of before: %q", rule)
	}
	if rule := g.forbids("a.example"); rule != "" {
		t.Errorf("%s forbids a host that it names", rule)
	}
	close(w.end)
	want(t, w.world.end(admin("o"), id), haft.StatusSuccess)
}

// TestGrant_egress_bytes_are_those_of_the_limit: what a call may send and receive is what its limit says, lowered by
// the call, or that of the organisation.
func TestGrant_egress_bytes_are_those_of_the_limit(t *testing.T) {
	for name, c := range map[string]struct{ tool, call, org, want int64 }{
		"default": {0, 0, 0, haft.DefaultLimits().Network}, "tool": {5000, 0, 0, 5000}, "call": {5000, 400, 0, 400},
		"a call raises nothing": {5000, 9000, 0, 5000}, "organisation": {0, 0, 700, 700},
	} {
		t.Run(name, func(t *testing.T) {
			g := &openGuard{}
			w := newSlowWorld(t, g)
			close(w.end)
			check(t, second(w.PutSandboxConfig(t.Context(), admin("o"), haft.SandboxConfig{Type: haft.SandboxLocal,
				Network: []string{"a.example"}, Limits: haft.Limits{Network: c.org}})))
			w.tool("o", "slow", func(d *haft.Draft) { d.Settings.Limits.Network = c.tool })
			res, err := w.Call(t.Context(), haft.Call{Tool: "slow", Args: json.RawMessage(`{}`),
				Principal: user("o", "ann"), Limits: haft.Limits{Network: c.call}})
			check(t, err)
			want(t, res, haft.StatusSuccess)
			if g.way.Bytes != c.want {
				t.Errorf("%d bytes, want %d", g.way.Bytes, c.want)
			}
		})
	}
}
