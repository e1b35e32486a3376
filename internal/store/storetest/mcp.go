package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/secret/keeper"
	"haft/internal/store"
)

func mcpServers(t testing.TB, s *store.Store) {
	ctx := t.Context()
	want := haft.MCPServer{
		Org: "acme", Name: "files", Transport: haft.MCPStdio, Command: []string{"npx", "-y", "server"},
		Env:    map[string]string{"A": ""},
		Mounts: []haft.MCPMount{{Dir: "/srv", Writable: true}}, OAuth: &haft.MCPOAuth{Scopes: []string{"read"}},
		State: haft.MCPState{Listed: at, Tools: 2,
			Invalid: []haft.MCPProblem{{Tool: "x", Reasons: []string{"no type"}}}},
	}
	kept, err := s.MCPServers.PutMCPServer(ctx, want, store.OwnSecrets{})
	if err != nil || kept.ID == "" {
		t.Fatalf("PutMCPServer = %+v, %v", kept, err)
	}
	want.ID, want.Created, want.Updated = kept.ID, kept.Created, kept.Updated
	for _, ref := range []string{"files", kept.ID} {
		got, err := s.MCPServers.MCPServer(ctx, "acme", ref)
		if err != nil {
			t.Fatalf("MCPServer(%s): %v", ref, err)
		}
		same(t, "MCPServer", *got, want)
	}
	again, err := s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: "files", Disabled: true,
		Created: at.Add(time.Hour)}, store.OwnSecrets{})
	if err != nil || again.ID != kept.ID || !again.Created.Equal(kept.Created) || !again.Disabled ||
		again.Revision() == kept.Revision() {
		t.Errorf("PutMCPServer again = %+v, %v", again, err)
	}
	set, err := s.MCPServers.SetMCPServer(ctx, "acme", kept.ID, func(m *haft.MCPServer) error {
		m.State.Tools, m.Name, m.ID, m.Org = 7, "other", "mcp_x", "other"
		return nil
	})
	if err != nil || set.State.Tools != 7 || set.Name != "files" || set.ID != kept.ID || set.Org != "acme" ||
		set.Revision() != again.Revision() {
		t.Errorf("SetMCPServer = %+v, %v", set, err)
	}
	boom := errors.New("boom")
	if _, err := s.MCPServers.SetMCPServer(ctx, "acme", kept.ID,
		func(m *haft.MCPServer) error { m.State.Tools = 8; return boom }); !errors.Is(err, boom) {
		t.Errorf("SetMCPServer that fails = %v", err)
	}
	if got, err := s.MCPServers.MCPServer(ctx, "acme", "files"); err != nil || got.State.Tools != 7 {
		t.Errorf("MCPServer after a change that failed = %+v, %v", got, err)
	}
	for _, name := range []string{"b", "a", "C"} {
		if _, err := s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: name},
			store.OwnSecrets{}); err != nil {
			t.Fatalf("PutMCPServer: %v", err)
		}
	}
	list, err := s.MCPServers.MCPServers(ctx, "acme", "C", 2)
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" {
		t.Errorf("MCPServers = %+v, %v", list, err)
	}
	_, err = s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "other", Name: "files", ID: kept.ID},
		store.OwnSecrets{})
	refused(t, "PutMCPServer with the id of another", err, haft.CodeConflict)
	_, err = s.MCPServers.MCPServer(ctx, "other", kept.ID)
	refused(t, "MCPServer of another", err, haft.CodeNotFound)
	_, err = s.MCPServers.SetMCPServer(ctx, "other", kept.ID, func(*haft.MCPServer) error { return nil })
	refused(t, "SetMCPServer of another", err, haft.CodeNotFound)
	refused(t, "RemoveMCPServer of another", s.MCPServers.RemoveMCPServer(ctx, "other", kept.ID, "",
		store.ServerParts{}),
		haft.CodeNotFound)
	if err := s.MCPServers.RemoveMCPServer(ctx, "acme", kept.ID, "", store.ServerParts{}); err != nil {
		t.Errorf("RemoveMCPServer: %v", err)
	}
	refused(t, "RemoveMCPServer again", s.MCPServers.RemoveMCPServer(ctx, "acme", kept.ID, "", store.ServerParts{}),
		haft.CodeNotFound)
	for _, m := range []haft.MCPServer{{Org: "acme"}, {Name: "x"}, {Org: "acme", Name: strings.Repeat("x", 1000)},
		{Org: "acme", Name: "x", URL: strings.Repeat("x", store.MaxText)}} {
		_, err := s.MCPServers.PutMCPServer(ctx, m, store.OwnSecrets{})
		refused(t, "PutMCPServer", err, haft.CodeInvalid)
	}
}

