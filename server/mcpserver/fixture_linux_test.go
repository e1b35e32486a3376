package mcpserver_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
)

// The smallest image and the shortest sound.
const (
	png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// file is an artifact of base64.
func file(name, mime, data string) haft.Artifact {
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		panic(err)
	}
	return haft.Artifact{Name: name, ContentType: mime, Size: int64(len(b)), Data: b}
}

// fixtureTools adds the tools that the conformance suite calls and that can be tools
// of the service: they go through the whole pipeline.
func fixtureTools(s *builtin.Set) error {
	type none struct{}
	image := file("image.png", "image/png", png)
	resource := haft.Content{Type: haft.ContentResource, URI: "test://embedded-resource", MIME: "text/plain",
		Text: "This is an embedded resource content."}
	raw := func(name, about string, res haft.Result) error {
		return builtin.AddRaw[none, any](s, builtin.Def{Name: name, Description: about},
			func(context.Context, executor.Request, none) (*haft.Result, error) {
				out := res
				out.Status, out.Value = haft.StatusSuccess, json.RawMessage("null")
				return &out, nil
			})
	}
	pause := func(ctx context.Context) { // as long as the suite says
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return errors.Join(
		builtin.Add(s, builtin.Def{Name: "test_simple_text", Description: "a text"},
			func(context.Context, builtin.Call, none) (any, error) {
				return "This is a simple text response for testing.", nil
			}),
		raw("test_image_content", "an image",
			haft.Result{Content: []haft.Content{{Type: haft.ContentImage, Artifact: "image.png"}},
				Artifacts: []haft.Artifact{image}}),
		raw("test_audio_content", "a sound",
			haft.Result{Artifacts: []haft.Artifact{file("sound.wav", "audio/wav", wav)},
				Content: []haft.Content{{Type: haft.ContentAudio, Artifact: "sound.wav"}}}),
		raw("test_embedded_resource", "a resource", haft.Result{Content: []haft.Content{resource}}),
		raw("test_multiple_content_types", "several",
			haft.Result{Artifacts: []haft.Artifact{image}, Content: []haft.Content{
				{Type: haft.ContentText, Text: "Multiple content types test:"},
				{Type: haft.ContentImage, Artifact: "image.png"},
				{Type: haft.ContentResource, URI: "test://mixed-content-resource", MIME: "application/json",
					Text: `{"test":"data","value":123}`},
			}}),
		builtin.Add(s, builtin.Def{Name: "test_error_handling", Description: "fails"},
			func(context.Context, builtin.Call, none) (any, error) {
				return nil, errors.New("this tool intentionally returns an error for testing")
			}),
		builtin.Add(s, builtin.Def{Name: "test_tool_with_progress", Description: "says how far it is"},
			func(ctx context.Context, c builtin.Call, _ none) (any, error) {
				for _, n := range []int{0, 50, 100} {
					c.Progress(map[string]any{"progress": n, "total": 100,
						"message": fmt.Sprintf("Completed step %d of 100", n)})
					pause(ctx)
				}
				return "done", nil
			}),
		builtin.Add(s, builtin.Def{Name: "test_tool_with_logging", Description: "prints"},
			func(ctx context.Context, c builtin.Call, _ none) (any, error) {
				for _, line := range []string{"Tool execution started\n", "Tool processing data\n",
					"Tool execution completed\n"} {
					c.Stdout([]byte(line))
					pause(ctx)
				}
				return "printed", nil
			}),
		builtin.Add(s, builtin.Def{Name: "test_logging_tool", Description: "prints"},
			func(_ context.Context, c builtin.Call, _ none) (any, error) {
				c.Stdout([]byte("test_logging_tool executed\n"))
				return "printed", nil
			}),
	)
}

// text is a result of one text.
func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// stateKey vouches for the states of the fixtures.
var stateKey = []byte("a key of the fixtures")

// sealed and unsealed carry a state through a client's hands.
func sealed(state string) string {
	h := hmac.New(sha256.New, stateKey)
	h.Write([]byte(state))
	return state + "." + hex.EncodeToString(h.Sum(nil))
}

func unsealed(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	i := strings.LastIndexByte(text, '.')
	if i < 0 || !hmac.Equal([]byte(sealed(text[:i])), []byte(text)) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState was tampered with"}
	}
	return text[:i], nil
}

// given is what a person filled in, or nil.
func given(r mcp.InputResponseMap, key string) map[string]any {
	e, ok := r[key].(*mcp.ElicitResult)
	if !ok || e == nil || e.Action != "accept" {
		return nil
	}
	return e.Content
}

