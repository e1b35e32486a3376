package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/internal/engine"
	"haft/internal/orgconfig"
	"haft/internal/store"
)

// Everything that changes the effect of a call is shown to who agrees to it, and a
// change while it waits is not agreed to.
func TestApproval_terms(t *testing.T) {
	ann := user("o", "ann")
	const value = "https://evil.example/hunter2"
	for _, c := range []struct {
		name   string
		change func(*testing.T, *world)
		code   haft.Code
	}{
		{name: "nothing", change: func(*testing.T, *world) {}},
		{name: "the agent's environment", code: haft.CodeConflict, change: func(t *testing.T, w *world) {
			_, err := w.PutAgent(t.Context(), admin("o"),
				haft.Agent{Name: "bot", Tools: []string{"delete"}, Env: map[string]string{"RATE": "high"}})
			check(t, err)
		}},
		{name: "a new variable of the agent", code: haft.CodeConflict, change: func(t *testing.T, w *world) {
			_, err := w.PutAgent(t.Context(), admin("o"),
				haft.Agent{Name: "bot", Tools: []string{"delete"}, Env: map[string]string{"RATE": "low", "MORE": "x"}})
			check(t, err)
		}},
		{name: "the network of the organisation", code: haft.CodeConflict, change: func(t *testing.T, w *world) {
			_, err := w.PutSandboxConfig(t.Context(), admin("o"),
				haft.SandboxConfig{Type: haft.SandboxLocal, Network: []string{"evil.example"}})
			check(t, err)
		}},
		{name: "the packages of the organisation", code: haft.CodeConflict, change: func(t *testing.T, w *world) {
			_, err := w.PutSandboxConfig(t.Context(), admin("o"),
				haft.SandboxConfig{Type: haft.SandboxLocal, Needs: haft.Requirements{Pip: []string{"evil==1"}}})
			check(t, err)
		}},
		{name: "the limits of the organisation", code: haft.CodeConflict, change: func(t *testing.T, w *world) {
			_, err := w.PutSandboxConfig(t.Context(), admin("o"),
				haft.SandboxConfig{Type: haft.SandboxLocal, Limits: haft.Limits{Memory: 1 << 30}})
			check(t, err)
		}},
		{name: "the network of policy", code: haft.CodeConflict, change: func(t *testing.T, w *world) {
			_, err := w.PutPolicy(t.Context(), admin("o"), false,
				haft.PolicyText{Text: []byte("version: 1\nrules: [{id: n, effect: limit, network: [\"*\"]}]\n")})
			check(t, err)
		}},
		{name: "a new version", change: func(_ *testing.T, w *world) {
			w.tool("o", "delete", func(d *haft.Draft) { d.Source = "def delete(): everything()" })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, askFirst, engine.Config{})
			w.tool("o", "delete", nil)
			a, err := w.PutAgent(t.Context(), admin("o"),
				haft.Agent{Name: "bot", Tools: []string{"delete"},
					Env: map[string]string{"RATE": "low", "BANK": "ours"}})
			if err != nil {
				t.Fatal(err)
			}
			p := ann
			p.Agent = string(a.ID)
			res := w.do(haft.Call{Tool: "delete", Principal: p, Args: json.RawMessage(`{"path":"/tmp/x"}`),
				Env: map[string]string{"BANK": value}})
			want(t, res, haft.StatusPending)
			asked, err := w.Approval(t.Context(), approver("o"), res.Approval)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(asked)
			if err != nil || strings.Contains(string(raw), value) {
				t.Errorf("the request holds a value: %s, %v", raw, err)
			}
			if !strings.Contains(string(raw),
				`{"name":"BANK","origin":"call","replaces":"agent"},{"name":"RATE","origin":"agent"}`) ||
				asked.Terms.Agent != string(a.ID) {
				t.Errorf("the request does not show the environment: %s", raw)
			}
			c.change(t, w)
			for _, args := range []string{`{"path":"/tmp/y"}`, ""} {
				if args != "" && c.code == "" {
					continue
				}
				if _, err := w.Decide(t.Context(), approver("o"), res.Approval,
					haft.Answer{Approve: true, Args: json.RawMessage(args)}); haft.CodeOf(err) != c.code {
					t.Fatalf("Decide with %q: %v, want %q", args, err, c.code)
				}
			}
			if c.code == "" {
				want(t, w.end(p, res.Call), haft.StatusSuccess)
			} else if w.script.count() != 0 {
				t.Error("it ran")
			}
		})
	}
}

