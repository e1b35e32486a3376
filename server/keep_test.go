package server_test

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/internal/callenv"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/server"
)

// vault keeps variables in memory.
type vault struct {
	mu     sync.Mutex
	values map[string]secret.Value
}

func (v *vault) Stored(context.Context, string, haft.AgentID) (*callenv.Stored, error) {
	return &callenv.Stored{}, nil
}

func (v *vault) List(_ context.Context, org string, agent haft.AgentID) (list []secret.Info, _ error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for at := range v.values {
		if name, ok := strings.CutPrefix(at, org+"/"+string(agent)+"/"); ok {
			list = append(list, secret.Info{Name: name, Fingerprint: "0", Created: time.Now(),
				Updated: time.Now()})
		}
	}
	return list, nil
}

func (v *vault) Put(_ context.Context, org string, agent haft.AgentID, name string, value secret.Value,
	_ *secret.Binding) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[org+"/"+string(agent)+"/"+name] = value
	return nil
}

func (v *vault) PutEnv(_ context.Context, org string, agent haft.AgentID, env map[string]secret.Value,
	write func(store.OwnSecrets) error) error {
	if err := write(store.OwnSecrets{Kind: "agent"}); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	prefix := org + "/" + string(agent) + "/"
	for at := range v.values {
		if name, ok := strings.CutPrefix(at, prefix); ok {
			if _, ok := env[name]; !ok {
				delete(v.values, at)
			}
		}
	}
	for name, value := range env {
		if !value.IsZero() {
			v.values[prefix+name] = value
		}
	}
	return nil
}

func (v *vault) Remove(_ context.Context, org string, agent haft.AgentID, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := org + "/" + string(agent) + "/" + name
	if _, ok := v.values[at]; !ok {
		return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such variable"}
	}
	delete(v.values, at)
	return nil
}

// keyring keeps keys for whoever the tests say they are.
type keyring struct{ *auth.Keyring }

func (k keyring) Key(ctx context.Context, by server.Identity, id string) (auth.Key, error) {
	return k.Keyring.Key(ctx, auth.Trusted(by.Principal), id)
}

func (k keyring) Keys(ctx context.Context, by server.Identity, after string) iter.Seq2[auth.Key, error] {
	return k.Keyring.Keys(ctx, auth.Trusted(by.Principal), after)
}

func (k keyring) IssueKey(ctx context.Context, by server.Identity, key auth.Key) (auth.Key, string, error) {
	made, token, err := k.Issue(ctx, auth.Trusted(by.Principal), key)
	return made, token.Reveal(), err
}

func (k keyring) RotateKey(ctx context.Context, by server.Identity, id string,
	overlap time.Duration) (auth.Key, string, error) {
	made, token, err := k.Rotate(ctx, auth.Trusted(by.Principal), id, overlap)
	return made, token.Reveal(), err
}

func (k keyring) SetKey(ctx context.Context, by server.Identity, id string, s auth.KeyState) (auth.Key, error) {
	return k.Set(ctx, auth.Trusted(by.Principal), id, s)
}

func (k keyring) RemoveKey(ctx context.Context, by server.Identity, id string) error {
	return k.Remove(ctx, auth.Trusted(by.Principal), id)
}

func TestConditions(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	w.must(201, admin, "POST", "/v1/agents", `{"name":"smith"}`)
	w.must(201, admin, "POST", "/v1/sandbox_configs", `{"type":"local"}`)
	w.must(201, admin, "POST", "/v1/webhooks", `{"url":"https://example.com/"}`)
	hook := w.must(200, admin, "GET", "/v1/webhooks", "")
	var hooks struct{ Data []haft.Webhook }
	hook.into(t, &hooks)
	for path, write := range map[string][2]string{
		"/v1/tools/f":                              {"PATCH", `{"category":"c"}`},
		"/v1/agents/smith":                         {"PUT", `{}`},
		"/v1/sandbox_configs/local":                {"PUT", `{"description":"d"}`},
		"/v1/webhooks/" + string(hooks.Data[0].ID): {"PUT", `{"url":"https://example.com/2"}`},
		"/v1/policies/organisation":                {"PUT", "version: 1\n"},
	} {
		ok := http.StatusOK
		if path == "/v1/policies/organisation" {
			ok = http.StatusNoContent
			w.must(412, admin, "PUT", path, write[1], "If-Match", `"x"`)
			w.must(ok, admin, "PUT", path, write[1], "If-None-Match", "*")
		}
		tag := w.must(200, admin, "GET", path, "").header.Get("ETag")
		if tag == "" {
			t.Errorf("%s has no ETag", path)
		}
		a := w.ask(admin, write[0], path, write[1], "If-Match", `"other", `+tag)
		if a.status != ok || a.header.Get("ETag") == tag || a.header.Get("ETag") == "" {
			t.Errorf("%s over what is there: %d %s", path, a.status, a.body)
		}
		if a := w.ask(admin, write[0], path, write[1], "If-Match", tag); a.status != http.StatusPreconditionFailed ||
			problemOf(t, a).Code != haft.CodeConflict {
			t.Errorf("%s over what is not there any more: %d %s", path, a.status, a.body)
		}
		if a := w.ask(admin, write[0], path, write[1], "If-Match", "*"); a.status != ok {
			t.Errorf("%s over anything: %d %s", path, a.status, a.body)
		}
		if write[0] == "PUT" {
			if a := w.ask(admin, write[0], path, write[1], "If-None-Match",
				"*"); a.status != http.StatusPreconditionFailed {
				t.Errorf("%s over nothing: %d %s", path, a.status, a.body)
			}
		}
	}
	if a := w.ask(admin, "PUT", "/v1/sandbox_configs/gvisor", `{}`, "If-Match",
		`"x"`); a.status != http.StatusPreconditionFailed {
		t.Errorf("a configuration that is not there: %d", a.status)
	}
	if a := w.ask(admin, "PUT", "/v1/sandbox_configs/gvisor", `{}`, "If-None-Match",
		"*"); a.status != http.StatusCreated {
		t.Errorf("a new configuration: %d %s", a.status, a.body)
	}
}

