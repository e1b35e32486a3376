package service_test

import (
	"path/filepath"
	"testing"

	"haft"
	"haft/internal/engine"
	"haft/internal/service"
	"haft/internal/workspace"
)

// An agent is in a rule by its name, and in a principal by its id or its name.
func TestWorkspaces_rules_that_name_an_agent(t *testing.T) {
	w := setup(t, allowAll+`
rules:
  - id: prod
    effect: deny
    agents: [researcher]
    workspaces: [prod]
`, engine.Config{})
	ctx := t.Context()
	spaces := workspace.New(w.store, workspace.Config{Dir: filepath.Join(t.TempDir(), "workspaces")})
	t.Cleanup(func() { check(t, spaces.Close()) })
	a := service.New(w.Engine, engine.Parts{Store: w.store, Registry: w.registry, Workspaces: spaces},
		service.Config{}).Workspaces
	ids := map[string]string{"nobody": "nobody", "": ""}
	for _, name := range []string{"researcher", "writer"} {
		agent, err := w.PutAgent(ctx, admin("acme"), haft.Agent{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = string(agent.ID)
	}
	for _, name := range []string{"prod", "test"} {
		_, err := a.AddWorkspace(ctx, user("acme", "ann"), haft.NewWorkspace{Name: name, Shared: true})
		check(t, err)
	}
	for name, denied := range map[string]bool{"researcher": true, "writer": false, "nobody": true, "": false} {
		for _, agent := range []string{name, ids[name]} {
			p := user("acme", "ann")
			p.Agent = agent
			_, list := a.WorkspaceFiles(ctx, p, "prod", "")
			_, diff := a.DiffWorkspaces(ctx, p, "test", "prod")
			put := a.PutWorkspaceFile(ctx, p, "prod", haft.CallFile{Path: "f", Data: []byte("x")})
			restore := a.RestoreWorkspace(ctx, p, "test", "prod")
			_, fork := a.AddWorkspace(ctx, p, haft.NewWorkspace{Name: "fork", From: "prod"})
			for what, err := range map[string]error{"list": list, "diff": diff, "put": put, "restore": restore,
				"fork": fork} {
				if denied != (haft.CodeOf(err) == haft.CodeDenied) || !denied && err != nil {
					t.Errorf("%s as %q: %v", what, agent, err)
				}
			}
			if fork == nil {
				check(t, a.RemoveWorkspace(ctx, p, "fork"))
			}
			check(t, a.RemoveWorkspace(ctx, admin("acme"), "test"))
			_, err := a.AddWorkspace(ctx, user("acme", "ann"), haft.NewWorkspace{Name: "test", Shared: true})
			check(t, err)
		}
	}
}

// Whoever gives an agent a workspace may do with it what the agent then does for others.
func TestPutAgent_gives_only_workspaces_that_one_may_use(t *testing.T) {
	w, ctx := setup(t, allowAll, engine.Config{}), t.Context()
	as := func(actions ...haft.Action) haft.Principal {
		p := admin("acme")
		p.Actions = append(actions, haft.AgentsWrite, haft.AgentsRead)
		return p
	}
	none, reads, writes := as(), as(haft.WorkspacesRead), as(haft.WorkspacesWrite)
	for _, step := range []struct {
		who     haft.Principal
		ref     string
		refused bool
	}{
		{none, "", false}, {none, "desk", true}, {none, "desk:ro", true}, {reads, "desk", true},
		{reads, "desk:ro", false}, {none, "desk:ro", false}, {none, "desk", true}, {reads, "desk", true},
		{writes, "desk", false}, {reads, "other:ro", false}, {none, "desk:ro", true}, {none, "", false},
	} {
		_, err := w.PutAgent(ctx, step.who, haft.Agent{Name: "helper", Workspace: step.ref})
		if (haft.CodeOf(err) == haft.CodeDenied) != step.refused || err != nil && !step.refused {
			t.Errorf("%v gives %q: %v", step.who.Actions, step.ref, err)
		}
	}
}
