package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/secret/keeper"
	"haft/internal/store"
)

func sandboxConfigs(t testing.TB, s *store.Store) {
	ctx := t.Context()
	want := haft.SandboxConfig{
		Org: "acme", Type: haft.SandboxGVisor, Description: "ours", Limits: haft.Limits{Memory: 1 << 20},
		Network: []string{"a.test"},
		Needs:   haft.Requirements{Pip: []string{"numpy==2.1"}}, Created: at, Updated: at, If: haft.IfNone,
	}
	kept, err := s.Sandboxes.PutSandboxConfig(ctx, want)
	if err != nil || kept.ID == "" || kept.If != "" {
		t.Fatalf("PutSandboxConfig = %+v, %v", kept, err)
	}
	want.ID, want.If = kept.ID, ""
	for _, ref := range []string{"gvisor", string(kept.ID)} {
		if got, err := s.Sandboxes.SandboxConfig(ctx, "acme", ref); err != nil || !cmp.Equal(*got, want) {
			t.Errorf("SandboxConfig(%q): %v\n%s", ref, err, cmp.Diff(want, got))
		}
		_, err := s.Sandboxes.SandboxConfig(ctx, "other", ref)
		refused(t, "SandboxConfig of a stranger", err, haft.CodeNotFound)
	}
	_, err = s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: haft.SandboxGVisor,
		If: haft.IfNone})
	refused(t, "PutSandboxConfig over another", err, haft.CodeConflict)
	_, err = s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: haft.SandboxLocal, If: "1"})
	refused(t, "PutSandboxConfig over none", err, haft.CodeConflict)
	_, err = s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: "moon"})
	refused(t, "PutSandboxConfig of no type", err, haft.CodeInvalid)
	again, err := s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: haft.SandboxGVisor,
		Updated: at,
		If:      kept.Revision()})
	if err != nil || again.ID != kept.ID || !again.Created.Equal(at) || again.Revision() == kept.Revision() {
		t.Errorf("PutSandboxConfig again = %+v, %v", again, err)
	}
	if _, err := s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: haft.SandboxE2B}); err != nil {
		t.Error(err)
	}
	list, err := s.Sandboxes.SandboxConfigs(ctx, "acme")
	if err != nil || len(list) != 2 || list[0].Type != haft.SandboxE2B {
		t.Errorf("SandboxConfigs = %+v, %v", list, err)
	}
	if list, err := s.Sandboxes.SandboxConfigs(ctx, "other"); err != nil || len(list) != 0 {
		t.Errorf("SandboxConfigs of a stranger = %+v, %v", list, err)
	}
	refused(t, "RemoveSandboxConfig of a stranger", s.Sandboxes.RemoveSandboxConfig(ctx, "other", kept.ID, ""),
		haft.CodeNotFound)
	if err := s.Sandboxes.RemoveSandboxConfig(ctx, "acme", kept.ID, ""); err != nil {
		t.Error(err)
	}
	refused(t, "RemoveSandboxConfig again", s.Sandboxes.RemoveSandboxConfig(ctx, "acme", kept.ID, ""),
		haft.CodeNotFound)
}

// gone makes a conflict of what is not there any more: somebody else won.
func gone(err error) error {
	if haft.CodeOf(err) == haft.CodeNotFound {
		return &haft.Error{Code: haft.CodeConflict, Message: "it is gone", Err: err}
	}
	return err
}

