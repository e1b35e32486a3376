package pyschema

import (
	"errors"
	"fmt"
	"strings"

	"haft/schema"
)

// imported returns the schema of a type that is declared in another module. Only
// where that module is installed can anybody say what it is.
func (b *builder) imported(full string, e *expr, args []*expr) *schema.Object {
	module, name, ok := cutLast(full)
	if !ok {
		return b.fail(e.fault("%s is a module, not a type", full))
	}
	if isContext(module, name) {
		return b.fail(e.fault("the type %s of the module %s is filled in by that framework, and Haft has no such "+
			"context: remove the parameter. haft.progress reports progress, and what a tool prints is its log", name,
			module))
	}
	if strings.HasPrefix(module, ".") {
		return b.fail(e.fault("the type %s comes from the module %s beside the source, which a tool does not have: "+
			"declare the type in the source", name, module))
	}
	if b.resolve == nil {
		return b.fail(e.fault("the type %s comes from the module %s, which is not part of the source: "+
			"declare the type in the source, or list the package among the requirements, where its types are looked up",
			name, module))
	}
	if len(args) > 0 {
		return b.fail(e.fault("the type %s of the module %s is given types in brackets, which cannot be looked up: "+
			"declare a class with concrete types", name, module))
	}
	return b.defs.define(full, name, e, func() *schema.Object {
		found, ok := b.found[full]
		if !ok {
			var err error
			found, err = b.resolve(b.ctx, module, name)
			if fault, ok := errors.AsType[*schema.SourceError](err); ok {
				return b.fail(e.fault("the type %s of the module %s: %s", name, module, fault.Message))
			}
			if err != nil {
				return b.fail(fmt.Errorf("look up %s of the module %s: %w", name, module, err))
			}
			if found == nil {
				return b.fail(e.fault("the module %s has no type %s", module, name))
			}
			found = b.defs.adopt(found)
			b.found[full] = found
		}
		text, err := schema.Encode(found)
		if err != nil {
			return b.fail(fmt.Errorf("the type %s of the module %s: %w", name, module, err))
		}
		b.state.nodes += len(text) / textPerNode
		return schema.Clone(found).(*schema.Object)
	})
}

// isContext reports whether a type is one that an agent framework gives the functions it calls, such as FastMCP's
// Context: no model gives it, and no requirement would help.
func isContext(module, name string) bool {
	top, _, _ := strings.Cut(module, ".")
	switch name {
	case "Context":
		return top == "mcp" || top == "fastmcp"
	case "RunContext":
		return top == "pydantic_ai"
	case "RunContextWrapper", "ToolContext":
		return top == "agents" || top == "strands"
	case "RunnableConfig", "ToolRuntime":
		return top == "langchain" || top == "langchain_core" || top == "langgraph"
	}
	return false
}
