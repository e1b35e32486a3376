package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"haft"
	"haft/app"
	"haft/internal/auth"
	"haft/policy"
)

// An authority is a server with agents, tools of two versions and people, for the
// property that what is explained is what happens.
type authority struct {
	t      *testing.T
	s      *app.Server
	url    string
	keys   map[string]string
	agents map[string]haft.AgentID
	letta  map[string]string
	// old and now are the digests of the versions of each tool.
	old, now map[string]string
}

// newAuthority opens one.
func newAuthority(t *testing.T) *authority {
	open(t, app.Config{})
	s, url, stop := startServerWith(t,
		app.ServerConfig{ServiceConfig: app.ServiceConfig{Policy: []byte("version: 1\nmcp: []\n")}})
	t.Cleanup(stop)
	w := &authority{t: t, s: s, url: url, keys: map[string]string{}, agents: map[string]haft.AgentID{},
		letta: map[string]string{},
		old:   map[string]string{}, now: map[string]string{}}
	for _, name := range []string{"wipe", "guard"} {
		w.old[name] = w.version(name, "1", haft.Settings{})
	}
	w.now["wipe"] = w.version("wipe", "2", haft.Settings{})
	w.now["guard"] = w.version("guard", "2", haft.Settings{RequiresApproval: true, Roles: []string{"user", "admin"}})
	for _, name := range []string{"bot", "helper"} {
		a := haft.Agent{Name: name, Tools: []string{"wipe", "guard", "run_code_with_tools"}}
		if name == "helper" {
			a.Rules = []haft.ToolRule{{Type: haft.RuleApproval, Tool: "wipe"}}
		}
		put, err := s.PutAgent(t.Context(), root(), a)
		if err != nil {
			t.Fatal(err)
		}
		w.agents[name] = put.ID
		var listed []struct{ ID string }
		_, body := w.post("GET", w.key(root()), "/letta/v1/agents/?name="+name, nil)
		if err := json.Unmarshal(body, &listed); err != nil || len(listed) != 1 {
			t.Fatalf("the agents of Letta: %s", body)
		}
		w.letta[name] = listed[0].ID
	}
	return w
}

// version adds a version of a tool and returns its digest.
func (w *authority) version(name, value string, settings haft.Settings) string {
	w.t.Helper()
	settings.Parallel = true
	c, err := w.s.PutTool(w.t.Context(), root(), haft.Draft{Name: name, Kind: haft.KindPython, Function: name,
		Settings: settings,
		Source: "def " + name + "(x: int) -> int:\n    \"\"\"Work.\n\n    Args:\n        x: One.\n    \"\"\"\n    " +
			"return " + value + "\n"})
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Tool.Version.Digest
}

// key returns a key for somebody.
func (w *authority) key(p haft.Principal) string {
	w.t.Helper()
	id := fmt.Sprint(p)
	if w.keys[id] == "" {
		by := haft.Principal{Org: p.Org, User: "test", Roles: []string{haft.RoleAdmin}}
		_, token, err := w.s.Auth.Keyring.Issue(w.t.Context(), auth.Trusted(by),
			auth.Key{Name: "test", User: p.User, Agent: p.Agent, Roles: p.Roles})
		if err != nil {
			w.t.Fatal(err)
		}
		w.keys[id] = token.Reveal()
	}
	return w.keys[id]
}

// post sends a request and returns the answer.
func (w *authority) post(method, key, path string, body any, headers ...string) (int, []byte) {
	w.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, text
}

// A subject is what a rule of the test looks at.
type subject struct {
	user, role, agent, tool string // by name
	version, x              int
}

// A choice is a part of a rule, as it is written and as it is meant. It knows nothing
// of package policy: what it says is what a reader of the rule expects.
type choice struct {
	text  string
	holds func(subject) bool
}

// A drawnRule is a rule of the test.
type drawnRule struct {
	effect string
	parts  []choice
	pin    bool
	named  int  // the version whose digest it has; 0 if none
	broken bool // it cannot be evaluated, and denies
}

