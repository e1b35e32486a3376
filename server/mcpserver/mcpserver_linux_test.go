package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/app"
	"haft/executor/builtin"
	"haft/server/mcpserver"
)

// A guest is a client of the SDK and what it heard.
type guest struct {
	*mcp.ClientSession
	changed  chan struct{}
	progress chan float64
	logged   chan string
	answer   *mcp.ElicitResult
	mu       sync.Mutex
	asked    []string
}

// visit connects a client over HTTP. With an answer, it can be asked.
func visit(t *testing.T, url, key string, answer *mcp.ElicitResult) *guest {
	t.Helper()
	return visitAs(t, "", url, key, answer)
}

// visitAs is visit with a version of the protocol; "" means the newest.
func visitAs(t *testing.T, version, url, key string, answer *mcp.ElicitResult) *guest {
	t.Helper()
	g := &guest{changed: make(chan struct{}, 16), progress: make(chan float64, 16), logged: make(chan string, 16),
		answer: answer}
	opts := &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { g.changed <- struct{}{} },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			g.progress <- r.Params.Progress
		},
		LoggingMessageHandler: func(_ context.Context,
			r *mcp.LoggingMessageRequest) {
			g.logged <- fmt.Sprint(r.Params.Data)
		},
	}
	if answer != nil {
		opts.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.asked = append(g.asked, r.Params.Message)
			return g.answer, nil
		}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "guest", Version: "1"}, opts)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url,
		HTTPClient: &http.Client{Transport: keyed{key, http.DefaultTransport}}},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	g.ClientSession = s
	t.Cleanup(func() { _ = s.Close(); http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	return g
}

// keyed sends a key.
type keyed struct {
	key  string
	next http.RoundTripper
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return k.next.RoundTrip(r)
}

// people are who comes to these tests, by key.
var people = map[string]haft.Principal{
	"ann": operator,
	"bob": {Org: "other", User: "bob", Roles: []string{haft.RoleAdmin}},
}

// byKey knows people.
func byKey(_ http.ResponseWriter, r *http.Request) (mcpserver.Caller, error) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	p, ok := people[key]
	if !ok {
		return mcpserver.Caller{}, &haft.Error{Code: haft.CodeUnauthenticated, Message: "say who you are"}
	}
	return mcpserver.Caller{Principal: p, Person: p, Artifacts: true, Tags: r.URL.Query()["tag"]}, nil
}

// A system is a service with an API to it.
type system struct {
	*app.Service
	endpoint *mcpserver.Server
	url      string
	// stuck is closed by the tool stick when it runs, and freed when it was cancelled.
	stuck, freed chan struct{}
}

// build makes a system.
func build(t *testing.T, cfg mcpserver.Config) *system {
	t.Helper()
	h := &system{stuck: make(chan struct{}), freed: make(chan struct{})}
	type none struct{}
	sc := adding(func(s *builtin.Set) error {
		return errors.Join(fixtureTools(s),
			builtin.Add(s, builtin.Def{Name: "stick", Description: "Waits until it is cancelled."},
				func(ctx context.Context, _ builtin.Call, _ none) (any, error) {
					close(h.stuck)
					<-ctx.Done()
					close(h.freed)
					return nil, ctx.Err()
				}),
			builtin.Add(s, builtin.Def{Name: "wipe", Description: "Asks first."},
				func(context.Context, builtin.Call, none) (string, error) {
					return "wiped", nil
				}))
	})
	sc.Policy = []byte("version: 1\nrules:\n  - {id: all, effect: allow, tools: ['tool:*']}\n  - {id: ask, effect: " +
		"ask, tools: ['tool:wipe'], approval: {self: true}}\n")
	h.Service = openService(t, sc)
	h.endpoint = openEndpoint(t, h.Service, cfg)
	h.url = serveEndpoint(t, h.Service, h.endpoint, byKey)
	return h
}

