package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft"
)

// A Form is how a tool is written down for those who call it.
type Form string

// The forms.
const (
	// FormJSON is {"name", "description", "parameters", "returns"}.
	FormJSON Form = "json"
	// FormOpenAI is a tool of OpenAI's Chat Completions.
	FormOpenAI Form = "openai"
	// FormOpenAIResponses is a tool of OpenAI's Responses, without the inner object.
	FormOpenAIResponses Form = "openai-responses"
	// FormAnthropic is a tool of Anthropic's Messages.
	FormAnthropic Form = "anthropic"
	// FormGemini is a function declaration of Gemini, in its subset of OpenAPI.
	FormGemini Form = "gemini"
	// FormMCP is a tool of the Model Context Protocol.
	FormMCP Form = "mcp"
)

// Forms lists every form, in the order of the constants.
func Forms() []Form {
	return []Form{FormJSON, FormOpenAI, FormOpenAIResponses, FormAnthropic, FormGemini, FormMCP}
}

// ParseForm returns the form of a name.
func ParseForm(name string) (Form, error) {
	if f := Form(name); slices.Contains(Forms(), f) {
		return f, nil
	}
	var all []string
	for _, f := range Forms() {
		all = append(all, string(f))
	}
	return "", &haft.Error{Code: haft.CodeInvalid,
		Message: "there is no such form of a tool; there are " + strings.Join(all, ", ")}
}

// Render writes a tool in a form. It never changes sig.
//
// With strict, the parameters are converted for the strict mode of the vendor and
// marked so, where [Health] allows it; otherwise they are as without. Gemini and
// MCP have no strict mode and look the same either way.
//
// The forms of vendors heal what the vendor would refuse without need: unions at
// the top of the parameters are merged, and arrays get items. The arguments that
// come back are checked against the parameters themselves, which may be narrower.
// What cannot be healed is an [*haft.Error].
func Render(sig *Signature, form Form, strict bool) (json.RawMessage, error) {
	parameters := sig.Parameters
	if parameters == nil {
		parameters = Obj("type", "object", "properties", &Object{}, "required", []any{})
	}
	for _, s := range []*Object{parameters, sig.Returns} {
		if s == nil {
			continue
		}
		if why := tooLarge(s); why != "" {
			return nil, badSchema("root", why)
		}
	}
	var tool *Object
	var err error
	switch form {
	case FormJSON:
		tool = plainTool(sig, parameters, strict)
	case FormOpenAI, FormOpenAIResponses:
		tool, err = openAITool(sig, parameters, form, strict)
	case FormAnthropic:
		tool, err = anthropicTool(sig, parameters, strict)
	case FormGemini:
		tool, err = geminiTool(sig, parameters)
	case FormMCP:
		tool = mcpTool(sig, parameters)
	default:
		_, err = ParseForm(string(form))
	}
	if err != nil {
		return nil, err
	}
	text, err := Encode(tool)
	if err != nil {
		return nil, fmt.Errorf("render a tool as %s: %w", form, err)
	}
	return text, nil
}

// plainTool is the form of nobody in particular.
func plainTool(sig *Signature, parameters *Object, strict bool) *Object {
	tool := Obj("name", sig.Name, "description", sig.Description)
	p, ok := parameters, false
	if strict {
		if p, ok = Strict(parameters); ok {
			tool.Set("strict", true)
		}
	}
	tool.Set("parameters", p)
	if sig.Returns != nil {
		tool.Set("returns", sig.Returns)
	}
	return tool
}

// openAITool is what OpenAI takes.
func openAITool(sig *Signature, parameters *Object, form Form, strict bool) (*Object, error) {
	healed, err := healed(parameters)
	if err != nil {
		return nil, err
	}
	ok := false
	if strict {
		healed, ok = toStrict(healed, openAIStrict)
	}
	function := Obj("name", sig.Name, "description", sig.Description, "parameters", healed)
	if form == FormOpenAI {
		if ok {
			function.Set("strict", true)
		}
		return Obj("type", "function", "function", function), nil
	}
	// Responses are strict unless the tool says that it is not.
	function.Set("strict", ok)
	return prefixed("type", "function", function), nil
}

// anthropicTool is what Anthropic takes.
func anthropicTool(sig *Signature, parameters *Object, strict bool) (*Object, error) {
	healed, err := healed(parameters)
	if err != nil {
		return nil, err
	}
	if properties := healed.Object("properties"); properties != nil {
		for _, name := range properties.Keys() {
			if !propertyName().MatchString(name) {
				// One such name makes Anthropic refuse all tools of a request.
				return nil, badSchema("root.properties."+name,
					"Anthropic accepts 1 to 64 of a-z A-Z 0-9 _ . - as the name of a property")
			}
		}
	}
	tool := Obj("name", sig.Name, "description", sig.Description)
	if strict && !selfContaining(healed) {
		var ok bool
		if healed, ok = toStrict(healed, anthropicStrict); ok {
			return tool.Set("input_schema", healed).Set("strict", true), nil
		}
	}
	return tool.Set("input_schema", healed), nil
}

// selfContaining reports whether a schema contains itself, which Anthropic's
// strict mode refuses.
func selfContaining(o *Object) bool {
	g, err := newGraph(o)
	return err != nil || len(g.recursive) > 0
}

// mcpTool is what an MCP client gets. The protocol wants the output of a tool to
// be an object, so that other values travel as {"result": value}, as those of the
// protocol's Python SDK do.
func mcpTool(sig *Signature, parameters *Object) *Object {
	tool := Obj("name", sig.Name, "description", sig.Description, "inputSchema", parameters)
	switch {
	case sig.Returns == nil:
	case sig.Returns.Value("type") == "object":
		tool.Set("outputSchema", sig.Returns)
	case !movable(sig.Returns):
		// Wrapping would break its references. No schema is better than a wrong one.
	default:
		wrapped := Obj(
			"type", "object",
			"properties", Obj("result", without(sig.Returns, "$defs")),
			"required", []any{"result"},
		)
		if defs := sig.Returns.Object("$defs"); defs != nil {
			wrapped.Set("$defs", defs)
		}
		tool.Set("outputSchema", wrapped)
	}
	return tool
}

// movable reports whether all references of a schema lead into its $defs, so that
// it can stand somewhere else if $defs stays at the root.
func movable(v any) bool {
	switch v := v.(type) {
	case *Object:
		if ref, ok := v.Value("$ref").(string); ok && !strings.HasPrefix(ref, "#/$defs/") {
			return false
		}
		for _, k := range v.Keys() {
			if !movable(v.Value(k)) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(x any) bool { return !movable(x) })
	}
	return true
}