// draw draws a rule.
func (w *authority) draw(t *rapid.T) drawnRule {
	r := drawnRule{effect: rapid.SampledFrom([]string{"allow", "deny", "deny", "ask"}).Draw(t, "effect")}
	some := func(field string, all ...choice) {
		if rapid.IntRange(0, 2).Draw(t, field) == 0 {
			c := all[rapid.IntRange(0, len(all)-1).Draw(t, field+" which")]
			r.parts = append(r.parts, choice{fmt.Sprintf("%s: [%q]", field, c.text), c.holds})
		}
	}
	tool := func(name string) func(subject) bool { return func(s subject) bool { return s.tool == name } }
	agent := func(name string) func(subject) bool { return func(s subject) bool { return s.agent == name } }
	always := func(subject) bool { return true }
	bot := string(w.agents["bot"])
	some("tools", choice{"tool:wipe", tool("wipe")}, choice{"tool:guard", tool("guard")}, choice{"tool:*", always})
	some("agents", choice{"bot", agent("bot")}, choice{"helper", agent("helper")}, choice{bot, agent("bot")},
		choice{"b*", agent("bot")},
		choice{"*", func(s subject) bool { return s.agent != "" }}, choice{"a*", agent("a")})
	some("users", choice{"ann", func(s subject) bool { return s.user == "ann" }},
		choice{"bob", func(s subject) bool { return s.user == "bob" }})
	some("roles", choice{"user", func(s subject) bool { return s.role == "user" }},
		choice{"admin", func(s subject) bool { return s.role == "admin" }})
	if rapid.IntRange(0, 3).Draw(t, "digests") == 0 {
		name := rapid.SampledFrom([]string{"wipe", "guard"}).Draw(t, "digest of")
		r.named = rapid.IntRange(1, 2).Draw(t, "digest")
		digest := w.old[name]
		if r.named == 2 {
			digest = w.now[name]
		}
		r.parts = append(r.parts, choice{fmt.Sprintf("digests: [%q]", digest),
			func(s subject) bool { return s.tool == name && s.version == r.named }})
	}
	if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
		all := []choice{
			{`principal.agent == "bot"`, agent("bot")},
			{`principal.agent != "bot"`, func(s subject) bool { return s.agent != "bot" }},
			{`principal.agent == "` + bot + `"`, agent("bot")}, {`principal.agent_id == "` + bot + `"`, agent("bot")},
			{`principal.agent_name == "helper"`, agent("helper")},
			{`tool.version == 1`, func(s subject) bool { return s.version == 1 }},
			{`has(args.x) && args.x > 3`, func(s subject) bool { return s.x > 3 }}, {`args.y == 1`, always},
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, "when")
		r.parts = append(r.parts, choice{fmt.Sprintf("when: %q", all[i].text), all[i].holds})
		r.broken = i == len(all)-1
	}
	r.pin = r.effect == "allow" && rapid.Bool().Draw(t, "pin")
	return r
}

// matches says whether a reader expects the rule to concern a subject.
func (r drawnRule) matches(s subject) bool {
	for _, p := range r.parts {
		if !p.holds(s) {
			return false
		}
	}
	return true
}

// rules draws a policy, as it is written and as it is meant.
func (w *authority) rules(t *rapid.T, label string) (string, []drawnRule) {
	var all []drawnRule
	if rapid.IntRange(0, 9).Draw(t, "open") > 0 {
		all = append(all, drawnRule{effect: "allow"})
	}
	for range rapid.IntRange(0, 4).Draw(t, label) {
		all = append(all, w.draw(t))
	}
	text := "version: 1\nrules: [\n"
	for i, r := range all {
		text += fmt.Sprintf("  {id: r%d, effect: %s", i, r.effect)
		for _, p := range r.parts {
			text += ", " + p.text
		}
		if r.pin {
			text += ", pin: true"
		}
		text += "},\n"
	}
	return text + "]\n", all
}

