package policy

import (
	"cel.dev/cel-go/cel"

	"haft"
)

// Effect is what a rule does, and what a decision says.
type Effect string

// The effects.
const (
	Deny          Effect = "deny"  // it may not run, whatever else is said
	NeedsApproval Effect = "ask"   // it may run once a person agrees
	Allow         Effect = "allow" // it may run
	Limit         Effect = "limit" // of rules only: it is bounded if it may run
)

// who selects principals.
type who struct {
	orgs, users, agents, roles names
}

// excludes says why p is not selected, or "".
func (w who) excludes(p haft.Principal) string {
	switch {
	case !w.orgs.match(p.Org):
		return "it is for another organisation"
	case !w.users.match(p.User):
		return "it is for another user"
	case !w.agents.match(p.Agent):
		return "it is for another agent"
	case !w.roles.match(p.Roles...):
		return "it is for another role"
	}
	return ""
}

// rule is one compiled rule.
type rule struct {
	id     string
	line   int
	effect Effect
	reason string

	who
	tools   []Permission // none means all
	kinds   names
	digests names
	when    cel.Program // nil is true

	ask          *Ask // nil means that of the document
	rate         *rate
	concurrency  *concurrency
	quota        *quota
	minIsolation haft.Level
	network      *network
	redact       []place
}

// The words for what became of a rule.
const (
	whyMatches = "it matches"
	whyWhen    = "its condition does not hold"
)

// matches says whether r concerns the request, and why. The error says that
// nobody can know.
func (r *rule) matches(req *Request, e *evaluation) (bool, string, error) {
	if why := r.excludes(req.Principal); why != "" {
		return false, why, nil
	}
	v := req.Tool.Version
	switch {
	case len(r.tools) > 0 && !covered(r.tools, req.Tool):
		return false, "it is for other tools", nil
	case !r.kinds.match(string(v.Kind)):
		return false, "it is for another kind of tool", nil
	case !r.digests.match(v.Digest):
		return false, "it is for another version", nil
	case r.when == nil:
		return true, whyMatches, nil
	}
	holds, err := e.holds(r.when)
	switch {
	case err != nil:
		return false, "", err
	case !holds:
		return false, whyWhen, nil
	}
	return true, whyMatches, nil
}
