package engine

import (
	"slices"
	"strings"

	"haft"
	"haft/internal/limit"
)

// holdVersions holds a call of a version that is not the current one to the settings
// of both: it is the one place where settings of two versions meet. What restricts
// counts, of either; what the version itself is about (how its value is read, whether
// it may run twice) stays its own. Roles and rules of policy are looked at for each
// version, by the For of the compiled tool and by package policy.
func (n *egressPlanner) holdVersions(ex *execution) error {
	if ex.tool.Current == nil {
		return nil
	}
	if err := n.mayReach(ex); err != nil {
		return err
	}
	both := *ex.tool
	own := &both.Tool.Version.Settings
	// Without it, it would fail in the middle.
	if more := limit.MorePrograms(*own, ex.tool.Current.Settings); more != "" {
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, "the version may run only programs "+
			"that the current version of the tool may, which does not name "+more).by("programs")
	}
	*own = limit.Restrict(*own, ex.tool.Current.Settings)
	ex.tool = &both
	return nil
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