// agentEnv: an agent and its secrets are written at once, or neither is.
func agentEnv(t testing.TB, s *store.Store) {
	ctx := t.Context()
	value := func(name, data string, rev int64) keeper.Row {
		return keeper.Row{Scope: keeper.Scope{Org: "acme", Kind: "agent", ID: "ag_1"}, Name: name,
			Data: []byte(data), Created: at, Updated: at, Rev: rev}
	}
	put := func(a haft.Agent, env store.OwnSecrets) error {
		a.ID, a.Org, a.Name, env.Kind = "ag_1", "acme", "helper", "agent"
		_, err := s.Agents.PutAgentEnv(ctx, a, env)
		return err
	}
	expect := func(what string, tools int, want map[string]string) {
		t.Helper()
		a, err := s.Agents.Agent(ctx, "acme", "helper")
		if err != nil || len(a.Tools) != tools {
			t.Errorf("%s: the agent is %+v, %v", what, a, err)
		}
		list, err := s.Secrets.Secrets(ctx, &keeper.Scope{Org: "acme", Kind: "agent", ID: "ag_1"}, keeper.Row{}, 0)
		got := map[string]string{}
		for _, v := range list {
			got[v.Name] = string(v.Data)
		}
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: the secrets are %v, %v, want %v", what, got, err, want)
		}
	}
	neighbour := value("A", "theirs", 0)
	neighbour.Scope.ID = "ag_2"
	if err := errors.Join(s.Secrets.PutSecret(ctx, neighbour),
		put(haft.Agent{If: haft.IfNone},
			store.OwnSecrets{Put: []keeper.Row{value("A", "a1", 0), value("B", "b1", 0)}})); err != nil {
		t.Fatal(err)
	}
	expect("put", 0, map[string]string{"A": "a1", "B": "b1"})
	mark, err := s.Secrets.SecretMark(ctx, "acme")
	if err != nil {
		t.Fatal(err)
	}
	refused(t, "an old revision of the agent", put(haft.Agent{Tools: []string{"x"}, If: "other"},
		store.OwnSecrets{Put: []keeper.Row{value("A", "a2", 1)}}), haft.CodeConflict)
	err = put(haft.Agent{Tools: []string{"x"}},
		store.OwnSecrets{Put: []keeper.Row{value("C", "c1", 0), value("A", "a2", 7)}})
	if refused(t, "an old revision of a secret", err, haft.CodeConflict); !errors.Is(err, store.ErrSecretChanged) {
		t.Errorf("%v does not say that a secret changed", err)
	}
	refused(t, "a secret of somebody else", put(haft.Agent{}, store.OwnSecrets{Put: []keeper.Row{neighbour}}),
		haft.CodeInvalid)
	_, err = s.Agents.PutAgentEnv(ctx, haft.Agent{ID: "ag_2", Org: "acme", Name: "helper"},
		store.OwnSecrets{Kind: "agent"})
	refused(t, "another id", err, haft.CodeConflict)
	expect("after conflicts", 0, map[string]string{"A": "a1", "B": "b1"})
	if now, err := s.Secrets.SecretMark(ctx, "acme"); err != nil || now != mark {
		t.Errorf("the mark went from %d to %d for nothing, %v", mark, now, err)
	}
	if err := put(haft.Agent{Tools: []string{"x"}},
		store.OwnSecrets{Put: []keeper.Row{value("A", "a2", 1)}, Keep: []string{"none"}}); err != nil {
		t.Fatal(err)
	}
	expect("replaced", 1, map[string]string{"A": "a2"})
	if now, err := s.Secrets.SecretMark(ctx, "acme"); err != nil || now == mark {
		t.Errorf("the mark is still %d, %v", now, err)
	}
	v, err := s.Secrets.Secret(ctx, keeper.Scope{Org: "acme", Kind: "agent", ID: "ag_2"}, "A")
	if err != nil || string(v.Data) != "theirs" {
		t.Errorf("the secret of a neighbour is %q, %v", v.Data, err)
	}
}