// put adds a tool of Python.
func (h *system) put(t *testing.T, p haft.Principal, source string) {
	t.Helper()
	if _, err := h.PutTool(t.Context(), p, haft.Draft{Source: source, Kind: haft.KindPython}); err != nil {
		t.Fatal(err)
	}
	h.endpoint.Changed(p.Org)
}

const adder = "def add(a: int, b: int) -> int:\n    \"\"\"Add.\n\n    Args:\n        a: One.\n        b: The " +
	"other.\n    \"\"\"\n    return a + b\n"

func TestServer_lists_and_calls(t *testing.T) {
	h := build(t, mcpserver.Config{})
	h.put(t, operator, adder)
	g := visit(t, h.url, "ann", nil)
	names := map[string]*mcp.Tool{}
	for tool, err := range g.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names[tool.Name] = tool
	}
	if names["add"] == nil || names["run_code_with_tools"] == nil || names["haft/call"] != nil {
		t.Fatalf("tools = %v", names)
	}
	if d := names["run_code_with_tools"].Description; !strings.Contains(d,
		"def add(a: int, b: int) -> int: ...  # Add.") {
		t.Errorf("the description of code mode has no stub of add: %s", d)
	}
	res, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"a": 1, "b": 2}})
	if err != nil || res.IsError {
		t.Fatalf("add = %+v, %v", res, err)
	}
	if got, _ := json.Marshal(res.StructuredContent); string(got) != `{"result":3}` {
		t.Errorf("structured = %s", got)
	}
	res, err = g.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code_with_tools",
		Arguments: map[string]any{"language": "python", "code": "add(1, add(2, 3))"}})
	if err != nil || res.IsError || !strings.Contains(said(res), `"value":6`) {
		t.Errorf("code mode = %s, %v", said(res), err)
	}
	if _, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"}); err == nil {
		t.Error("a tool that is not there is no error of the protocol")
	}
	res, err = g.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_error_handling"})
	if err != nil || !res.IsError {
		t.Errorf("a tool that fails = %+v, %v, want a result with isError", res, err)
	}
}

// said is the text of a result.
func said(r *mcp.CallToolResult) string {
	var all []string
	if r == nil {
		return ""
	}
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}

func TestServer_notifies_those_concerned_of_changes(t *testing.T) {
	h := build(t, mcpserver.Config{})
	ann, bob := visit(t, h.url, "ann", nil), visit(t, h.url, "bob", nil)
	for _, g := range []*guest{ann, bob} {
		if _, err := g.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	h.put(t, operator, adder)
	<-ann.changed
	res, err := bob.CallTool(t.Context(), &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"a": 1, "b": 1}})
	if err == nil {
		t.Errorf("another tenant calls the tool: %s", said(res))
	}
	select {
	case <-bob.changed:
		t.Error("another tenant hears of it")
	default:
	}
}

