package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"haft"
	"haft/client"
)

// What is demanded of what is written over is sent as HTTP has it.
func TestConditions_are_sent(t *testing.T) {
	var got http.Header
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("ETag", `"b"`)
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(web.Close)
	c := dial(t, client.Config{URL: web.URL})
	var none haft.Principal
	for name, write := range map[string]func(ctx context.Context, condition string) error{
		"webhook": func(ctx context.Context, condition string) error {
			_, _, err := c.Webhooks.PutWebhook(ctx, none, haft.Webhook{ID: "w", If: condition})
			return err
		},
		"sandbox configuration": func(ctx context.Context, condition string) error {
			_, err := c.Sandboxes.PutSandboxConfig(ctx, none,
				haft.SandboxConfig{Type: haft.SandboxLocal, If: condition})
			return err
		},
		"policy": func(ctx context.Context, condition string) error {
			p, err := c.Policies.Put(ctx, none, false, haft.PolicyText{Text: []byte("version: 1"), If: condition})
			if err == nil && p.Revision() != "b" {
				t.Errorf("the policy is of revision %q", p.Revision())
			}
			return err
		},
		"MCP server": func(ctx context.Context, condition string) error {
			_, err := c.MCPServers.PutMCPServer(ctx, none, haft.MCPServer{Name: "m", If: condition})
			return err
		},
		"webhook to remove": func(ctx context.Context,
			condition string) error {
			return c.Webhooks.RemoveWebhook(ctx, none, "w", condition)
		},
		"sandbox configuration to remove": func(ctx context.Context, condition string) error {
			return c.Sandboxes.RemoveSandboxConfig(ctx, none, "local", condition)
		},
		"MCP server to remove": func(ctx context.Context, condition string) error {
			return c.MCPServers.RemoveMCPServer(ctx, none, "m", condition)
		},
		"tool to remove": func(ctx context.Context,
			condition string) error {
			return c.RemoveTool(ctx, none, "f", condition)
		},
		"agent to remove": func(ctx context.Context,
			condition string) error {
			return c.RemoveAgent(ctx, none, "f", condition)
		},
	} {
		for condition, want := range map[string][2]string{"": {}, "a1": {`"a1"`, ""}, haft.IfNone: {"", "*"}} {
			check(t, write(t.Context(), condition))
			if is := [2]string{got.Get("If-Match"), got.Get("If-None-Match")}; is != want {
				t.Errorf("%s on the condition %q: sent %q, want %q", name, condition, is, want)
			}
		}
	}
}

// Everything that a sandbox configuration says is sent: what is left out would be taken away.
func TestPutSandboxConfig_sends_everything(t *testing.T) {
	var got haft.SandboxConfig
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check(t, json.NewDecoder(r.Body).Decode(&got))
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(web.Close)
	want := haft.SandboxConfig{Type: haft.SandboxE2B, Description: "d", Default: true, AllowRemote: true,
		Limits: haft.Limits{Memory: 1 << 20}, Network: []string{"example.com"},
		Needs:     haft.Requirements{Pip: []string{"six"}},
		Templates: []haft.SandboxTemplate{{Name: "t", Needs: haft.Requirements{NPM: []string{"x"}}}}}
	_, err := dial(t, client.Config{URL: web.URL}).Sandboxes.PutSandboxConfig(t.Context(), haft.Principal{}, want)
	check(t, err)
	if want.Type = ""; !reflect.DeepEqual(got, want) { // that is in the path
		t.Errorf("sent %+v, want %+v", got, want)
	}
}