// conditions: of many who write over the same revision one does.
func conditions(t testing.TB, s *store.Store) {
	ctx := t.Context()
	agent, err := s.Agents.PutAgent(ctx, haft.Agent{Org: "acme", Name: "helper", If: haft.IfNone})
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: haft.SandboxLocal})
	if err != nil {
		t.Fatal(err)
	}
	tool, _, _, err := s.Tools.PutTool(ctx, haft.Tool{Org: "acme", Name: "add",
		Version: haft.Version{Kind: haft.KindPython, Digest: "sha256:1"}}, store.PutOptions{Activate: true})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := s.Policies.PutPolicy(ctx, "acme", haft.PolicyText{Text: []byte("old")}, "ann")
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(i int) error{
		"agent": func(i int) error {
			_, err := s.Agents.PutAgent(ctx, haft.Agent{Org: "acme", Name: "helper", Tools: []string{count("t", i)},
				If: agent.Revision()})
			return err
		},
		"configuration": func(int) error {
			_, err := s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: haft.SandboxLocal,
				If: config.Revision()})
			return err
		},
		"tool": func(i int) error {
			_, err := s.Tools.SetTool(ctx, "acme", tool.ID, tool.Revision(),
				func(t *haft.Tool) error { t.Tags = []string{count("t", i)}; return nil })
			return err
		},
		"new agent": func(int) error {
			_, err := s.Agents.PutAgent(ctx, haft.Agent{Org: "acme", Name: "fresh", If: haft.IfNone})
			return err
		},
		"policy": func(i int) error {
			_, err := s.Policies.PutPolicy(ctx, "acme", haft.PolicyText{Text: []byte(count("p", i)),
				If: policy.Revision()},
				"ann")
			return err
		},
		"new policy": func(i int) error {
			_, err := s.Policies.PutPolicy(ctx, "", haft.PolicyText{Text: []byte(count("p", i)), If: haft.IfNone},
				"ann")
			return err
		},
	} {
		oneWins(t, name, write)
	}
	_, err = s.Tools.SetReview(ctx, "acme", tool.ID, tool.Revision(), 1, haft.Review{State: haft.ReviewPassed}, false)
	refused(t, "SetReview on an old revision", err, haft.CodeConflict)
	_, _, _, err = s.Tools.PutTool(ctx, haft.Tool{Org: "acme", Name: "add",
		Version: haft.Version{Kind: haft.KindPython, Digest: "sha256:2"}}, store.PutOptions{IfDigest: tool.Revision()})
	refused(t, "PutTool on an old revision", err, haft.CodeConflict)
}

// oneWins: of many who write over the same revision one does.
func oneWins(t testing.TB, name string, write func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = write(i) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	if won != 1 {
		t.Errorf("%s: %d of %d wrote over the same revision, want 1", name, won, len(errs))
	}
}

// removals: what is removed on condition is of that revision, and by one.
func removals(t testing.TB, s *store.Store) {
	ctx := t.Context()
	doomed, _, _, err := s.Tools.PutTool(ctx, haft.Tool{Org: "acme", Name: "doomed",
		Version: haft.Version{Kind: haft.KindPython, Digest: "sha256:1"}}, store.PutOptions{Activate: true})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := s.Agents.PutAgent(ctx, haft.Agent{Org: "acme", Name: "doomed"})
	if err != nil {
		t.Fatal(err)
	}
	hook, err := s.Webhooks.AddWebhook(ctx, haft.Webhook{ID: "wh_doomed", Org: "acme", URL: "https://a.test"}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.Sandboxes.PutSandboxConfig(ctx, haft.SandboxConfig{Org: "acme", Type: haft.SandboxE2B})
	if err != nil {
		t.Fatal(err)
	}
	server, err := s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: "files"}, store.OwnSecrets{})
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: "doomed"}, store.OwnSecrets{})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, "RemoveWebhook of another revision", s.Webhooks.RemoveWebhook(ctx, "acme", hook.ID, "other"),
		haft.CodeConflict)
	refused(t, "RemoveSandboxConfig of another revision", s.Sandboxes.RemoveSandboxConfig(ctx, "acme", old.ID, "other"),
		haft.CodeConflict)
	refused(t, "RemoveTool of another revision", s.Tools.RemoveTool(ctx, "acme", doomed.ID, "other"), haft.CodeConflict)
	refused(t, "RemoveAgent of another revision", s.Agents.RemoveAgent(ctx, "acme", "doomed", "other"),
		haft.CodeConflict)
	for name, write := range map[string]func(i int) error{
		"server": func(i int) error {
			_, err := s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: "files", URL: count("u", i),
				If: server.Revision()}, store.OwnSecrets{})
			return err
		},
		"new server": func(int) error {
			_, err := s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: "fresh", If: haft.IfNone},
				store.OwnSecrets{})
			return err
		},
		"server to remove": func(int) error {
			return gone(s.MCPServers.RemoveMCPServer(ctx, "acme", left.ID, left.Revision(), store.ServerParts{}))
		},
		"webhook to remove": func(int) error {
			return gone(s.Webhooks.RemoveWebhook(ctx, "acme", hook.ID,
				hook.Revision()))
		},
		"configuration to remove": func(int) error {
			return gone(s.Sandboxes.RemoveSandboxConfig(ctx, "acme", old.ID, old.Revision()))
		},
		"tool to remove": func(int) error {
			return gone(s.Tools.RemoveTool(ctx, "acme", doomed.ID,
				doomed.Revision()))
		},
		"agent to remove": func(int) error {
			return gone(s.Agents.RemoveAgent(ctx, "acme", "doomed",
				lost.Revision()))
		},
	} {
		oneWins(t, name, write)
	}
}