func TestServer_progress_output_and_cancelling(t *testing.T) {
	h := build(t, mcpserver.Config{})
	g := visitAs(t, "2025-11-25", h.url, "ann", nil)
	if err := g.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	p := &mcp.CallToolParams{Name: "test_tool_with_progress"}
	p.SetProgressToken("token")
	if _, err := g.CallTool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []float64{0, 50, 100} {
		if got := <-g.progress; got != want {
			t.Errorf("progress = %v, want %v", got, want)
		}
	}
	if _, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_logging_tool"}); err != nil {
		t.Fatal(err)
	}
	// What may begin a secret is held back until more is known: it may come in two.
	const executed = "test_logging_tool executed"
	for got := ""; got != executed; {
		if got += <-g.logged; !strings.HasPrefix(executed, got) {
			t.Fatalf("logged = %q", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-h.stuck; cancel() }()
	if _, err := g.CallTool(ctx, &mcp.CallToolParams{Name: "stick"}); err == nil {
		t.Error("a cancelled request has a result")
	}
	<-h.freed // the call itself was cancelled
}

func TestServer_asks_the_person_at_the_client(t *testing.T) {
	for name, c := range map[string]struct {
		answer *mcp.ElicitResult
		want   string
		failed bool
	}{
		"who agrees": {&mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, "wiped",
			false},
		"who does not": {&mcp.ElicitResult{Action: "accept",
			Content: map[string]any{"approve": false, "reason": "no"}}, "a person refused the call", true},
		"who declines":        {&mcp.ElicitResult{Action: "decline"}, "a person refused the call", true},
		"who puts it off":     {&mcp.ElicitResult{Action: "cancel"}, "pending_approval", true},
		"who cannot be asked": {nil, "pending_approval", true},
	} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				h := build(t, mcpserver.Config{})
				g := visitAs(t, version, h.url, "ann", c.answer)
				res, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "wipe"})
				if err != nil || res.IsError != c.failed || !strings.Contains(said(res), c.want) {
					t.Errorf("wipe = %s, %v, want %s", said(res), err, c.want)
				}
				if c.answer != nil && len(g.asked) != 1 {
					t.Errorf("the person was asked %d times", len(g.asked))
				}
			})
		}
	}
}

func TestServer_many_tools_are_searched_for(t *testing.T) {
	h := build(t, mcpserver.Config{Lazy: 3})
	h.put(t, operator, adder)
	g := visit(t, h.url, "ann", nil)
	list, err := g.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 2 {
		t.Fatalf("list = %+v, %v", list, err)
	}
	res, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "find_tools",
		Arguments: map[string]any{"query": "add"}})
	if err != nil || !strings.Contains(said(res), `"name":"add"`) {
		t.Errorf("find_tools = %s, %v", said(res), err)
	}
	res, err = g.CallTool(t.Context(), &mcp.CallToolParams{Name: "find_tools"})
	if err != nil || !strings.Contains(said(res), `"tokens":`) {
		t.Errorf("find_tools without a query = %s, %v", said(res), err)
	}
	res, err = g.CallTool(t.Context(), &mcp.CallToolParams{Name: "call_tool",
		Arguments: map[string]any{"name": "add", "arguments": map[string]any{"a": 2, "b": 3}}})
	if err != nil || !strings.Contains(said(res), "5") {
		t.Errorf("call_tool = %s, %v", said(res), err)
	}
}

func TestServer_pages(t *testing.T) {
	h := build(t, mcpserver.Config{Page: 4, Lazy: -1})
	g := visit(t, h.url, "ann", nil)
	seen, pages, cursor := map[string]bool{}, 0, ""
	for {
		list, err := g.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
		if err != nil || len(list.Tools) > 4 {
			t.Fatalf("page = %d tools, %v", len(list.Tools), err)
		}
		for _, tool := range list.Tools {
			if seen[tool.Name] {
				t.Errorf("%s comes twice", tool.Name)
			}
			seen[tool.Name] = true
		}
		pages++
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if pages < 3 || !seen["stick"] || !seen["wipe"] {
		t.Errorf("%d pages have %v", pages, seen)
	}
	if _, err := g.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: "made up"}); err == nil {
		t.Error("a cursor that was made up is taken")
	}
}