// Who says auto is not told auto by the request where the code may leave this machine.
func TestApproval_terms_show_where_code_goes(t *testing.T) {
	places := []orgconfig.Place{{Type: haft.SandboxE2B, Remote: true}, {Type: haft.SandboxLocal}}
	for allowed, shown := range map[bool]string{true: "e2b", false: "auto"} {
		w := setup(t, askFirst, engine.Config{Sandboxes: places})
		w.tool("o", "delete", nil)
		_, err := w.PutSandboxConfig(t.Context(), admin("o"),
			haft.SandboxConfig{Type: haft.SandboxE2B, AllowRemote: allowed})
		check(t, err)
		res := w.do(haft.Call{Tool: "delete", Principal: user("o", "ann"), Sandbox: "auto",
			Args: json.RawMessage(`{"path":"/tmp/x"}`)})
		want(t, res, haft.StatusPending)
		asked, err := w.Approval(t.Context(), approver("o"), res.Approval)
		check(t, err)
		if asked.Terms.Sandbox != shown {
			t.Errorf("with leave %v: the request shows %q, want %q", allowed, asked.Terms.Sandbox, shown)
		}
	}
}

// A request of before there were terms can still be answered, if the call brings
// nothing that was not shown then.
func TestApproval_of_an_older_haft(t *testing.T) {
	for _, c := range []struct {
		name string
		call haft.Call
		code haft.Code
	}{
		{"plain", haft.Call{}, ""},
		{"an environment", haft.Call{Env: map[string]string{"BANK": "https://evil.example"}}, haft.CodeConflict},
		{"a sandbox", haft.Call{Sandbox: "process"}, haft.CodeConflict},
		{"limits", haft.Call{Limits: haft.Limits{Memory: 1 << 30}}, haft.CodeConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := setup(t, askFirst,
				engine.Config{Sandboxes: orgconfig.Places(haft.SandboxLocal, haft.SandboxProcess)})
			tool := w.tool("o", "delete", nil)
			c.call.Tool, c.call.Principal, c.call.Args = "delete", user("o", "ann"),
				json.RawMessage(`{"path":"/tmp/x"}`)
			res := w.do(c.call)
			a, err := w.Approval(t.Context(), approver("o"), res.Approval)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(tool.Version.Digest + "\x00" + `{"path":"/tmp/x"}`))
			a.Terms, a.Binds = nil, "sha256:"+hex.EncodeToString(sum[:])
			check(t, w.store.Commit(t.Context(), store.Batch{Approvals: []haft.Approval{*a}}))
			if _, err := w.Decide(t.Context(), approver("o"), a.ID,
				haft.Answer{Approve: true}); haft.CodeOf(err) != c.code {
				t.Fatalf("Decide: %v, want %q", err, c.code)
			}
			if c.code == "" {
				want(t, w.end(user("o", "ann"), res.Call), haft.StatusSuccess)
			}
		})
	}
}

// Somebody agreed, and before the call runs the rules name other approvers: the
// agreement does not count.
func TestApproval_by_somebody_who_may_no_longer(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", nil)
	res, a := w.pending(user("o", "ann"), "delete", `{"path":"/tmp/x"}`)
	boss := approver("o")
	a.State, a.Approver = haft.ApprovalApproved, &boss
	check(t, w.store.Commit(t.Context(), store.Batch{Approvals: []haft.Approval{a}})) // and then it crashed
	_, err := w.PutPolicy(t.Context(), admin("o"), false,
		haft.PolicyText{Text: []byte("version: 1\nrules: [{id: owner, effect: ask, approval: {users: [owner]}}]\n")})
	check(t, err)
	check(t, w.Engine.Close())
	again := open(t, w.store, askFirst, engine.Config{})
	want(t, again.end(user("o", "ann"), res.Call), haft.StatusRejected)
	if again.script.count() != 0 {
		t.Error("it ran")
	}
}
