package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/goccy/go-yaml/ast"

	"haft"
)

// The bounds on policies.
const (
	MaxRules   = 1000 // with those that roles and lists stand for
	MaxFilters = 200
)

// A Policy is a compiled document, or several of them composed. It never changes
// and is safe for concurrent use. A nil policy allows nothing.
type Policy struct {
	layers []layer
	digest string
}

// layer is one document.
type layer struct {
	missing    MissingAction // "" where the document does not say
	label      string        // server, org, or empty if there is but one
	org        string        // whose document this is; empty means anybody's
	forced     bool          // limits always count per organisation
	rules      []rule
	approval   *Ask // nil if the document does not say
	filters    []filter
	severities []severity
	review     *review // nil if the document does not say
	mcp        []mcpRule
	solo       *soloUser // nil if the document does not say
}

// ref names a rule in decisions.
func (l *layer) ref(id string) string {
	if l.label == "" {
		return id
	}
	return l.label + "/" + id
}

// ruleID is what a rule or filter may be called. Names of rules that roles and
// lists stand for do not fit, so none can be confused with them.
var ruleID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`) })

// compiler makes a layer of a document.
type compiler struct {
	document
	env    *cel.Env
	layer  layer
	ids    map[string]bool
	steps  int  // instructions of all patterns
	stored bool // the document was stored before, and is not refused for its cost
}

// Compile reads a policy document, in YAML or JSON; the package comment shows
// one. Everything unknown in it is an error. The error is an [*haft.Error] whose
// message begins with line and column.
func Compile(text []byte) (*Policy, error) { return compile(text, false) }

// CompileKept is [Compile] for a document that the store has. What an older version
// accepted still compiles: the bounds on the cost of patterns are for new documents.
func CompileKept(text []byte) (*Policy, error) { return compile(text, true) }

// compile reads a document.
func compile(text []byte, kept bool) (*Policy, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("compile policy: %w", err)
	}
	c := &compiler{env: env, ids: map[string]bool{}, stored: kept}
	if root := c.parse(text); c.err == nil {
		c.root(root)
	}
	if c.err != nil {
		return nil, fmt.Errorf("compile policy: %w", c.err)
	}
	sum := sha256.Sum256(text)
	return &Policy{layers: []layer{c.layer}, digest: "sha256:" + hex.EncodeToString(sum[:])}, nil
}

// Compose puts the policy of the server and that of an organisation together.
// Rules of both count. A deny, an ask, a limit or a filter of the server holds
// whatever the organisation says, since nothing lifts one. Limits of the
// organisation count for it alone. Either may be nil.
func Compose(server, org *Policy) *Policy {
	p := &Policy{}
	h := sha256.New()
	for _, part := range []struct {
		label string
		of    *Policy
	}{{"server", server}, {"org", org}} {
		if part.of == nil {
			continue
		}
		fmt.Fprintf(h, "%s %s\n", part.label, part.of.digest)
		for _, l := range part.of.layers {
			l.label = strings.TrimSuffix(part.label+"/"+l.label, "/")
			l.forced = l.forced || part.label == "org"
			p.layers = append(p.layers, l)
		}
	}
	p.digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return p
}

// Digest identifies the text of the policy, for the audit and for keys of what
// must not outlive it.
func (p *Policy) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

// root reads the whole document.
func (c *compiler) root(n ast.Node) {
	versioned := false
	c.object(n, "a policy", map[string]field{
		"version": func(n ast.Node) {
			versioned = true
			c.number(n, "version", 1, 1)
		},
		"org":      func(n ast.Node) { c.layer.org = c.text(n, "org", maxText) },
		"roles":    c.roles,
		"lists":    func(n ast.Node) { c.list(n, "lists", c.lists()) },
		"approval": func(n ast.Node) { c.layer.approval = c.approval(n) },
		"rules":    func(n ast.Node) { c.list(n, "rules", c.rule) },
		"filters":  func(n ast.Node) { c.list(n, "filters", c.filter) },
		"severity": func(n ast.Node) { c.list(n, "severity", c.severity) },
		"review":   c.review,
		"packages": c.packages,
		"mcp":      func(n ast.Node) { c.list(n, "mcp", c.mcp) },
		"solo":     c.solo,
	})
	if !versioned {
		c.fail(n, "a policy begins with version: 1")
	}
}

// add adds a rule.
func (c *compiler) add(n ast.Node, r rule) {
	if len(c.layer.rules) >= MaxRules {
		c.fail(n, "there are more than %d rules", MaxRules)
		return
	}
	r.line = position(n).Line
	c.layer.rules = append(c.layer.rules, r)
}

// roles reads what roles may call: each is a rule that allows it.
func (c *compiler) roles(n ast.Node) {
	c.pairs(n, "roles", func(role string, k, v ast.Node) {
		if role == "" {
			c.fail(k, "a role has a name")
		}
		c.add(k, rule{id: "roles." + short(role), effect: Allow, principals: principals{roles: names{role}},
			tools: c.permissions(v, "the role")})
	})
}

// lists returns a reader of entries that allow and deny.
func (c *compiler) lists() func(ast.Node) {
	number := 0
	return func(n ast.Node) {
		number++
		var w principals
		var allow, deny []Permission
		c.object(n, "a list", map[string]field{
			"org":   func(n ast.Node) { w.orgs = names{c.text(n, "org", maxText)} },
			"user":  func(n ast.Node) { w.users = names{c.text(n, "user", maxText)} },
			"agent": func(n ast.Node) { w.agents = names{c.text(n, "agent", maxText)} },
			"allow": func(n ast.Node) { allow = c.permissions(n, "allow") },
			"deny":  func(n ast.Node) { deny = c.permissions(n, "deny") },
		})
		if w.orgs == nil && w.users == nil && w.agents == nil {
			c.fail(n, "a list is for an org, a user or an agent")
		}
		if allow == nil && deny == nil {
			c.fail(n, "a list allows or denies something")
		}
		if allow != nil {
			c.add(n, rule{id: fmt.Sprintf("lists[%d].allow", number), effect: Allow, principals: w, tools: allow})
		}
		if deny != nil {
			c.add(n, rule{id: fmt.Sprintf("lists[%d].deny", number), effect: Deny, principals: w, tools: deny})
		}
	}
}

// permissions reads a list of permissions.
func (c *compiler) permissions(n ast.Node, what string) []Permission {
	all := []Permission{}
	c.list(n, what, func(v ast.Node) {
		p, err := ParsePermission(c.text(v, "a permission", maxText))
		if err != nil {
			c.fail(v, "%s", haft.MessageOf(err))
		}
		all = append(all, p)
	})
	if len(all) == 0 {
		c.fail(n, "%s is empty", what)
	}
	return all
}

// approval reads the approvers.
func (c *compiler) approval(n ast.Node) *Ask {
	a := &Ask{}
	c.object(n, "approval", map[string]field{
		"roles":   func(n ast.Node) { a.Roles = c.texts(n, "roles") },
		"users":   func(n ast.Node) { a.Users = c.texts(n, "users") },
		"self":    func(n ast.Node) { a.Self = c.boolean(n, "self") },
		"expires": func(n ast.Node) { a.Expires = haft.Millis(c.duration(n, "expires", 366*24*time.Hour)) },
	})
	if a.Roles == nil && a.Users == nil {
		a.Roles = []string{DefaultApprover}
	}
	return a
}

// id reads the name of a rule or filter.
func (c *compiler) id(n ast.Node) string {
	id := c.text(n, "id", maxText)
	switch {
	case c.err != nil:
	case !ruleID().MatchString(id):
		c.fail(n, "an id has small letters, digits, - and _ only, at most 64 of them")
	case c.ids[id]:
		c.fail(n, "the id %q is there twice", id)
	}
	c.ids[id] = true
	return id
}

// rule reads one rule.
func (c *compiler) rule(n ast.Node) {
	var r rule
	limits := false
	attach := func(read func(ast.Node)) field {
		return func(n ast.Node) { limits = true; read(n) }
	}
	fields := map[string]field{
		"id": func(n ast.Node) { r.id = c.id(n) },
		"effect": func(n ast.Node) {
			r.effect = oneOf(&c.document, n, "effect", []Effect{Allow, Deny, NeedsApproval, Limit})
		},
		"reason":      func(n ast.Node) { r.reason = c.text(n, "reason", 300) },
		"kinds":       func(n ast.Node) { r.kinds = c.kinds(n) },
		"digests":     func(n ast.Node) { r.digests = c.texts(n, "digests") },
		"workspaces":  func(n ast.Node) { r.workspaces = c.texts(n, "workspaces") },
		"when":        func(n ast.Node) { r.when = c.expression(n) },
		"pin":         func(n ast.Node) { r.pin = c.boolean(n, "pin") },
		"approval":    func(n ast.Node) { r.ask = c.approval(n) },
		"rate":        attach(func(n ast.Node) { r.rate = c.rate(n) }),
		"concurrency": attach(func(n ast.Node) { r.concurrency = c.concurrency(n) }),
		"quota":       attach(func(n ast.Node) { r.quota = c.quota(n) }),
		"min_isolation": attach(
			func(n ast.Node) { r.minIsolation = oneOf(&c.document, n, "min_isolation", haft.Levels()) }),
		"network": attach(func(n ast.Node) { r.network = c.network(n) }),
		"redact":  attach(func(n ast.Node) { r.redact = c.places(n, "redact") }),
	}
	c.whoFields(fields, &r.principals, &r.tools)
	c.object(n, "a rule", fields)
	switch {
	case r.id == "":
		c.fail(n, "a rule needs an id")
	case r.effect == "":
		c.fail(n, "the rule %s needs an effect", r.id)
	case r.effect == Deny && limits:
		c.fail(n, "the rule %s denies, so it cannot limit", r.id)
	case r.effect == Limit && !limits:
		c.fail(n, "the rule %s limits nothing", r.id)
	case r.effect != Allow && r.pin:
		c.fail(n, "the rule %s does not allow, so it cannot let anybody pin a version", r.id)
	case r.effect != NeedsApproval && r.ask != nil:
		c.fail(n, "the rule %s does not ask, so nobody approves", r.id)
	}
	c.add(n, r)
}

// whoFields adds the readers of selectors that rules and filters share.
func (c *compiler) whoFields(fields map[string]field, w *principals, tools *[]Permission) {
	fields["tools"] = func(n ast.Node) { *tools = c.permissions(n, "tools") }
	fields["orgs"] = func(n ast.Node) { w.orgs = c.texts(n, "orgs") }
	fields["users"] = func(n ast.Node) { w.users = c.texts(n, "users") }
	fields["agents"] = func(n ast.Node) { w.agents = c.texts(n, "agents") }
	fields["roles"] = func(n ast.Node) { w.roles = c.texts(n, "roles") }
}

// kinds reads a list of kinds of tools.
func (c *compiler) kinds(n ast.Node) names {
	all := c.texts(n, "kinds")
	for _, k := range all {
		if c.err == nil && !slices.Contains(haft.Kinds(), haft.Kind(k)) {
			c.fail(n, "a kind is one of %s", join(haft.Kinds()))
		}
	}
	return all
}

// expression reads and compiles an expression.
func (c *compiler) expression(n ast.Node) *condition {
	text := c.text(n, "when", MaxExpression)
	if c.err != nil {
		return nil
	}
	cond, err := compileExpression(c.env, text)
	if err != nil {
		c.fail(n, "when: %s", err)
	}
	return cond
}

// places reads a list of places in arguments.
func (c *compiler) places(n ast.Node, what string) []place {
	var all []place
	for _, text := range c.texts(n, what) {
		p, err := parsePlace(text)
		if err != nil {
			c.fail(n, "%s", haft.MessageOf(err))
		}
		all = append(all, p)
	}
	return all
}
