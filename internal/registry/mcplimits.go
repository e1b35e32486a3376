package registry

import (
	"bytes"
	"fmt"
	"time"

	"haft"
	"haft/schema"
)

// The bounds on the list of an MCP server as a whole. What one tool may be is bounded
// by the same numbers as any other tool, see check.go; these keep a list of many such
// tools from costing minutes. A list that is over one of them is refused: its server
// keeps the tools that it has.
const (
	maxListTools    = 1000
	maxListBytes    = 8 << 20 // of names, descriptions and schemas
	maxListValues   = 100_000 // values of all schemas, of any kind, as they are and with references filled in
	maxListPatterns = 1000    // regular expressions of all schemas
	maxPattern      = 1 << 10 // bytes of one
	// refusedCost is what a schema with references counts for that cannot be used:
	// finding that out may have taken as long as a large one takes.
	refusedCost = 5000
	// listTime is how long compiling all tools of a list may take.
	listTime = 20 * time.Second
)

// errListTime is the cause of the end of that time.
var errListTime = &haft.Error{Code: haft.CodeInvalid,
	Message: "the schemas of the server's tools take too long to read: the list is not taken"}

// listCost counts what the tools of a list cost to compile, before any is compiled.
type listCost struct{ bytes, values, patterns int }

// tooMuch is for a list that is over a bound.
func tooMuch(what string, most int) error {
	return &haft.Error{Code: haft.CodeInvalid,
		Message: fmt.Sprintf("the list of the server's tools has more than %d %s: it is not taken", most, what)}
}

// checkList reports, as an error with [haft.CodeInvalid], that a list is over a bound.
// Schemas that cannot be read cost nothing more: they are refused one by one.
func checkList(l haft.MCPListing) (*listCost, error) {
	if len(l.Tools) > maxListTools {
		return nil, tooMuch("tools", maxListTools)
	}
	c := &listCost{}
	for _, t := range l.Tools {
		c.bytes += len(t.Name) + len(t.Description) + len(t.Input) + len(t.Output) + len(t.Annotations.Title)
	}
	if c.bytes > maxListBytes {
		return nil, tooMuch("bytes", maxListBytes)
	}
	for _, t := range l.Tools {
		for _, text := range [][]byte{t.Input, t.Output} {
			if len(text) == 0 || len(text) > MaxSchema {
				continue
			}
			tree, err := schema.Decode(text)
			if err != nil {
				continue
			}
			if err := c.count(tree); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// made adds what became of a tool: its schemas with references filled in, or nothing.
func (c *listCost) made(t haft.MCPTool, v haft.Version, err error) error {
	if !bytes.Contains(t.Input, []byte(`"$ref"`)) && !bytes.Contains(t.Output, []byte(`"$ref"`)) {
		return nil // it is as large as it was
	}
	if err != nil {
		if c.values += refusedCost; c.values > maxListValues {
			return tooMuch("values in its schemas", maxListValues)
		}
		return nil
	}
	tree, err := schema.Decode(v.Parameters)
	if err != nil {
		return fmt.Errorf("read a schema again: %w", err)
	}
	return c.count(tree)
}

// count adds a tree.
func (c *listCost) count(tree any) error {
	if c.values++; c.values > maxListValues {
		return tooMuch("values in its schemas", maxListValues)
	}
	switch v := tree.(type) {
	case []any:
		for _, e := range v {
			if err := c.count(e); err != nil {
				return err
			}
		}
	case *schema.Object:
		for _, name := range v.Keys() {
			if err := c.pattern(name, v.Value(name)); err != nil {
				return err
			}
			if err := c.count(v.Value(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pattern counts the regular expressions of one keyword. A property that is named like
// a keyword counts too.
func (c *listCost) pattern(keyword string, value any) error {
	add := func(text string) error {
		if len(text) > maxPattern {
			return tooMuch("bytes in a pattern", maxPattern)
		}
		if c.patterns++; c.patterns > maxListPatterns {
			return tooMuch("patterns", maxListPatterns)
		}
		return nil
	}
	switch v := value.(type) {
	case string:
		if keyword == "pattern" {
			return add(v)
		}
	case *schema.Object:
		if keyword == "patternProperties" {
			for _, name := range v.Keys() {
				if err := add(name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
