package limit

import (
	"slices"

	"haft"
)

// Restrict returns the settings of a version with what restricts of those of the current one.
func Restrict(s, now haft.Settings) haft.Settings {
	s.RequiresApproval = s.RequiresApproval || now.RequiresApproval
	s.Limits = s.Limits.Or(now.Limits).Within(now.Limits.Or(s.Limits))
	s.Rate = LowestRate(s.Rate, now.Rate)
	s.Concurrency = Lowest(s.Concurrency, now.Concurrency)
	s.Output.MaxChars = Lowest(s.Output.MaxChars, now.Output.MaxChars)
	s.Cacheable, s.NoArtifacts = s.Cacheable && now.Cacheable, s.NoArtifacts || now.NoArtifacts
	s.CacheFor, s.AuditFiles = Lowest(s.CacheFor, now.CacheFor), s.AuditFiles || now.AuditFiles
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
	return s
}

// MorePrograms returns a program of the host that settings name and those of the current version do not, or "".
func MorePrograms(s, now haft.Settings) string {
	i := slices.IndexFunc(s.Programs, func(name string) bool { return !slices.Contains(now.Programs, name) })
	if i < 0 {
		return ""
	}
	return s.Programs[i]
}
