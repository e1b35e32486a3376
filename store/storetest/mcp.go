package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/store"
)

func mcpServers(t testing.TB, s *store.Store) {
	ctx := t.Context()
	want := haft.MCPServer{
		Org: "acme", Name: "files", Transport: haft.MCPStdio, Command: []string{"npx", "-y", "server"}, Env: map[string]string{"A": ""},
		Mounts: []haft.MCPMount{{Dir: "/srv", Writable: true}}, OAuth: &haft.MCPOAuth{Scopes: []string{"read"}},
		State: haft.MCPState{Listed: at, Tools: 2, Invalid: []haft.MCPProblem{{Tool: "x", Reasons: []string{"no type"}}}},
	}
	kept, err := s.PutMCPServer(ctx, want)
	if err != nil || kept.ID == "" {
		t.Fatalf("PutMCPServer = %+v, %v", kept, err)
	}
	want.ID, want.Created, want.Updated = kept.ID, kept.Created, kept.Updated
	for _, ref := range []string{"files", kept.ID} {
		got, err := s.MCPServer(ctx, "acme", ref)
		if err != nil {
			t.Fatalf("MCPServer(%s): %v", ref, err)
		}
		same(t, "MCPServer", *got, want)
	}
	again, err := s.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: "files", Disabled: true, Created: at.Add(time.Hour)})
	if err != nil || again.ID != kept.ID || !again.Created.Equal(kept.Created) || !again.Disabled {
		t.Errorf("PutMCPServer again = %+v, %v", again, err)
	}
	set, err := s.SetMCPServer(ctx, "acme", kept.ID, func(m *haft.MCPServer) error {
		m.State.Tools, m.Name, m.ID, m.Org = 7, "other", "mcp_x", "other"
		return nil
	})
	if err != nil || set.State.Tools != 7 || set.Name != "files" || set.ID != kept.ID || set.Org != "acme" {
		t.Errorf("SetMCPServer = %+v, %v", set, err)
	}
	boom := errors.New("boom")
	if _, err := s.SetMCPServer(ctx, "acme", kept.ID, func(m *haft.MCPServer) error { m.State.Tools = 8; return boom }); !errors.Is(err, boom) {
		t.Errorf("SetMCPServer that fails = %v", err)
	}
	if got, err := s.MCPServer(ctx, "acme", "files"); err != nil || got.State.Tools != 7 {
		t.Errorf("MCPServer after a change that failed = %+v, %v", got, err)
	}
	for _, name := range []string{"b", "a", "C"} {
		if _, err := s.PutMCPServer(ctx, haft.MCPServer{Org: "acme", Name: name}); err != nil {
			t.Fatalf("PutMCPServer: %v", err)
		}
	}
	list, err := s.MCPServers(ctx, "acme", "C", 2)
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" {
		t.Errorf("MCPServers = %+v, %v", list, err)
	}
	_, err = s.PutMCPServer(ctx, haft.MCPServer{Org: "other", Name: "files", ID: kept.ID})
	refused(t, "PutMCPServer with the id of another", err, haft.CodeConflict)
	_, err = s.MCPServer(ctx, "other", kept.ID)
	refused(t, "MCPServer of another", err, haft.CodeNotFound)
	_, err = s.SetMCPServer(ctx, "other", kept.ID, func(*haft.MCPServer) error { return nil })
	refused(t, "SetMCPServer of another", err, haft.CodeNotFound)
	refused(t, "RemoveMCPServer of another", s.RemoveMCPServer(ctx, "other", kept.ID), haft.CodeNotFound)
	if err := s.RemoveMCPServer(ctx, "acme", "files"); err != nil {
		t.Errorf("RemoveMCPServer: %v", err)
	}
	refused(t, "RemoveMCPServer again", s.RemoveMCPServer(ctx, "acme", "files"), haft.CodeNotFound)
	for _, m := range []haft.MCPServer{{Org: "acme"}, {Name: "x"}, {Org: "acme", Name: strings.Repeat("x", 1000)}, {Org: "acme", Name: "x", URL: strings.Repeat("x", store.MaxText)}} {
		_, err := s.PutMCPServer(ctx, m)
		refused(t, "PutMCPServer", err, haft.CodeInvalid)
	}
}
