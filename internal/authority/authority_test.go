package authority_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"haft"
	"haft/internal/authority"
)

// The people of the tests.
var (
	admin    = haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}
	approver = haft.Principal{Org: "acme", User: "boss", Roles: []string{haft.RoleApprover}}
	ann      = haft.Principal{Org: "acme", User: "ann"}
	bob      = haft.Principal{Org: "acme", User: "bob"}
	key1     = haft.Principal{Org: "acme", Credential: "k1"}
	key2     = haft.Principal{Org: "acme", Credential: "k2"}
	nobody   = haft.Principal{Org: "acme"}
	operator = haft.Principal{Org: "ops", User: "root", Roles: []string{haft.RoleAdmin}}
	stranger = haft.Principal{Org: "evil", User: "ann", Roles: []string{haft.RoleAdmin, haft.RoleApprover}}
)

// as returns p as an agent, and only p with a scope.
func as(p haft.Principal, agent string) haft.Principal { p.Agent = agent; return p }

func only(p haft.Principal, actions ...haft.Action) haft.Principal {
	p.Actions = append([]haft.Action{}, actions...)
	return p
}

func TestAuthorize(t *testing.T) {
	rules := authority.Rules{Operators: "ops"}
	own := func(p haft.Principal) authority.Resource { return authority.Owned("call", p) }
	org, server := authority.Resource{}, authority.Resource{Server: true}
	const ok, denied, missing = haft.Code(""), haft.CodeDenied, haft.CodeNotFound
	for _, c := range []struct {
		name string
		p    haft.Principal
		a    haft.Action
		res  authority.Resource
		want haft.Code
	}{
		{"nobody at all", haft.Principal{}, haft.ToolsRead, org, haft.CodeUnauthenticated},
		{"no such action", admin, "nonsense", org, denied},
		{"every action is none", admin, haft.AllActions, org, denied},
		{"a scope", only(admin, haft.ToolsRead), haft.ToolsRead, org, ok},
		{"another scope", only(admin, haft.ToolsRead), haft.ToolsWrite, org, denied},
		{"no scope at all", only(admin), haft.ToolsRead, org, denied},
		{"every scope", only(admin, haft.AllActions), haft.KeysWrite, org, ok},
		{"every scope without the role", only(ann, haft.AllActions), haft.KeysWrite, org, denied},
		{"an agent of an administrator", as(admin, "x"), haft.ToolsWrite, org, denied},
		{"an agent calls", as(admin, "x"), haft.CallsWrite, org, ok},
		{"an agent approves", as(approver, "x"), haft.ApprovalsWrite, org, denied},
		{"a key without a user approves", key1, haft.ApprovalsWrite, org, denied},
		{"an agent logs in", as(ann, "x"), haft.CallsWrite, authority.Resource{Person: true}, denied},
		{"operate by an administrator", admin, haft.Operate, org, denied},
		{"operate by an operator", operator, haft.Operate, server, ok},
		{"operate by an operator's agent", as(operator, "x"), haft.Operate, server, denied},
		{"the policy of the server", admin, haft.PoliciesWrite, server, denied},
		{"the policy of the server by an operator without the scope", only(operator, haft.PoliciesRead),
			haft.PoliciesWrite, server, denied},

		{"one's own call", ann, haft.CallsRead, own(ann), ok},
		{"one's own call by an agent", ann, haft.CallsRead, own(as(ann, "x")), ok},
		{"the user's call, seen by the agent", as(ann, "x"), haft.CallsRead, own(ann), missing},
		{"another agent's", as(ann, "x"), haft.CallsRead, own(as(ann, "y")), missing},
		{"another user's", ann, haft.CallsRead, own(bob), missing},
		{"of another organisation", stranger, haft.CallsRead, own(ann), missing},
		{"an approver sees", approver, haft.CallsRead, own(ann), ok},
		{"an approver watches", approver, haft.EventsRead, own(ann), ok},
		{"an approver cancels", approver, haft.CallsWrite, own(ann), missing},
		{"an approver's agent sees", as(approver, "x"), haft.CallsRead, own(ann), missing},
		{"a manager cancels", admin, haft.CallsWrite, own(ann), ok},
		{"a manager's agent cancels", as(admin, "x"), haft.CallsWrite, own(ann), missing},
		{"one's own usage", ann, haft.UsageRead, own(ann), ok},
		{"the usage of all", ann, haft.UsageRead, org, denied},

		{"a key's own", key1, haft.CallsRead, own(key1), ok},
		{"another key's", key1, haft.CallsRead, own(key2), missing},
		{"a key sees nobody's", key1, haft.CallsRead, own(nobody), missing},
		{"nobody sees nobody's", nobody, haft.CallsRead, own(nobody), missing},
		{"nobody sees a key's", nobody, haft.CallsRead, own(key1), missing},
		{"a user with the key's name", haft.Principal{Org: "acme", User: "k1"}, haft.CallsRead, own(key1), missing},
		{"a user's call by that key", key1, haft.CallsRead,
			own(haft.Principal{Org: "acme", User: "ann", Credential: "k1"}), missing},
		{"a user by another key", ann, haft.CallsRead, own(haft.Principal{Org: "acme", User: "ann", Credential: "k9"}),
			ok},
		{"another key as the same agent", as(key1, "x"), haft.CallsRead, own(as(key2, "x")), missing},
	} {
		if got := rules.Authorize(c.p, c.a, c.res); (got != nil || c.want != ok) && haft.CodeOf(got) != c.want {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
	if (authority.Rules{}).Operates(admin) || !(authority.Rules{Operators: authority.EveryOrg}).Operates(admin) {
		t.Error("the zero rules have operators, or * has none")
	}
	if r := (authority.Rules{Managers: []string{"ops"}}); r.Manages(admin) ||
		!r.Manages(haft.Principal{Org: "acme", Roles: []string{"ops"}}) {
		t.Error("other roles of managers do not count")
	}
}

// TestAuthorize_never_crosses makes random principals, and holds what is granted to
// properties that do not depend on how it is decided.
func TestAuthorize_never_crosses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	principal := func() haft.Principal {
		p := haft.Principal{Org: pick("a", "b"), User: pick("", "", "u", "v"), Agent: pick("", "x", "y"),
			Credential: pick("", "k", "l")}
		if role := pick("", haft.RoleAdmin, haft.RoleApprover); role != "" {
			p.Roles = []string{role}
		}
		if r.IntN(3) == 0 {
			p.Actions = []haft.Action{}
			for _, a := range haft.Actions() {
				if r.IntN(2) == 0 {
					p.Actions = append(p.Actions, a)
				}
			}
		}
		return p
	}
	rules := authority.Rules{Operators: "a"}
	granted := 0
	for range 50_000 {
		p, owner := principal(), principal()
		a := haft.Actions()[r.IntN(len(haft.Actions()))]
		if rules.Authorize(p, a, authority.Owned("call", owner)) != nil {
			continue
		}
		granted++
		says := fmt.Sprintf("%+v may %s what is %+v's", p, a, owner)
		switch privileged := p.Agent == "" && len(p.Roles) > 0; {
		case p.Org != owner.Org:
			t.Fatal("another organisation: " + says)
		case p.Actions != nil && !slices.Contains(p.Actions, a):
			t.Fatal("beyond the scope: " + says)
		case privileged:
		case p.User == "" && p.Credential == "":
			t.Fatal("nobody owns something: " + says)
		case p.User != owner.User || p.User == "" && p.Credential != owner.Credential:
			t.Fatal("somebody else's: " + says)
		case p.Agent != "" && p.Agent != owner.Agent:
			t.Fatal("another agent's: " + says)
		}
	}
	if granted < 1000 {
		t.Errorf("only %d were granted: the test says little", granted)
	}
}

// Allowed is what Authorize grants, for everybody.
func TestAllowed(t *testing.T) {
	rules := authority.Rules{Operators: "ops"}
	for _, p := range []haft.Principal{admin, approver, ann, key1, nobody, operator, only(admin, haft.ToolsWrite),
		as(admin, "x")} {
		list := rules.Allowed(p)
		for _, a := range haft.Actions() {
			if slices.Contains(list, a) != (rules.Authorize(p, a, authority.Resource{}) == nil) {
				t.Errorf("%+v: %s is listed wrongly in %v", p, a, list)
			}
		}
	}
	if got := rules.Allowed(ann); slices.Contains(got, haft.ToolsWrite) || slices.Contains(got, haft.Operate) {
		t.Errorf("ann is told that she may %v", got)
	}
}

// TestActions_are_listed_once: every constant of type Action is in [haft.Actions], which
// all packages that list or check scopes use.
func TestActions_are_listed_once(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../action.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			value, err := strconv.Unquote(spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if a := haft.Action(value); a != haft.AllActions && !slices.Contains(haft.Actions(), a) {
				t.Errorf("the action %s is not in haft.Actions", a)
			}
		}
	}
}