// form asks for one field.
func form(message, name, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(
		`{"type":"object","properties":{"` + name + `":{"type":"` + kind + `"}},"required":["` + name + `"]}`)}
}

// sampled is what a model said.
func sampled(r mcp.InputResponseMap, key string) (string, bool) {
	res, ok := r[key].(*mcp.CreateMessageWithToolsResult)
	if !ok || res == nil {
		return "", false
	}
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text, true
		}
	}
	return "", true
}

// sample asks for words of a model.
func sample(text string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100,
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
}

// rounds are the fixtures in which the client is asked by an answer.
func rounds() map[string]mcp.ToolHandler {
	confirm := func(state string) mcp.ToolHandler {
		return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			was, err := unsealed(r.Params.RequestState)
			if err != nil {
				return nil, err
			}
			if given(r.Params.InputResponses, "confirm") != nil && was == state {
				return text("state-ok: requestState received and confirmation accepted"), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": form("Please confirm", "ok",
				"boolean")}, RequestState: sealed(state)}, nil
		}
	}
	return map[string]mcp.ToolHandler{
		"test_input_required_result_request_state":  confirm("request_state"),
		"test_input_required_result_tampered_state": confirm("tampered_state"),
		"test_input_required_result_elicitation": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult,
			error) {
			if name, _ := given(r.Params.InputResponses, "user_name")["name"].(string); name != "" {
				return text("Hello, %s!", name), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"user_name": form("What is your name?",
				"name", "string")}}, nil
		},
		"test_input_required_result_sampling": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult,
			error) {
			if said, ok := sampled(r.Params.InputResponses, "capital_question"); ok {
				return text("Sampling response: %s", said), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"capital_question": sample(
				"What is the capital of France?")}}, nil
		},
		"test_input_required_result_list_roots": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult,
			error) {
			if roots, ok := r.Params.InputResponses["client_roots"].(*mcp.ListRootsResult); ok && roots != nil {
				return text("Client exposed %d root(s)", len(roots.Roots)), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}}, nil
		},
		"test_input_required_result_multiple_inputs": func(_ context.Context,
			r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			in := r.Params.InputResponses
			name, _ := given(in, "user_name")["name"].(string)
			greeting, ok := sampled(in, "greeting")
			if roots, has := in["client_roots"].(*mcp.ListRootsResult); has && ok && name != "" {
				return text("%s %s: %d root(s)", greeting, name, len(roots.Roots)), nil
			}
			return &mcp.CallToolResult{RequestState: sealed("multiple_inputs"), InputRequests: mcp.InputRequestMap{
				"user_name": form("What is your name?", "name", "string"), "greeting": sample("Generate a greeting"),
				"client_roots": &mcp.ListRootsParams{},
			}}, nil
		},
		"test_input_required_result_multi_round": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult,
			error) {
			state, err := unsealed(r.Params.RequestState)
			if err != nil {
				return nil, err
			}
			switch {
			case state == "":
				return &mcp.CallToolResult{RequestState: sealed("round=1"),
						InputRequests: mcp.InputRequestMap{"step1": form("Step 1: What is your name?", "name",
							"string")}},
					nil
			case state == "round=1":
				name, _ := given(r.Params.InputResponses, "step1")["name"].(string)
				return &mcp.CallToolResult{RequestState: sealed("round=2;name=" + name),
					InputRequests: mcp.InputRequestMap{"step2": form("Step 2: What is your favorite color?", "color",
						"string")}}, nil
			}
			return text("Multi-round complete: %s likes %v", strings.TrimPrefix(state, "round=2;name="),
				given(r.Params.InputResponses, "step2")["color"]), nil
		},
		"test_input_required_result_capabilities": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult,
			error) {
			caps, ask := r.ClientCapabilities(), mcp.InputRequestMap{}
			if len(r.Params.InputResponses) > 0 || caps == nil {
				return text("fulfilled"), nil
			}
			if caps.Elicitation != nil {
				ask["user_name"] = form("What is your name?", "name", "string")
			}
			if caps.Sampling != nil {
				ask["greeting"] = sample("Generate a short greeting")
			}
			if caps.RootsV2 != nil {
				ask["client_roots"] = &mcp.ListRootsParams{}
			}
			if len(ask) == 0 {
				return text("nothing can be asked"), nil
			}
			return &mcp.CallToolResult{InputRequests: ask}, nil
		},
	}
}
