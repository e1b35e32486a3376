package registry

import (
	"strconv"

	"haft"
)

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
	c.templates("/templates", s.Templates)
	return c.err("the sandbox configuration cannot be kept")
}

// MaxTemplates bounds the templates of a sandbox configuration.
const MaxTemplates = 64

// templates checks named lists of packages.
func (c *checker) templates(at string, list []haft.SandboxTemplate) {
	if len(list) > MaxTemplates {
		c.fail(at, "there are more than 64 templates")
		return
	}
	seen := map[string]bool{}
	for i, t := range list {
		here := at + "/" + strconv.Itoa(i)
		if !haft.IsTemplateName(t.Name) || seen[t.Name] {
			c.fail(here+"/name", "expected a name that no other template has, of 1 to 64 lower-case letters, digits, "+
				"dots, underscores and hyphens, that begins with a letter or a digit")
		}
		seen[t.Name] = true
		c.packagesAt(here, haft.Requirements{Pip: t.Needs.Pip}, haft.KindPython)
		c.packagesAt(here, haft.Requirements{NPM: t.Needs.NPM}, haft.KindJavaScript)
	}
}