// A removal on condition removes what the condition is about, or nothing.
func TestConditions_of_removals(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	w.must(201, admin, "POST", "/v1/agents", `{"name":"smith"}`)
	w.must(201, admin, "POST", "/v1/sandbox_configs", `{"type":"local"}`)
	for path, change := range map[string][2]string{
		"/v1/tools/f":               {"PATCH", `{"category":"c"}`},
		"/v1/agents/smith":          {"PATCH", `{"disabled":true}`},
		"/v1/sandbox_configs/local": {"PUT", `{"description":"d"}`},
		w.must(201, admin, "POST", "/v1/webhooks", `{"url":"https://example.com/"}`).header.Get("Location"): {"PUT",
			`{"url":"https://example.com/2"}`},
	} {
		tag := w.must(200, admin, "GET", path, "").header.Get("ETag")
		now := w.must(200, admin, change[0], path, change[1]).header.Get("ETag")
		for _, old := range []string{tag, `"x"`, `""`} {
			w.must(412, admin, "DELETE", path, "", "If-Match", old)
		}
		w.must(204, admin, "DELETE", path, "", "If-Match", `"x", `+now)
		w.must(404, admin, "DELETE", path, "", "If-Match", now)
	}
}

// A write of an agent whose condition does not hold changes none of its variables.
func TestConditions_cover_the_variables_of_agents(t *testing.T) {
	w := setup(t, nil)
	first := w.must(201, admin, "POST", "/v1/agents", `{"name":"smith","env":{"A":"one"}}`).header.Get("ETag")
	w.must(200, admin, "PATCH", "/v1/agents/smith", `{"env":{"B":"two"}}`, "If-Match", first)
	for _, method := range []string{"PUT", "PATCH"} {
		w.must(412, admin, method, "/v1/agents/smith", `{"env":{"C":"three"}}`, "If-Match", first)
	}
	w.must(409, admin, "PUT", "/v1/agents/smith", `{"env":{"C":"three"},"if_revision":"`+strings.Trim(first, `"`)+`"}`)
	var a haft.Agent
	w.must(200, admin, "GET", "/v1/agents/smith", "").into(t, &a)
	if names := slices.Sorted(maps.Keys(a.Env)); !slices.Equal(names, []string{"A", "B"}) {
		t.Errorf("the agent has %v", names)
	}
}

func TestSandboxConfigs_are_limits_of_tools_that_name_none(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	w.tool("own", `,"settings":{"limits":{"wall_ms":5000}}`)
	w.must(201, admin, "POST", "/v1/sandbox_configs",
		`{"type":"local","limits":{"wall_ms":1234,"memory_bytes":1048576}}`)
	for tool, wall := range map[string]time.Duration{"f": 1234 * time.Millisecond, "own": 5 * time.Second} {
		w.call(user, `{"tool":"`+tool+`"}`)
		if got := w.limits(tool); got.Wall.D() != wall || got.Memory != 1<<20 {
			t.Errorf("%s runs with %+v, want %v and 1 MiB", tool, got, wall)
		}
	}
	w.must(204, admin, "DELETE", "/v1/sandbox_configs/local", "")
	w.call(user, `{"tool":"f"}`)
	if got := w.limits("f"); got.Wall != haft.DefaultLimits().Wall {
		t.Errorf("without a configuration it runs with %+v", got)
	}
	a := w.ask(admin, "POST", "/v1/sandbox_configs",
		`{"type":"local","limits":{"wall_ms":-1},"network":["ftp://x"],"requirements":{"pip":["-r x"]}}`)
	if p := problemOf(t, a); a.status != 422 || len(p.Misfits) != 3 {
		t.Errorf("a configuration that cannot be: %d %s", a.status, a.body)
	}
}

func TestUsage_counts_calls(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	for range 3 {
		w.call(user, `{"tool":"f"}`)
	}
	var got struct{ Data []haft.UsageSum }
	w.must(200, admin, "GET", "/v1/usage?by=tool,day", "").into(t, &got)
	if len(got.Data) != 1 || got.Data[0].Tool != "f" || got.Data[0].Calls != 3 ||
		got.Data[0].ByStatus[haft.StatusSuccess] != 3 {
		t.Errorf("usage: %+v", got.Data)
	}
	w.must(200, stranger, "GET", "/v1/usage", "").into(t, &got)
	if len(got.Data) != 0 {
		t.Errorf("usage of a stranger: %+v", got.Data)
	}
}