func usage(t testing.TB, s *store.Store) {
	ctx := t.Context()
	var b store.Batch
	for i := range 100 {
		r := record("acme", count("c", i), haft.StatusSuccess)
		r.ToolID, r.Ended = "tool_1", at.Add(time.Duration(i%2)*24*time.Hour)
		r.Result = &haft.Result{Tool: "add", Value: json.RawMessage(`"12"`),
			Usage: haft.Usage{Wall: haft.Millis(time.Second), CPU: haft.Millis(time.Millisecond), Stdout: 3,
				Stderr: 3, MaxRSS: int64(i % 7), Network: haft.Millis(2 * time.Millisecond)},
			Cached: i%4 == 0}
		if i%10 == 0 {
			r.Status = haft.StatusTimeout
		}
		if i == 98 {
			r.Result.Usage.CPU = 0 // unknown
		}
		if i == 99 {
			r.ToolID, r.Call.Tool, r.Result.Tool = "", "made up", "made up"
		}
		b.Records = append(b.Records, r)
	}
	b.Records = append(b.Records, record("acme", "open", haft.StatusRunning), record("other", "x", haft.StatusSuccess))
	commit(t, s, b)
	b.Again = true // somebody who does not know that it is kept
	if stale, ok := errors.AsType[*store.Stale](s.Commit(ctx, b)); !ok || len(stale.Kept) != 101 ||
		len(stale.Calls) > 0 {
		t.Errorf("Commit again: %+v", stale)
	}
	ask := func(q haft.UsageQuery) []haft.UsageSum {
		q.From, q.Until = at.Add(-time.Hour), at.Add(48*time.Hour)
		list, err := s.Calls.Usage(ctx, "acme", q)
		if err != nil {
			t.Fatalf("Usage(%+v): %v", q, err)
		}
		return list
	}
	all := haft.UsageSum{Calls: 100, ByStatus: map[haft.Status]int64{haft.StatusSuccess: 90, haft.StatusTimeout: 10},
		Cached: 25,
		Wall:   haft.Millis(100 * time.Second), CPU: haft.Millis(99 * time.Millisecond), Output: 1000,
		MaxRSS: 6, Network: haft.Millis(200 * time.Millisecond)}
	if got := ask(haft.UsageQuery{}); !cmp.Equal(got, []haft.UsageSum{all}) {
		t.Errorf("Usage: %s", cmp.Diff([]haft.UsageSum{all}, got))
	}
	day := at.Truncate(24 * time.Hour)
	var days []time.Time
	for _, sum := range ask(haft.UsageQuery{By: []haft.UsageBy{haft.ByDay, haft.ByUser, haft.ByAgent}}) {
		if days = append(days, sum.Start); sum.Calls != 50 || sum.User != "ann" || sum.Agent != "x" || sum.Tool != "" ||
			sum.MaxRSS != 6 {
			t.Errorf("Usage by day: %+v", sum)
		}
	}
	if want := []time.Time{day, day.Add(24 * time.Hour)}; !slices.EqualFunc(days, want, time.Time.Equal) {
		t.Errorf("Usage by day: %v, want %v", days, want)
	}
	if got := ask(haft.UsageQuery{By: []haft.UsageBy{haft.ByTool}}); len(got) != 2 || got[0].Tool != "add" ||
		got[0].Calls != 99 || got[1].Tool != "" {
		t.Errorf("Usage by tool: %+v", got)
	}
	if got := ask(haft.UsageQuery{By: []haft.UsageBy{haft.ByMonth}, Tool: "add"}); len(got) != 1 ||
		got[0].Start.Day() != 1 || got[0].Calls != 99 {
		t.Errorf("Usage of a month: %+v", got)
	}
	if got := ask(haft.UsageQuery{User: "nobody"}); len(got) != 0 {
		t.Errorf("Usage of nobody: %+v", got)
	}
	if got := ask(haft.UsageQuery{By: []haft.UsageBy{haft.ByHour}, Limit: 1}); len(got) != 1 {
		t.Errorf("Usage with a limit: %+v", got)
	}
}
