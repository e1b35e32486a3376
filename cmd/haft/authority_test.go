package main

import (
	"bytes"
	goflag "flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"haft"
	"haft/app"
	"haft/compat/letta"
	"haft/internal/auth"
	"haft/internal/cli"
)

var update = goflag.Bool("update", false, "rewrite the table of docs/authority.md")

// An entryAnswer says what holds for a kind of entry point.
type entryAnswer struct {
	kind, what                                                  string
	principal, authorised, filtered, redacted, counted, audited string
}

// entryAnswers are the rows of the table, in order.
func entryAnswers() []entryAnswer {
	const (
		caller  = "the credential, as an agent if one is named"
		stages  = "`authority`: calls:write; then the stages `resolve` and `authorize` (policy)"
		output  = "stage `check`: filters of policy"
		leaves  = "`leave`: stored values, bindings and names that mean secrets"
		nothing = "—"
	)
	return []entryAnswer{
		{"call", "runs tools", caller, stages, output, leaves, "stage `limit`, and usage when it ends",
			"call.opened, call.closed or call.refused"},
		{"cancel", "ends calls", caller, "`authority`: calls:write on the call: who made it, or a manager", nothing,
			nothing, nothing, "call.closed"},
		{"history", "shows what was done", caller, "`authority`: own calls; managers and approvers those of all",
			"as it was when it was kept", "as it was when it was kept", nothing, nothing},
		{"session", "works in a session", caller, "`authority`: calls:*; only the owner of the session; then the " +
			"policy is asked about the call of `run_command` that does the same",
			"refused where the policy has filters", "as the results of its calls; one that has secrets has no ports",
			nothing, nothing},
		{"file", "keeps files", caller, "`authority`: files:* on the file: who added it, or a manager",
			"a call with files is refused where a filter of policy looks at what its tool is given", nothing,
			"the quota of the organisation", nothing},
		{"workspace", "keeps directories that outlive calls", caller,
			"`authority`: workspaces:* on the workspace: who added it, a manager, or everybody if it is shared; " +
				"also policy (`workspaces` of a rule)",
			"a call with a workspace is refused where a filter of policy looks at what its tool gets or gives", nothing,
			"the quotas of the workspace and of the organisation, changes in a minute",
			"workspace.add, workspace.put and the like"},
		{"approve", "asks and answers", "the credential; a person for an answer",
			"`authority`: approvals:*; then the rule that asks (`policy.MayApprove`)", "as it was when it was kept",
			"as it was when it was kept", nothing, "approval.requested, approval.decided"},
		{"find", "finds tools, agents, servers", caller, "`authority`: *:read; an agent sees its own tools", nothing,
			"values of variables are never shown", nothing, nothing},
		{"manage", "reads and changes what managers keep", "the credential, never an agent",
			"`authority`: the action and a role of managers", nothing,
			"values of secrets, keys and headers are never shown again", nothing,
			"what was done, by its kind, such as tool.put or key.create; refusals as request.refused"},
		{"login", "logs a person in at an MCP server", "the credential, never an agent",
			"`authority`: calls:write, a person", nothing, "tokens are never shown", nothing, "mcp_server.login"},
		{"operate", "concerns all organisations", "the credential, never an agent",
			"`authority`: the action and the organisation of operators; measures without a credential from this " +
				"machine only", nothing, nothing, nothing, "operator.stop, operator.resume, policy.put, secret.rotate"},
		{"self", "says who asks", caller, "every good credential; lists what `authority` grants", nothing, nothing,
			nothing, nothing},
		{"open", "tells nothing of anybody", "nobody", "everybody", nothing, nothing, nothing, nothing},
		{"protocol", "leads to the others", caller, "whoever gets in; each of its routes or methods asks for itself",
			nothing, nothing, nothing, "request.refused"},
		{"local", "works without kept state", "who runs the command", "the user of the system", nothing, nothing,
			nothing, nothing},
		{"background", "goes on without a request", "the principal that was kept with the call, chain or webhook",
			"the same stages again, with the rules of then; `authority` for what is listed", output, leaves,
			"as the call that it goes on with", "as the call that it goes on with"},
	}
}

// mcpMethods are what the type switch of the MCP server handles itself, by request,
// and what the library answers.
func mcpMethods(t *testing.T) []string {
	t.Helper()
	names := map[string]string{
		"ListToolsRequest": "tools/list", "CallToolRequest": "tools/call", "ListResourcesRequest": "resources/list",
		"ListResourceTemplatesRequest": "resources/templates/list", "ReadResourceRequest": "resources/read",
		"SetLoggingLevelParams": "logging/setLevel",
	}
	f, err := parser.ParseFile(token.NewFileSet(), "../../server/mcpserver/view.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"MCP initialize", "MCP ping"}
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.CaseClause)
		if !ok {
			return true
		}
		for _, e := range c.List {
			ast.Inspect(e, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name != "ServerRequest" {
					name := names[sel.Sel.Name]
					if name == "" {
						t.Errorf("the MCP server handles %s, whose method this test does not know", sel.Sel.Name)
					}
					list = append(list, "MCP "+name)
				}
				return true
			})
		}
		return true
	})
	if len(list) < 8 {
		t.Errorf("only %v was found in the MCP server", list)
	}
	return list
}

