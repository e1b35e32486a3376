package registry

import (
	"slices"
	"strings"

	"haft"
)

// CheckSandbox reports why a sandbox configuration cannot be kept, by the same
// rules as the settings of tools.
func (r *Registry) CheckSandbox(s haft.SandboxConfig) error {
	if err := s.Type.Check(); err != nil {
		return err
	}
	c := checker{network: r.cfg.Network}
	c.text("/description", s.Description, MaxDescription)
	c.limits("/limits", s.Limits)
	c.hosts("/network", s.Network)
	c.packages(haft.Requirements{Pip: s.Needs.Pip}, haft.KindPython)
	c.packages(haft.Requirements{NPM: s.Needs.NPM}, haft.KindJavaScript)
	slices.SortStableFunc(c.misfits, func(a, b haft.Misfit) int { return strings.Compare(a.Pointer, b.Pointer) })
	return c.err("the sandbox configuration cannot be kept")
}