// meant is what a reader of the rules expects: nothing is allowed that no rule allows,
// a deny wins, an ask makes it wait, and a version that is not the current one is held
// to the rules of both and must be one that the caller may choose.
func meant(rules []drawnRule, s subject) policy.Effect {
	var deny, ask, mayPin, named bool
	allow := map[int]bool{}
	for _, version := range []int{s.version, 2} {
		v := s
		v.version = version
		for _, r := range rules {
			if !r.matches(v) {
				continue
			}
			deny = deny || r.broken || r.effect == "deny"
			ask = ask || r.effect == "ask"
			if r.effect == "allow" {
				allow[version] = true
				if version == s.version {
					mayPin, named = mayPin || r.pin || r.named == version, named || r.named == version
				}
			}
		}
	}
	ask = ask || s.tool == "guard" || s.tool == "wipe" && s.agent == "helper"
	switch {
	case deny || !allow[s.version] || s.version == 1 && (!mayPin || !allow[2] && !named):
		return policy.Deny
	case ask:
		return policy.NeedsApproval
	}
	return policy.Allow
}

// put makes a policy that of the organisation.
func (w *authority) put(t *rapid.T, rules string) {
	if _, err := w.s.PutPolicy(w.t.Context(), root(), false, haft.PolicyText{Text: []byte(rules)}); err != nil {
		t.Fatalf("%v:\n%s", err, rules)
	}
}

// A way is an entry point by which a call comes in.
type way struct {
	name string
	// pins says that a version can be named.
	pins bool
	// agent says that it is only for calls of an agent.
	agent bool
	call  func(w *authority, p haft.Principal, as string, c haft.Call)
}

// codeMode is the way by which code makes the call that a model wrote.
const codeMode = "code mode"

// inCode is a call of code that makes a call.
func inCode(c haft.Call) haft.Call {
	code := "import json\ntry:\n    " + c.Tool + "(**json.loads('" + string(c.Args) +
		"'))\nexcept ToolError as e:\n    print(e)\n"
	raw, err := json.Marshal(map[string]string{"language": "python", "code": code})
	if err != nil {
		panic(err) // of two texts: cannot be
	}
	return haft.Call{Tool: "run_code_with_tools", Args: raw}
}

// ways lists the entry points. In each, as is the name of the agent that an
// administrator acts as, or "" where the key is the agent's own or there is none.
func ways() []way {
	type fields = map[string]any
	body := func(as string, c haft.Call) fields {
		b := fields{"tool": c.Tool, "args": c.Args}
		if as != "" {
			b["agent"] = as
		}
		if c.Digest != "" {
			b["digest"] = c.Digest
		}
		return b
	}
	acting := func(as string) string {
		if as == "" {
			return ""
		}
		return "?agent=" + as
	}
	return []way{
		{"command line", true, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			if c.Principal = p; as != "" {
				c.Principal.Agent = as // by its name
			}
			_, _ = w.s.Call(w.t.Context(), c) // the record says what became of it
		}},
		{"http", true, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			w.post("POST", w.key(p), "/v1/calls", body(as, c))
		}},
		{"background", true, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			b := body(as, c)
			b["wait"] = false
			w.post("POST", w.key(p), "/v1/calls", b)
		}},
		{"batch", true, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			w.post("POST", w.key(p), "/v1/calls/batch", fields{"calls": []any{body(as, c)}})
		}},
		{"chain", false, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			b := fields{"steps": []any{fields{"id": "a", "tool": c.Tool, "args": c.Args}}}
			if as != "" {
				b["agent"] = as
			}
			w.post("POST", w.key(p), "/v1/chains", b)
		}},
		{"tool_calls", false, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			call := fields{"id": "x", "type": "function",
				"function": fields{"name": c.Tool, "arguments": string(c.Args)}}
			w.post("POST", w.key(p), "/v1/tool_calls"+acting(as),
				fields{"id": "r", "object": "chat.completion", "choices": []any{
					fields{"index": 0, "finish_reason": "tool_calls",
						"message": fields{"role": "assistant", "tool_calls": []any{call}}}}})
		}},
		{"letta", false, true, func(w *authority, p haft.Principal, as string, c haft.Call) {
			name := as
			for agent, id := range w.agents {
				if p.Agent == string(id) {
					name = agent
				}
			}
			w.post("POST", w.key(p), "/letta/v1/agents/"+w.letta[name]+"/tools/"+c.Tool+"/run", fields{"args": c.Args})
		}},
		{"mcp", false, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			const at = "2026-07-28"
			w.post("POST", w.key(p), "/mcp"+acting(as),
				fields{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": fields{
					"name": c.Tool, "arguments": c.Args, "_meta": fields{"io.modelcontextprotocol/protocolVersion": at,
						"io.modelcontextprotocol/clientInfo":         fields{"name": "test", "version": "1"},
						"io.modelcontextprotocol/clientCapabilities": fields{}}}},
				"MCP-Protocol-Version", at, "Mcp-Method", "tools/call", "Mcp-Name", c.Tool)
		}},
		{codeMode, false, false, func(w *authority, p haft.Principal, as string, c haft.Call) {
			w.post("POST", w.key(p), "/v1/calls", body(as, inCode(c)))
		}},
	}
}

