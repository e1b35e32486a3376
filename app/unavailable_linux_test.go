package app_test

import (
	"strings"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/modelapi"
	"haft/internal/secret"
)

// Without a key, web_search is listed with what to set, and no model is offered it; a key of the organisation or of an
// agent makes it available to those who have it.
func TestWebSearch_is_unavailable_without_a_key(t *testing.T) {
	for _, name := range []string{"HAFT_SEARCH_PROVIDER", "HAFT_SEARCH_URL", "HAFT_SEARCH_KEY"} {
		t.Setenv(name, "")
	}
	m := openMarket(t, nil, app.ServiceConfig{})
	ctx := t.Context()
	agent, err := m.PutAgent(ctx, root(), haft.Agent{Name: "helper", Tools: []string{"web_search", "fetch_webpage"}})
	must(t, err)
	helper := root()
	helper.Agent = string(agent.ID)
	check := func(p haft.Principal, available bool) {
		t.Helper()
		for _, f := range []haft.ToolFilter{{}, {Search: "web search"}} {
			var all []haft.Tool
			for tool, err := range m.Tools(ctx, p, f) {
				must(t, err)
				if tool.Unavailable != "" && tool.Name != "web_search" {
					t.Errorf("%s is unavailable: %s", tool.Name, tool.Unavailable)
				}
				all = append(all, tool)
			}
			list, err := modelapi.Tools("openai", all, false)
			must(t, err)
			if offered := strings.Contains(string(list.Tools), `"web_search"`); offered != available {
				t.Errorf("a model of %q is offered it: %v", p.Agent, offered)
			}
		}
		one, err := m.Tool(ctx, p, "web_search")
		must(t, err)
		if (one.Unavailable == "") != available || !available && !strings.Contains(one.Unavailable, "EXA_API_KEY") {
			t.Errorf("for %q it is unavailable because of %q", p.Agent, one.Unavailable)
		}
	}
	check(root(), false)
	check(helper, false)
	must(t, m.PutSecret(ctx, root(), "helper", "EXA_API_KEY", secret.New("exa-key-of-the-agent")))
	check(root(), false)
	check(helper, true)
	m.bind("", "BRAVE_API_KEY", brokered, secret.Binding{Header: "X-Subscription-Token"})
	check(root(), true)
}

// A built-in tool is compiled when it is first called: all of them can be.
func TestService_builtin_tools_compile(t *testing.T) {
	s, n := openService(t, t.TempDir()), 0
	for tool, err := range s.Registry.Tools(t.Context(), root(), haft.ToolFilter{}) {
		must(t, err)
		if _, err := s.Registry.Resolve(t.Context(), root().Org, tool.Name, tool.Version.Digest); err != nil {
			t.Errorf("%s: %v", tool.Name, err)
		}
		n++
	}
	if n < 10 {
		t.Errorf("there are %d built-in tools", n)
	}
}
