package apimock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// templateData is what a template sees. Its types have no methods, which a template could call.
type templateData struct {
	Method, Host, Path string
	// Segments are the parts of the path: of /v1/now they are v1 and now.
	Segments []string
	Query    map[string]string
	Headers  map[string]string
	Body     string
	JSON     any
	// N counts the requests of the rule, from 1.
	N int
}

// templateFuncs are the functions that a template may use: those without which it is of little use, and none that
// makes much text of little.
var templateFuncs = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "len", "json"}

// parseTemplate reads a template and refuses what could run long or grow: loops in loops, loops over other things
// than parts of the request, variables, templates in templates, and most functions.
func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("answer").Option("missingkey=zero").Funcs(template.FuncMap{"json": toJSON}).Parse(text)
	if err != nil {
		return nil, invalid("the template cannot be read: %s", strings.TrimPrefix(err.Error(), "template: answer:"))
	}
	if len(t.Templates()) > 1 {
		return nil, invalid("a template has no other templates in it")
	}
	if t.Tree == nil {
		return t, nil
	}
	w := templateChecker{}
	return t, w.list(t.Root, 0)
}

// toJSON writes a value as JSON.
func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	if err == nil && len(b) > maxText {
		err = errTooLong
	}
	return string(b), err
}

var errTooLong = errors.New("the text is too long")

// templateChecker looks at the nodes of a template.
type templateChecker struct{ inRange bool }

// list checks a list of nodes.
func (c *templateChecker) list(l *parse.ListNode, depth int) error {
	if l == nil {
		return nil
	}
	if depth > maxDepth {
		return invalid("the template is nested too deep")
	}
	for _, n := range l.Nodes {
		if err := c.node(n, depth); err != nil {
			return err
		}
	}
	return nil
}

// node checks a node.
func (c *templateChecker) node(n parse.Node, depth int) error {
	switch x := n.(type) {
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	case *parse.ActionNode:
		return c.pipe(x.Pipe, false, depth)
	case *parse.IfNode:
		return c.branch(&x.BranchNode, false, depth)
	case *parse.WithNode:
		return c.branch(&x.BranchNode, false, depth)
	case *parse.RangeNode:
		if c.inRange {
			return invalid("the template has a loop in a loop")
		}
		if !isField(x.Pipe) {
			return invalid("a loop of a template is over a part of the request, such as .JSON.items")
		}
		c.inRange = true
		err := c.branch(&x.BranchNode, true, depth)
		c.inRange = false
		return err
	}
	return invalid("the template has something that is not allowed: %s", quote(n.String()))
}

// isField reports whether a pipe is a part of the request.
func isField(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	_, ok := p.Cmds[0].Args[0].(*parse.FieldNode)
	return ok
}

// branch checks an if, with or range.
func (c *templateChecker) branch(b *parse.BranchNode, declares bool, depth int) error {
	return errors.Join(c.pipe(b.Pipe, declares, depth+1), c.list(b.List, depth+1), c.list(b.ElseList, depth+1))
}

// pipe checks an expression.
func (c *templateChecker) pipe(p *parse.PipeNode, declares bool, depth int) error {
	if p == nil {
		return nil
	}
	if len(p.Decl) > 0 && !declares {
		return invalid("a template has no variables, except those of a loop")
	}
	if depth > maxDepth {
		return invalid("the template is nested too deep")
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			if err := c.arg(arg, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// arg checks an argument of an expression.
func (c *templateChecker) arg(n parse.Node, depth int) error {
	switch x := n.(type) {
	case *parse.FieldNode, *parse.DotNode, *parse.VariableNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode,
		*parse.NilNode:
		return nil
	case *parse.ChainNode:
		return c.arg(x.Node, depth+1)
	case *parse.PipeNode:
		return c.pipe(x, false, depth+1)
	case *parse.IdentifierNode:
		if slices.Contains(templateFuncs, x.Ident) {
			return nil
		}
		return invalid("a template has the functions %s, and not %s", strings.Join(templateFuncs, ", "), x.Ident)
	}
	return invalid("the template has something that is not allowed: %s", quote(n.String()))
}

// fill returns the text of a template for a request.
func fill(t *template.Template, s Seen, n int) ([]byte, error) {
	data := templateData{Method: s.Method, Host: s.URL.Hostname(), Path: pathOf(s.URL), Body: string(s.Body), N: n,
		Segments: strings.Split(strings.Trim(pathOf(s.URL), "/"), "/"), Query: map[string]string{},
		Headers: map[string]string{}}
	for name, values := range s.URL.Query() {
		data.Query[name] = values[0]
	}
	for name, values := range s.Header {
		data.Headers[name] = strings.Join(values, ", ")
	}
	if json.Unmarshal(s.Body, &data.JSON) != nil || data.JSON == nil {
		data.JSON = map[string]any{} // so that a template can ask for its fields
	}
	var b limited
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("fill in the template of the answer: %w", err)
	}
	return b.text, nil
}

// limited is a buffer that takes no more than a body may have.
type limited struct{ text []byte }

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	if len(l.text)+len(p) > maxText {
		return 0, errTooLong
	}
	l.text = append(l.text, p...)
	return len(p), nil
}

var _ io.Writer = (*limited)(nil)