// mcpParts: a server is written with its secrets and removed with them and its tools,
// at once or not at all.
func mcpParts(t testing.TB, s *store.Store) {
	ctx := t.Context()
	value := func(kind, scope, data string, rev int64) keeper.Row {
		return keeper.Row{Scope: keeper.Scope{Org: "acme", Kind: keeper.Kind(kind), ID: scope}, Name: "VALUE",
			Data: []byte(data), Created: at, Updated: at, Rev: rev}
	}
	own := func(data string, rev int64) store.OwnSecrets {
		return store.OwnSecrets{Kind: "mcp", Put: []keeper.Row{value("mcp", "mcp_1", data, rev)}}
	}
	expect := func(what, data string) {
		t.Helper()
		v, err := s.Secrets.Secret(ctx, keeper.Scope{Org: "acme", Kind: "mcp", ID: "mcp_1"}, "VALUE")
		if err != nil || string(v.Data) != data {
			t.Errorf("%s: the secret is %q, %v, want %q", what, v.Data, err, data)
		}
	}
	m := haft.MCPServer{ID: "mcp_1", Org: "acme", Name: "files", If: haft.IfNone}
	kept, err := s.MCPServers.PutMCPServer(ctx, m, own("one", 0))
	if err != nil {
		t.Fatal(err)
	}
	expect("put", "one")
	_, err = s.MCPServers.PutMCPServer(ctx, m, own("two", 1))
	refused(t, "PutMCPServer over one that is there", err, haft.CodeConflict)
	m.If = "other"
	_, err = s.MCPServers.PutMCPServer(ctx, m, own("two", 1))
	refused(t, "PutMCPServer over another revision", err, haft.CodeConflict)
	m.If = kept.Revision()
	_, err = s.MCPServers.PutMCPServer(ctx, m, own("two", 7))
	if refused(t, "an old revision of the secret", err, haft.CodeConflict); !errors.Is(err, store.ErrSecretChanged) {
		t.Errorf("%v does not say that the secret changed", err)
	}
	_, err = s.MCPServers.PutMCPServer(ctx, haft.MCPServer{ID: "mcp_2", Org: "acme", Name: "files"},
		store.OwnSecrets{Kind: "mcp"})
	refused(t, "PutMCPServer with secrets and another id", err, haft.CodeConflict)
	_, err = s.MCPServers.PutMCPServer(ctx, haft.MCPServer{ID: "mcp_2", Org: "acme", Name: "more"}, own("two", 1))
	refused(t, "PutMCPServer with the secret of another", err, haft.CodeInvalid)
	expect("after conflicts", "one")
	if kept, err = s.MCPServers.PutMCPServer(ctx, m, own("two", 1)); err != nil || kept.If != "" {
		t.Fatalf("PutMCPServer = %+v, %v", kept, err)
	}
	expect("replaced", "two")
	tool, _, _, err := s.Tools.PutTool(ctx, haft.Tool{Org: "acme", Name: "files__read",
		Version: haft.Version{Kind: haft.KindMCP, Digest: "sha256:1"}}, store.PutOptions{Activate: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []keeper.Row{value("grant", "mcp_1/ann", "hers", 0),
		value("grant", "mcp_11/ann", "elsewhere", 0), value("other", "mcp_1", "of another kind", 0)} {
		if err := s.Secrets.PutSecret(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	parts := store.ServerParts{Tools: []haft.ToolID{tool.ID, "tool_gone"}, Kinds: []string{"mcp", "grant"}}
	refused(t, "RemoveMCPServer of another revision", s.MCPServers.RemoveMCPServer(ctx, "acme", "mcp_1", "other",
		parts),
		haft.CodeConflict)
	expect("not removed", "two")
	if _, err := s.Tools.Tool(ctx, "acme", "files__read"); err != nil {
		t.Errorf("a tool of a server that was not removed: %v", err)
	}
	if err := s.MCPServers.RemoveMCPServer(ctx, "acme", "mcp_1", kept.Revision(), parts); err != nil {
		t.Fatal(err)
	}
	_, err = s.MCPServers.MCPServer(ctx, "acme", "files")
	refused(t, "MCPServer that was removed", err, haft.CodeNotFound)
	_, err = s.Tools.Tool(ctx, "acme", "files__read")
	refused(t, "Tool of a server that was removed", err, haft.CodeNotFound)
	var left []string
	all, err := s.Secrets.Secrets(ctx, nil, keeper.Row{}, 0)
	for _, v := range all {
		left = append(left, string(v.Data))
	}
	if slices.Sort(left); err != nil || !slices.Equal(left, []string{"elsewhere", "of another kind"}) {
		t.Errorf("the secrets that are left are %q, %v", left, err)
	}
}