func TestServer_artifacts_are_resources(t *testing.T) {
	h := build(t, mcpserver.Config{})
	ann, bob := visit(t, h.url, "ann", nil), visit(t, h.url, "bob", nil)
	res, err := ann.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code",
		Arguments: map[string]any{"language": "python", "code": "import os\nos.makedirs('out', " +
			"exist_ok=True)\nopen('out/a.txt','w').write('hello')"}})
	if err != nil {
		t.Fatal(err)
	}
	uri := ""
	for _, c := range res.Content {
		if l, ok := c.(*mcp.ResourceLink); ok {
			uri = l.URI
		}
	}
	got, err := ann.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil || got.Contents[0].Text+string(got.Contents[0].Blob) != "hello" {
		t.Errorf("read %q = %+v, %v", uri, got, err)
	}
	if list, err := ann.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 1 {
		t.Errorf("resources = %+v, %v", list, err)
	}
	if got, err := bob.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
		t.Errorf("another tenant reads %+v", got)
	}

	// They can be arguments of another call, of those who may read them.
	const source = "import haft\ndef read(text: haft.File) -> str:\n    \"\"\"Reads.\n\n    Args:\n" +
		"        text: It.\n    \"\"\"\n" +
		"    return text.name + ' ' + text.read().decode()\n"
	for who, want := range map[string]string{"ann": "a.txt hello", "bob": "/text: expected the id of a file"} {
		h.put(t, people[who], source)
		res, err := visit(t, h.url, who, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "read",
			Arguments: map[string]any{"text": uri}})
		if err != nil || !strings.Contains(said(res), want) {
			t.Errorf("%s gives an artifact to a tool: %s, %v, want %q", who, said(res), err, want)
		}
	}
}

// post sends one message and returns the answer.
func post(t *testing.T, url, key string, header map[string]string, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+key)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// An attacker has a key of another tenant, or none, and sends what no client would.
func TestServer_attacker(t *testing.T) {
	h := build(t, mcpserver.Config{PerCaller: 3, MaxMessage: 64 << 10})
	res, _ := post(t, h.url, "ann", nil, initialize)
	session := res.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatal("there is no session")
	}
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	for name, c := range map[string]struct {
		key, body string
		header    map[string]string
		want      int
	}{
		"a session of somebody else": {"bob", list, map[string]string{"Mcp-Session-Id": session},
			http.StatusNotFound},
		"a session that was never": {"ann", list, map[string]string{"Mcp-Session-Id": session[:17] + "x"},
			http.StatusNotFound},
		"no key": {"", list, map[string]string{"Mcp-Session-Id": session},
			http.StatusUnauthorized},
		"a message that is too large": {"ann", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"` +
			strings.Repeat("a", 70<<10) + `"}}`, nil, http.StatusRequestEntityTooLarge},
		"a message that is too deep": {"ann", strings.Repeat("[", 300) + strings.Repeat("]", 300), nil,
			http.StatusBadRequest},
		"too many messages in one": {"ann", "[" + strings.Repeat(list+",", 40) + list + "]",
			map[string]string{"Mcp-Session-Id": session}, http.StatusBadRequest},
		"a version that never was": {"ann", list,
			map[string]string{"Mcp-Session-Id": session, "MCP-Protocol-Version": "1999-01-01"}, http.StatusBadRequest},
		"the address of another page": {"ann", list, map[string]string{"Origin": "https://evil.example.com"},
			http.StatusForbidden},
		"what is no JSON":              {"ann", "{", nil, http.StatusBadRequest},
		"somebody who is still let in": {"ann", list, map[string]string{"Mcp-Session-Id": session}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := post(t, h.url, c.key, c.header, c.body)
			if res.StatusCode != c.want {
				t.Errorf("status = %d, want %d: %.200s", res.StatusCode, c.want, body)
			}
			if c.want == http.StatusUnauthorized && !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate = %q", res.Header.Get("WWW-Authenticate"))
			}
			if strings.Contains(body, "aaaa") {
				t.Errorf("the answer repeats what was sent: %.100s", body)
			}
		})
	}
	t.Run("a flood of sessions", func(t *testing.T) {
		refused := 0
		for range 6 {
			if res, _ := post(t, h.url, "ann", nil, initialize); res.StatusCode == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 4 {
			t.Errorf("%d sessions of 6 were refused, want 4: one is open, three may be", refused)
		}
		if res, _ := post(t, h.url, "bob", nil, initialize); res.StatusCode != http.StatusOK {
			t.Errorf("another tenant cannot get in: %d", res.StatusCode)
		}
	})
}