// waysIn lists every entry point.
func waysIn(t *testing.T, s *app.Server) []string {
	t.Helper()
	list := append(mcpMethods(t), "WebSocket /v1/events", "haft mcp") // which has commands below it
	for _, r := range s.HTTP.Routes() {
		list = append(list, r.Method+" "+r.Path)
	}
	list = append(list, s.HTTP.Patterns()...)
	for pattern := range letta.New(s.API, letta.Config{Sandboxes: s.SandboxManager,
		Servers: s.ServerManager}).Routes() {
		list = append(list, pattern)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.HasSubCommands() {
			list = append(list, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if !sub.Hidden { // it has another name too
				walk(sub)
			}
		}
	}
	walk(newRoot(cli.Streams{}, ""))
	return list
}

func openSystem(t *testing.T) *app.Server {
	t.Helper()
	s, err := app.OpenServer(t.Context(), app.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestAuthority_every_entry_point_has_an_answer holds docs/authority.md to what there
// is. Entries that begin with "background:" are of no list.
func TestAuthority_every_entry_point_has_an_answer(t *testing.T) {
	ways := waysIn(t, openSystem(t))
	of := map[string]string{}
	for kind, text := range entryPoints {
		for entry := range strings.Lines(text) {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			if of[entry] != "" {
				t.Errorf("%s is of two kinds", entry)
			}
			of[entry] = kind
			if !strings.HasPrefix(entry, "background:") && !slices.Contains(ways, entry) {
				t.Errorf("%s is gone: remove it from entryPoints", entry)
			}
		}
	}
	for _, entry := range ways {
		if of[entry] == "" {
			t.Errorf("%s has no answer to who the principal is, and where it is authorised, filtered, redacted, "+
				"counted and audited: add it to entryPoints", entry)
		}
	}
	var table bytes.Buffer
	var list bytes.Buffer
	table.WriteString("| kind | principal | authorised | filtered | redacted | counted | audited " +
		"|\n|---|---|---|---|---|---|---|\n")
	for _, a := range entryAnswers() {
		text, ok := entryPoints[a.kind]
		if !ok {
			t.Errorf("no entry point is of the kind %s", a.kind)
		}
		entries := slices.DeleteFunc(strings.Split(text, "\n"),
			func(s string) bool { return strings.TrimSpace(s) == "" })
		fmt.Fprintf(&list, "- **%s**: %s\n", a.kind, strings.Join(quoted(entries), ", "))
		fmt.Fprintf(&table, "| **%s** (%s) | %s | %s | %s | %s | %s | %s |\n", a.kind, a.what, a.principal,
			a.authorised, a.filtered, a.redacted, a.counted, a.audited)
	}
	for kind := range maps.Keys(entryPoints) {
		if !slices.ContainsFunc(entryAnswers(), func(a entryAnswer) bool { return a.kind == kind }) {
			t.Errorf("the kind %s has no answer", kind)
		}
	}
	holdPage(t, table.String()+"\n"+list.String())
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = "`" + s + "`"
	}
	return out
}

// holdPage compares the table with the one of the page, or writes it there.
func holdPage(t *testing.T, table string) {
	t.Helper()
	const page, begin, end = "../../docs/authority.md", "<!-- entry points -->\n", "<!-- /entry points -->"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	was, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for the table")
	}
	if was == table {
		return
	}
	if !*update {
		t.Fatal("the table of docs/authority.md is not what there is: go test ./cmd/haft -run TestAuthority -update")
	}
	if err := os.WriteFile(page, []byte(head+begin+table+end+tail), 0o644); err != nil { //nolint:gosec // a page of the documents
		t.Fatal(err)
	}
}

// TestAuthority_no_other_scope_opens_a_route: mallory has a key with the role of an
// administrator and every scope but the one that a route asks for. And the key of an
// agent manages nothing, whatever its roles.
func TestAuthority_no_other_scope_opens_a_route(t *testing.T) {
	s := openSystem(t)
	ctx := t.Context()
	by := auth.Trusted(haft.Principal{Org: "local", User: "root", Roles: []string{haft.RoleAdmin}})
	key := func(k auth.Key) string {
		_, token, err := s.Auth.Keyring.Issue(ctx, by, k)
		if err != nil {
			t.Fatal(err)
		}
		return token.Reveal()
	}
	roles := []string{haft.RoleAdmin, haft.RoleApprover}
	others := map[haft.Action]string{}
	for _, a := range haft.Actions() {
		scope := []string{}
		for _, other := range haft.Actions() {
			if other != a && other != haft.CallsWrite {
				scope = append(scope, string(other))
			}
		}
		if a != haft.CallsWrite {
			scope = append(scope, string(haft.CallsWrite), "tool:*")
		}
		others[a] = key(auth.Key{User: "mallory", Roles: roles, Scope: scope})
	}
	agent := key(auth.Key{User: "mallory", Agent: "ag_none", Roles: roles})
	routes := letta.New(s.API, letta.Config{Sandboxes: s.SandboxManager, Servers: s.ServerManager}).Routes()
	for _, r := range s.HTTP.Routes() {
		routes[r.Method+" "+r.Path] = r.Action
	}
	place := regexp.MustCompile(`\{[a-z]+\}`)
	for route, action := range routes {
		if action == "any" {
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		send := func(token string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, place.ReplaceAllString(path, "organisation"),
				strings.NewReader("{}"))
			r.Host = "localhost"
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.HTTP.Handler().ServeHTTP(w, r)
			return w
		}
		if w := send(others[action]); w.Code != http.StatusForbidden ||
			!strings.Contains(w.Body.String(), string(action)) {
			t.Errorf("%s with every scope but %s: %d %s", route, action, w.Code, w.Body)
		}
		if action.Managed() {
			if w := send(agent); w.Code != http.StatusForbidden {
				t.Errorf("%s by an agent: %d %s", route, w.Code, w.Body)
			}
		}
	}
}