// last returns the newest record of a tool, or nil.
func (w *authority) last(tool string) *haft.Record {
	w.t.Helper()
	for r, err := range w.s.Records(w.t.Context(), root(), haft.CallFilter{Tool: tool, Limit: 1}) {
		if err != nil {
			w.t.Fatal(err)
		}
		return &r
	}
	return nil
}

// happened makes a call by one way and says what was decided about it.
func (w *authority) happened(t *rapid.T, by way, p haft.Principal, as string,
	c haft.Call) (policy.Effect, *haft.Record) {
	before := w.last(c.Tool)
	by.call(w, p, as, c)
	r := w.last(c.Tool)
	if r == nil || before != nil && before.Call.ID == r.Call.ID {
		t.Fatalf("%s: nothing is recorded", by.name)
	}
	res, err := w.s.Wait(w.t.Context(), root(), r.Call.ID)
	if err != nil {
		t.Fatalf("%s: %v", by.name, err)
	}
	r = w.last(c.Tool) // as it is now
	switch res.Status {
	case haft.StatusSuccess:
		return policy.Allow, r
	case haft.StatusPending:
		return policy.NeedsApproval, r
	case haft.StatusDenied:
		return policy.Deny, r
	}
	t.Fatalf("%s: the call is %s: %+v", by.name, res.Status, res.Error)
	return "", nil
}

