package upstream_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor/upstream"
)

// remote is a server of the SDK with a tool for every kind of content.
func remote() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "2"}, nil)
	object := map[string]any{"type": "object"}
	give := func(name string, r *mcp.CallToolResult) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: object},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return r, nil })
	}
	give("texts", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: "b"}}})
	give("mixed", &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "see"}, &mcp.ImageContent{MIMEType: "image/png", Data: []byte{1, 2}},
		&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte{3}},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a/b.txt", MIMEType: "text/plain",
			Text: "inside"}},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a/c.bin", MIMEType: "application/x-c",
			Blob: []byte{4, 5, 6}}},
		&mcp.ResourceLink{URI: "file:///d", Name: "d"},
	}})
	give("structured", &mcp.CallToolResult{StructuredContent: map[string]any{"n": 1},
		Content: []mcp.Content{&mcp.TextContent{Text: `{"n": 1}`}}})
	give("beside", &mcp.CallToolResult{StructuredContent: map[string]any{"n": 1},
		Content: []mcp.Content{&mcp.TextContent{Text: "one, that is"}}})
	s.AddTool(&mcp.Tool{Name: "header", InputSchema: object},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			h := r.Extra.Header
			sum := sha256.Sum256([]byte(h.Get("X-Tenant") + "|" + h.Get("Authorization")))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: hex.EncodeToString(sum[:])}}}, nil
		})
	s.AddTool(&mcp.Tool{Name: "leak", InputSchema: object},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(r.Extra.Header)}}}, nil
		})
	return s
}

// at serves a handler until the end of the test.
func at(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

func TestPool_over_HTTP(t *testing.T) {
	s := remote()
	get := func(*http.Request) *mcp.Server { return s }
	for transport, url := range map[haft.MCPTransport]string{
		haft.MCPHTTP: at(t, mcp.NewStreamableHTTPHandler(get, nil)), haft.MCPSSE: at(t, mcp.NewSSEHandler(get, nil)),
	} {
		t.Run(string(transport), func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.add("far", "", func(s *haft.MCPServer) {
				s.Transport, s.URL, s.Command = transport, url, nil
				s.Headers = map[string]string{"X-Tenant": "acme-tenant-key", "Authorization": "Bearer {{ TOKEN }}"}
			})
			call := func(tool string) *haft.Result {
				req := request("far", tool, "{}")
				req.Env = map[string]string{"TOKEN": "token-of-the-call"}
				res := w.call(req)
				if res.Status != haft.StatusSuccess {
					t.Fatalf("%s: %+v", tool, res.Error)
				}
				return res
			}
			if got := text(t, call("texts")); got != "a\nb" {
				t.Errorf("texts are %q", got)
			}
			if transport == haft.MCPHTTP {
				sum := sha256.Sum256([]byte("acme-tenant-key|Bearer token-of-the-call"))
				if got := text(t, call("header")); got != hex.EncodeToString(sum[:]) {
					t.Error("the server did not get its headers")
				}
				if got := text(t, call("leak")); strings.Contains(got, "acme-tenant-key") ||
					strings.Contains(got, "token-of-the-call") {
					t.Errorf("the server gives its credentials away: %q", got)
				}
			}
			res := call("mixed")
			if res.Sandbox.Provider != "remote" {
				t.Errorf("it ran in %q", res.Sandbox.Provider)
			}
			var parts []map[string]any
			if err := json.Unmarshal(res.Value, &parts); err != nil {
				t.Fatal(err)
			}
			want := []map[string]any{
				{"type": "text", "text": "see"}, {"type": "image", "mimeType": "image/png", "artifact": "1-image.png"},
				{"type": "audio", "mimeType": "audio/wav", "artifact": "2-audio.wav"},
				{"type": "resource", "mimeType": "text/plain", "uri": "file:///a/b.txt", "text": "inside"},
				{"type": "resource", "mimeType": "application/x-c", "uri": "file:///a/c.bin", "artifact": "3-c.bin"},
				{"type": "resource_link", "uri": "file:///d", "name": "d"},
			}
			if d := cmp.Diff(want, parts); d != "" {
				t.Errorf("the parts differ (-want +got):\n%s", d)
			}
			if len(res.Artifacts) != 3 || string(res.Artifacts[2].Data) != "\x04\x05\x06" ||
				res.Artifacts[0].ContentType != "image/png" {
				t.Errorf("the artifacts are %+v", res.Artifacts)
			}
			if res := call("structured"); string(res.Value) != `{"n":1}` || res.Stdout != "" {
				t.Errorf("structured content is %s beside %q", res.Value, res.Stdout)
			}
			if res := call("beside"); string(res.Value) != `{"n":1}` || res.Stdout != "one, that is" {
				t.Errorf("structured content is %s beside %q", res.Value, res.Stdout)
			}
		})
	}
}

func TestPool_distinguishes_the_faults_of_HTTP(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	w := newWorld(t, upstream.Config{MaxMessage: 1 << 20})
	for name, url := range map[string]string{
		"nobody": closed.URL,
		"html": at(t,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })),
		"error": at(t,
			http.HandlerFunc(func(w http.ResponseWriter,
				_ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			})),
		"endless": at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
					return
				}
			}
		})),
	} {
		w.add(name, "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, url, nil })
	}
	for name, want := range map[string]haft.FailureKind{"nobody": haft.FailNetwork, "html": haft.FailProtocol,
		"error": haft.FailProtocol, "endless": haft.FailProtocol} {
		if res := w.call(request(name, "x", "{}")); res.Error == nil || res.Error.Kind != want {
			t.Errorf("%s: %+v, want %s", name, res.Error, want)
		}
	}
}

func TestCheckHeaders(t *testing.T) {
	for name, ok := range map[string]bool{"X-Api-Key": true, "authorization": true, "x_weird.name!": true, "": false,
		"Host": false, "mcp-session-id": false, "a b": false, "a:b": false, "ä": false} {
		if err := upstream.CheckHeaders(map[string]string{name: "v"}); (err == nil) != ok {
			t.Errorf("CheckHeaders(%q) = %v, want ok %v", name, err, ok)
		}
	}
	for _, value := range []string{"a\r\nX: y", "a\x00", strings.Repeat("x", 20<<10)} {
		if err := upstream.CheckHeaders(map[string]string{"X": value}); haft.CodeOf(err) != haft.CodeInvalid ||
			len(value) < 100 && strings.Contains(err.Error(), value) {
			t.Errorf("CheckHeaders(%.10q) = %v", value, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("Bearer {{ A }}")
	f.Add("{{{{A}}}}")
	f.Fuzz(func(_ *testing.T, s string) { upstream.Templated(s) })
}
