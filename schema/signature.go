package schema

import (
	"fmt"
	"strings"
)

// A Signature is what source code says about a function that is a tool.
type Signature struct {
	Name        string
	Description string
	// Parameters is a schema of type object.
	Parameters *Object
	// Returns is the schema of the value, or nil where it is not known.
	Returns *Object
	// ReturnsText is what the documentation says about the value.
	ReturnsText string
	// Injected are the parameters that Haft fills in, such as agent_id.
	Injected []string
	// Async is set for functions that have to be awaited.
	Async bool
}

// A SourceError says what is wrong with source code, and where.
type SourceError struct {
	Line, Column int    // from 1; 0 where unknown
	Function     string // "" where it is not about one
	Parameter    string // "" where it is not about one
	Message      string
}

// Error returns "line:column: function f, parameter p: message", with the parts
// that are known.
func (e *SourceError) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ", column %d", e.Column)
		}
		b.WriteString(": ")
	}
	if e.Function != "" {
		fmt.Fprintf(&b, "function %s: ", e.Function)
	}
	if e.Parameter != "" {
		fmt.Fprintf(&b, "parameter %s: ", e.Parameter)
	}
	b.WriteString(e.Message)
	return b.String()
}

// Options steer how a signature is derived, in every language.
type Options struct {
	// Function names the function that is the tool; empty lets the rules of the
	// language choose.
	Function string
	// DescriptionsOptional accepts functions and parameters without documentation.
	DescriptionsOptional bool
}

// IsInjected reports whether a parameter is one that Haft fills in.
func IsInjected(name string) bool { return name == "agent_state" || name == "agent_id" }

// Describe sets the description of a schema, after its type, where models read it
// first. An empty one changes nothing.
func Describe(o *Object, text string) {
	if text == "" {
		return
	}
	c := keep(o, "type").Set("description", text)
	mergeMissing(c, o)
	*o = *c
}

// MaxSource is the largest source that is read, in bytes.
const MaxSource = 1 << 20