// explained asks what would be decided, by the engine and over HTTP.
func (w *authority) explained(t *rapid.T, p haft.Principal, as string, c haft.Call) policy.Decision {
	c.Principal = p
	if as != "" {
		c.Principal.Agent = as
	}
	d, err := w.s.Explain(w.t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	b := map[string]any{"tool": c.Tool, "args": c.Args}
	if as != "" {
		b["agent"] = as
	}
	if c.Digest != "" {
		b["digest"] = c.Digest
	}
	key := w.key(p)
	if p.Roles[0] != haft.RoleAdmin || p.Agent != "" { // who has to ask an administrator
		key, b["user"], b["roles"] = w.key(root()), p.User, p.Roles
		if p.Agent != "" {
			b["agent"] = p.Agent
		}
	}
	var over policy.Decision
	_, text := w.post("POST", key, "/v1/policies/explain", b)
	if err := json.Unmarshal(text, &over); err != nil || over.Effect != d.Effect || over.Rule != d.Rule {
		t.Fatalf("explained over HTTP: %s, and by the engine: %s", text, d)
	}
	return d
}

// What rules mean is what is explained, and that is what happens, for every policy, principal and entry point, and
// also to a call that goes on after somebody agreed to it.
func TestAuthority_explained_is_enforced(t *testing.T) {
	w := newAuthority(t)
	rapid.Check(t, func(t *rapid.T) {
		text, rules := w.rules(t, "rules")
		w.put(t, text)
		p := haft.Principal{Org: "local", User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"),
			Roles: []string{rapid.SampledFrom([]string{"user", "admin", "admin"}).Draw(t, "role")}}
		agent, as := rapid.SampledFrom([]string{"", "bot", "bot", "helper"}).Draw(t, "agent"), ""
		switch {
		case agent == "":
		case p.Roles[0] == "admin" && rapid.Bool().Draw(t, "acts as it"):
			as = rapid.SampledFrom([]string{agent, string(w.agents[agent])}).Draw(t, "named")
		default:
			p.Agent = string(w.agents[agent])
		}
		tool := rapid.SampledFrom([]string{"wipe", "guard"}).Draw(t, "tool")
		x := rapid.IntRange(0, 9).Draw(t, "x")
		c := haft.Call{Tool: tool, Args: json.RawMessage(fmt.Sprintf(`{"x":%d}`, x)),
			Digest: rapid.SampledFrom([]string{"", "", w.old[tool], w.now[tool]}).Draw(t, "version")}
		s := subject{user: p.User, role: p.Roles[0], agent: agent, tool: tool, version: 2, x: x}
		if c.Digest == w.old[tool] {
			s.version = 1
		}
		want := w.explained(t, p, as, c)
		if effect := meant(rules, s); effect != want.Effect {
			t.Fatalf("%s is meant for %+v, and %s is explained: %s\n%s", effect, s, want.Effect, want, text)
		}
		for range 3 {
			by := rapid.SampledFrom(ways()).Draw(t, "way")
			if by.agent && agent == "" || !by.pins && c.Digest != "" {
				continue
			}
			if by.name == codeMode && w.explained(t, p, as, inCode(c)).Effect != policy.Allow {
				continue // the code itself may not run
			}
			if by.name == "letta" && as != "" {
				as = agent
			}
			got, r := w.happened(t, by, p, as, c)
			if got != want.Effect {
				t.Fatalf("by %s: %s happens, and %s is explained: %s", by.name, got, want.Effect, want)
			}
			if r.Call.Principal.Agent != string(w.agents[agent]) {
				t.Fatalf("by %s: the record has the agent %q", by.name, r.Call.Principal.Agent)
			}
			if got == policy.NeedsApproval {
				w.resumed(t, r, p, as, c)
				return // the rules are others now
			}
		}
	})
}

// resumed has somebody agree to a call that waits, by other rules.
func (w *authority) resumed(t *rapid.T, r *haft.Record, p haft.Principal, as string, c haft.Call) {
	text, _ := w.rules(t, "later")
	w.put(t, text)
	want := w.explained(t, p, as, c)
	boss := haft.Principal{Org: "local", User: "boss", Roles: []string{haft.RoleApprover}}
	_, err := w.s.Decide(w.t.Context(), boss, r.Result.Approval, haft.Answer{Approve: true})
	// A call that the new rules deny may have ended before anybody could agree to it.
	refused := haft.CodeOf(err) == haft.CodeDenied || haft.CodeOf(err) == haft.CodeConflict
	if (want.Effect == policy.Deny) != refused || want.Effect != policy.Deny && err != nil {
		t.Fatalf("agreeing: %v, and %s is explained: %s", err, want.Effect, want)
	}
	if err != nil {
		return
	}
	for {
		res, err := w.s.Wait(w.t.Context(), root(), r.Call.ID)
		if err != nil {
			t.Fatal(err)
		}
		if res.Status.Final() {
			if res.Status != haft.StatusSuccess {
				t.Fatalf("after somebody agreed the call is %s: %+v, and %s is explained", res.Status, res.Error,
					want.Effect)
			}
			return
		}
	}
}
