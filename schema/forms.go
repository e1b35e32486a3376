package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft/internal/jsontree"
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
	return "", invalid("there is no such form of a tool; there are %s",
		listed(Forms(), func(f Form) string { return string(f) }))
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
	tool := Obj("name", sig.Name, "description", sig.Description)
	var err error
	switch form {
	case FormJSON:
		plainTool(tool, sig, parameters, strict)
	case FormOpenAI, FormOpenAIResponses:
		tool = openAITool(tool, parameters, form, strict)
	case FormAnthropic:
		err = anthropicTool(tool, parameters, strict)
	case FormGemini:
		err = geminiTool(tool, parameters)
	case FormMCP:
		mcpTool(tool, sig, parameters)
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

// plainTool writes the form that belongs to no vendor.
func plainTool(tool *Object, sig *Signature, parameters *Object, strict bool) {
	if strict {
		if parameters, strict = Strict(parameters); strict {
			tool.Set("strict", true)
		}
	}
	tool.Set("parameters", parameters)
	if sig.Returns != nil {
		tool.Set("returns", sig.Returns)
	}
}

// openAITool writes what OpenAI takes.
func openAITool(function, parameters *Object, form Form, strict bool) *Object {
	parameters = vendorSchema(parameters)
	if strict {
		parameters, strict = toStrict(parameters, openAIStrict)
	}
	function.Set("parameters", parameters)
	if form == FormOpenAIResponses { // they are strict unless the tool says that it is not
		return prefixed("type", "function", function.Set("strict", strict))
	}
	if strict {
		function.Set("strict", true)
	}
	return Obj("type", "function", "function", function)
}

// anthropicTool writes what Anthropic takes.
func anthropicTool(tool, parameters *Object, strict bool) error {
	parameters = vendorSchema(parameters)
	if properties := parameters.Object("properties"); properties != nil {
		for _, name := range properties.Keys() {
			if !propertyName().MatchString(name) {
				// One such name makes Anthropic refuse all tools of a request.
				return badSchema("root.properties."+name,
					"Anthropic accepts 1 to 64 of a-z A-Z 0-9 _ . - as the name of a property")
			}
		}
	}
	if strict = strict && !selfContaining(parameters); strict {
		parameters, strict = toStrict(parameters, anthropicStrict)
	}
	if tool.Set("input_schema", parameters); strict {
		tool.Set("strict", true)
	}
	return nil
}

// selfContaining reports whether a schema contains itself, which Anthropic's
// strict mode refuses.
func selfContaining(o *Object) bool {
	g, err := newGraph(o)
	return err != nil || len(g.recursive) > 0
}

// mcpTool writes what an MCP client gets. The protocol wants the output of a tool to
// be an object, so that other values travel as {"result": value}, as those of the
// protocol's Python SDK do.
func mcpTool(tool *Object, sig *Signature, parameters *Object) {
	tool.Set("inputSchema", parameters)
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
}

// movable reports whether all references of a schema lead into its $defs, so that
// it can stand somewhere else if $defs stays at the root.
func movable(root any) bool {
	for at, v := range jsontree.All(root) {
		ref, ok := v.(string)
		if ok && len(at) > 0 && at[len(at)-1] == "$ref" && !strings.HasPrefix(ref, "#/$defs/") {
			return false
		}
	}
	return true
}
