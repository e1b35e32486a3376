package policy

import (
	"cmp"
	"slices"

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

// principals selects principals.
type principals struct {
	orgs, users, agents, roles names
}

// excludes says why the principal of a request is not selected, or "". It is the
// one place where rules and filters compare principals.
func (w principals) excludes(req *Request) string {
	p := req.Principal
	switch {
	case !w.orgs.match(p.Org):
		return "it is for another organisation"
	case !w.users.match(p.User):
		return "it is for another user"
	case !w.agents.matchAgent(p.Agent, cmp.Or(req.AgentName, p.Agent)):
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

	principals
	tools   []Permission // none means all
	kinds   names
	digests names
	// workspaces are names of workspaces: a rule that has some is for calls with one of them.
	workspaces names
	when       *condition // nil is true
	pin        bool       // of an allow: the caller may name a version that is not current

	ask          *Ask // nil means that of the document
	rate         *limited[Rate]
	concurrency  *limited[Concurrency]
	quota        *limited[Quota]
	minIsolation haft.Level
	network      []string // nil means that it says nothing of the network
	redact       []place
}

// The words for what became of a rule.
const (
	whyMatches = "it matches"
	whyWhen    = "its condition does not hold"
)

// matches says whether r concerns the request, and why. The error says that
// it cannot be known.
func (r *rule) matches(req *Request, e *evaluation) (bool, string, error) {
	if why := r.excludes(req); why != "" {
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
	case !r.concernsWorkspace(cmp.Or(req.Workspace, new(haft.CallWorkspace))):
		return false, "it is for another workspace", nil
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

// mayPin reports whether a rule that allows req lets the caller name its version
// although that is not the current one: the rule says so, or names the digest.
func (r *rule) mayPin(req *Request) bool { return r.pin || r.namesDigest(req) }

// namesDigest reports whether the rule has the digest of the version, whole.
func (r *rule) namesDigest(req *Request) bool {
	return slices.Contains(r.digests, req.Tool.Version.Digest)
}
