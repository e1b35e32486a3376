package mcpserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// elicits are the fixtures that ask the client in the middle of a call, with the
// schema of what they ask for.
var elicits = map[string]string{
	"test_elicitation": `{"type":"object","properties":{"username":{"type":"string","description":"Your preferred username"}},"required":["username"]}`,
	"test_elicitation_sep1034_defaults": `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
		"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`,
	"test_elicitation_sep1330_enums": `{"type":"object","properties":{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]}}}}`,
}

// schema2020 has to come through as it is.
const schema2020 = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
	"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
	"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
	"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
	"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`

// fixtureOptions adds completion and subscriptions, which the product has not.
func fixtureOptions(o *mcp.ServerOptions) {
	o.CompletionHandler = func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
	}
	o.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	o.Capabilities.Resources = &mcp.ResourceCapabilities{Subscribe: true, ListChanged: true}
	o.Capabilities.Prompts = &mcp.PromptCapabilities{ListChanged: true}
}

// fixtureExtend adds what the conformance suite asks for and the product has not:
// tools that ask the client, prompts and resources.
func fixtureExtend(s *mcp.Server) {
	add := func(name, schema string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "a fixture", InputSchema: json.RawMessage(schema)}, h)
	}
	const any = `{"type":"object"}`
	for name, h := range rounds() {
		add(name, any, h)
	}
	for name, schema := range elicits {
		add(name, any, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Message string }
			_ = json.Unmarshal(r.Params.Arguments, &in) // it may be left out
			res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Please: " + in.Message,
				RequestedSchema: json.RawMessage(schema)})
			if err != nil {
				return nil, err
			}
			return text("Elicitation completed: action=%s, content=%v", res.Action, res.Content), nil
		})
	}
	add("test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Prompt string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			res, err := r.Session.CreateMessage(ctx, sample(in.Prompt))
			if err != nil {
				return nil, err
			}
			said, _ := res.Content.(*mcp.TextContent)
			return text("LLM response: %s", said.Text), nil
		})
	add("json_schema_2020_12_tool", schema2020, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult,
		error) {
		return text("called"), nil
	})
	add("test_x_mcp_header",
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`,
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("called"), nil })
	add("test_streaming_elicitation", any, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("only a result"), nil
	})
	add("test_missing_capability", any, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if caps := r.ClientCapabilities(); caps != nil && caps.Sampling != nil {
			return text("the client can"), nil
		}
		data, err := json.Marshal(
			mcp.MissingRequiredClientCapabilityData{RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}}})
		if err != nil {
			return nil, err
		}
		return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities,
			Message: "the client has to be able to sample", Data: data}
	})
	add("test_reconnection", any, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Extra != nil && r.Extra.CloseSSEStream != nil {
			r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		}
		select {
		case <-time.After(100 * time.Millisecond): // as long as the suite says
		case <-ctx.Done():
		}
		return text("the client came back"), nil
	})
	changes(s, add)
	resources(s)
	prompts(s)
}

// changes are the fixtures that change lists.
func changes(s *mcp.Server, add func(name, schema string, h mcp.ToolHandler)) {
	done := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("done"), nil }
	add("test_trigger_tool_change", `{"type":"object"}`,
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			add("test_transient_tool", `{"type":"object"}`, done)
			return text("changed"), nil
		})
	add("test_trigger_prompt_change", `{"type":"object"}`,
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.AddPrompt(&mcp.Prompt{Name: "test_transient_prompt", Description: "a fixture"},
				func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
					return &mcp.GetPromptResult{}, nil
				})
			return text("changed"), nil
		})
}

// resources are those of the suite.
func resources(s *mcp.Server) {
	give := func(c mcp.ResourceContents) mcp.ResourceHandler {
		return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			out := c
			out.URI = r.Params.URI
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&out}}, nil
		}
	}
	image := mcp.ResourceContents{MIMEType: "image/png", Blob: file("", "", png).Data}
	s.AddResource(&mcp.Resource{Name: "static-text", URI: "test://static-text", MIMEType: "text/plain"},
		give(mcp.ResourceContents{MIMEType: "text/plain", Text: "This is the content of the static text resource."}))
	s.AddResource(&mcp.Resource{Name: "static-binary", URI: "test://static-binary", MIMEType: "image/png"}, give(image))
	s.AddResource(&mcp.Resource{Name: "watched-resource", URI: "test://watched-resource", MIMEType: "text/plain"},
		give(mcp.ResourceContents{MIMEType: "text/plain", Text: "Watched resource content"}))
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "template", URITemplate: "test://template/{id}/data",
		MIMEType: "application/json"},
		func(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			raw, err := json.Marshal(map[string]interface{}{"id": id, "templateTest": true,
				"data": "Data for ID: " + id})
			if err != nil {
				return nil, err
			}
			return give(mcp.ResourceContents{MIMEType: "application/json", Text: string(raw)})(ctx, r)
		})
}

// prompts are those of the suite.
func prompts(s *mcp.Server) {
	say := func(content ...mcp.Content) *mcp.GetPromptResult {
		res := &mcp.GetPromptResult{Description: "a fixture"}
		for _, c := range content {
			res.Messages = append(res.Messages, &mcp.PromptMessage{Role: "user", Content: c})
		}
		return res
	}
	add := func(p mcp.Prompt, h func(r *mcp.GetPromptRequest) *mcp.GetPromptResult) {
		p.Description = "a fixture"
		s.AddPrompt(&p, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return h(r),
				nil
		})
	}
	add(mcp.Prompt{Name: "test_simple_prompt"}, func(*mcp.GetPromptRequest) *mcp.GetPromptResult {
		return say(&mcp.TextContent{Text: "This is a simple prompt for testing."})
	})
	add(mcp.Prompt{Name: "test_prompt_with_arguments",
		Arguments: []*mcp.PromptArgument{{Name: "arg1", Required: true}, {Name: "arg2", Required: true}}},
		func(r *mcp.GetPromptRequest) *mcp.GetPromptResult {
			return say(&mcp.TextContent{Text: "Prompt with arguments: arg1='" + r.Params.Arguments["arg1"] +
				"', arg2='" +
				r.Params.Arguments["arg2"] + "'"})
		})
	add(mcp.Prompt{Name: "test_prompt_with_embedded_resource",
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Required: true}}},
		func(r *mcp.GetPromptRequest) *mcp.GetPromptResult {
			return say(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: r.Params.Arguments["resourceUri"],
				MIMEType: "text/plain", Text: "Embedded resource content for testing."}},
				&mcp.TextContent{Text: "Please process the embedded resource above."})
		})
	add(mcp.Prompt{Name: "test_prompt_with_image"}, func(*mcp.GetPromptRequest) *mcp.GetPromptResult {
		data, _ := base64.StdEncoding.DecodeString(png) // a constant
		return say(&mcp.ImageContent{Data: data, MIMEType: "image/png"},
			&mcp.TextContent{Text: "Please analyze the image above."})
	})
	add(mcp.Prompt{Name: "test_input_required_result_prompt"}, func(r *mcp.GetPromptRequest) *mcp.GetPromptResult {
		if content := given(r.Params.InputResponses, "user_context"); content != nil {
			said, _ := content["context"].(string)
			return say(&mcp.TextContent{Text: "Context: " + said})
		}
		return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": form(
			"Please provide context for the prompt", "context", "string")}}
	})
}
