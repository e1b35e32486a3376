package flagvalue

import (
	"fmt"
	"slices"
	"strings"

	"haft"
)

// SettingsText says in a line how a version is run, as far as it is not the default.
func SettingsText(s haft.Settings) string {
	var parts []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.RequiresApproval, "requires approval")
	add(s.Limits.Wall > 0, "timeout %s", s.Limits.Wall)
	add(s.Limits.Grace > 0, "grace time %s", s.Limits.Grace)
	add(s.Limits.Memory > 0, "memory %d MiB", s.Limits.Memory>>20)
	add(len(s.Network) > 0, "network %s", strings.Join(s.Network, " "))
	add(len(s.Secrets) > 0, "secrets %s", strings.Join(s.Secrets, " "))
	add(s.AuditFiles, "files audited")
	add(s.NoArtifacts, "no artifacts")
	add(s.Letta, "as Letta")
	add(len(s.Programs) > 0, "programs %s", strings.Join(s.Programs, " "))
	add(len(s.Roles) > 0, "for roles %s", strings.Join(s.Roles, " "))
	add(s.Parallel, "parallel")
	add(s.Idempotent, "idempotent")
	add(s.Cacheable, "cacheable")
	add(s.Retry.Tries > 1, "%d tries", s.Retry.Tries)
	add(s.Rate != (haft.Rate{}), "rate %s", (*Rate)(&s.Rate))
	add(s.Concurrency > 0, "concurrency %d", s.Concurrency)
	add(s.MinIsolation != "", "isolation %s", s.MinIsolation)
	add(s.Sandbox != "", "sandbox %s", s.Sandbox)
	add(s.Fallback != "", "fallback %s", s.Fallback)
	add(s.Output.Type != "", "output %s", s.Output.Type)
	add(len(s.Output.Validators) > 0, "%d validators", len(s.Output.Validators))
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
