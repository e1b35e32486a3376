package policy

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"haft"
)

// soloUser is the section solo: the one person who works with the server. That person may answer
// their own requests for approval and accept their own versions of tools.
type soloUser struct{ org, user string }

// solo reads the section.
func (c *compiler) solo(n ast.Node) {
	s := &soloUser{}
	c.object(n, "solo", map[string]field{
		"org":  func(n ast.Node) { s.org = c.text(n, "org", maxText) },
		"user": func(n ast.Node) { s.user = c.text(n, "user", maxText) },
	})
	switch {
	case s.org == "" || s.user == "":
		c.fail(n, "solo names the org and the user who works alone")
	case strings.Contains(s.org+s.user, "*"):
		c.fail(n, "solo names one person: write the name without *")
	}
	c.layer.solo = s
}

// isSolo reports whether a person is the one whom the server's document names in solo. What an
// organisation writes itself does not count: who is alone on a machine is said by who runs it.
func (p *Policy) isSolo(org, user string) bool {
	return p != nil && user != "" && slices.ContainsFunc(p.layers, func(l layer) bool {
		return !l.forced && l.solo != nil && *l.solo == soloUser{org, user}
	})
}

// MayAcceptOwn reports whether a principal may accept a version of a tool that the same person has
// registered: the one who works alone, with the role of approvers, and no agent on their behalf.
func (p *Policy) MayAcceptOwn(who haft.Principal) bool {
	return who.Agent == "" && slices.Contains(who.Roles, haft.RoleApprover) && p.isSolo(who.Org, who.User)
}
