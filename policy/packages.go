package policy

import "github.com/goccy/go-yaml/ast"

// MissingAction is what happens when a tool imports a package that it did not name.
type MissingAction string

// The actions.
const (
	MissingReport MissingAction = "tell" // the failure says what to add
	MissingAdd    MissingAction = "add"  // a well-known package is added, as a new version
)

// packages reads the section.
func (c *compiler) packages(n ast.Node) {
	c.object(n, "packages", map[string]field{
		"missing": func(n ast.Node) {
			c.layer.missing = oneOf(&c.document, n, "missing", []MissingAction{MissingReport, MissingAdd})
		},
	})
}

// Missing says what happens when a tool of an organisation imports a package that it
// did not name. Adding it has to be asked for, and of composed documents none may
// say otherwise.
func (p *Policy) Missing(org string) MissingAction {
	action := MissingReport
	if p == nil {
		return action
	}
	for _, l := range p.layers {
		switch {
		case l.org != "" && l.org != org, l.missing == MissingReport:
			return MissingReport
		case l.missing == MissingAdd:
			action = MissingAdd
		}
	}
	return action
}
