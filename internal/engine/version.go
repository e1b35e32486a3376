package engine

import (
	"slices"
	"strings"

	"haft"
	"haft/internal/limit"
	"haft/internal/registry"
)

// holdVersions holds a call of a version that is not the current one to the settings
// of both: it is the one place where settings of two versions meet. What restricts
// counts, of either; what the version itself is about (how its value is read, whether
// it may run twice) stays its own. Roles and rules of policy are looked at for each
// version, by [hasRoles] and by package policy.
func (n *egressPlanner) holdVersions(ex *execution) error {
	if ex.tool.Current == nil {
		return nil
	}
	if err := n.mayReach(ex); err != nil {
		return err
	}
	both := *ex.tool
	s, now := &both.Tool.Version.Settings, ex.tool.Current.Settings
	s.RequiresApproval = s.RequiresApproval || now.RequiresApproval
	s.Limits = lower(s.Limits, now.Limits)
	s.Rate = limit.LowestRate(s.Rate, now.Rate)
	s.Concurrency = limit.Lowest(s.Concurrency, now.Concurrency)
	s.Output.MaxChars = limit.Lowest(s.Output.MaxChars, now.Output.MaxChars)
	s.Cacheable, s.NoArtifacts = s.Cacheable && now.Cacheable, s.NoArtifacts || now.NoArtifacts
	s.CacheFor, s.AuditFiles = limit.Lowest(s.CacheFor, now.CacheFor), s.AuditFiles || now.AuditFiles
	if s.MinIsolation == "" || now.MinIsolation != "" && now.MinIsolation.AtLeast(s.MinIsolation) {
		s.MinIsolation = now.MinIsolation
	}
	if now.Sandbox != "" {
		s.Sandbox = now.Sandbox
	}
	for _, name := range now.Secrets {
		if !slices.Contains(s.Secrets, name) {
			s.Secrets = append(slices.Clone(s.Secrets), name)
		}
	}
	ex.tool = &both
	return nil
}

// lower returns the lower of each bound.
func lower(a, b haft.Limits) haft.Limits { return a.Or(b).Within(b.Or(a)) }

// hasRoles reports whether p has a role that the tool demands, and one that its
// current version does.
func hasRoles(p haft.Principal, t *registry.Compiled) bool {
	has := func(roles []string) bool {
		return len(roles) == 0 || slices.ContainsFunc(p.Roles, func(r string) bool { return slices.Contains(roles, r) })
	}
	return has(t.Tool.Version.Settings.Roles) && (t.Current == nil || has(t.Current.Settings.Roles))
}

// rolesOf lists the roles that the tool and its current version ask for.
func rolesOf(t *registry.Compiled) []string {
	roles := slices.Clone(t.Tool.Version.Settings.Roles)
	if t.Current != nil {
		roles = append(roles, t.Current.Settings.Roles...)
	}
	return roles
}

// mayReach refuses a version that wants to reach hosts which the current version does
// not: what it may reach is what both may. A version that names none is given those
// of its organisation that the current one may reach.
func (n *egressPlanner) mayReach(ex *execution) error {
	script := ex.tool.Tool.Version.Kind != haft.KindBuiltin && ex.tool.Tool.Version.Kind != haft.KindMCP
	own, now := ex.tool.Tool.Version.Settings.Network, ex.tool.Current.Settings.Network
	if len(now) == 0 && script {
		now = ex.place.Config.Network
	}
	covered := func(entry string) bool {
		return slices.ContainsFunc(now, func(have string) bool { return n.plan.Covers(have, entry) })
	}
	var more []string
	for _, entry := range own {
		if !covered(entry) {
			more = append(more, entry)
		}
	}
	if len(more) > 0 {
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever,
			"the version may reach only what the current version of the tool may, which does not name "+
				strings.Join(more, ", ")).by("network")
	}
	if len(own) == 0 && script {
		ex.place.Config.Network = slices.DeleteFunc(slices.Clone(ex.place.Config.Network),
			func(entry string) bool { return !covered(entry) })
	}
	return nil
}
