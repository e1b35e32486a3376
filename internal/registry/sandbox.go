package registry

import "haft"

// CheckSandbox reports why a sandbox configuration cannot be kept, by the same
// rules as the settings of tools.
func (r *Registry) CheckSandbox(s haft.SandboxConfig) error {
	if err := s.Type.Check(); err != nil {
		return err
	}
	var c checker
	c.text("/description", s.Description, MaxDescription)
	c.limits("/limits", s.Limits)
	c.hosts("/network", s.Network)
	c.packages(haft.Requirements{Pip: s.Needs.Pip}, haft.KindPython)
	c.packages(haft.Requirements{NPM: s.Needs.NPM}, haft.KindJavaScript)
	return c.err("the sandbox configuration cannot be kept")
}
