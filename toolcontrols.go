package haft

import (
	"fmt"
	"reflect"
	"slices"
)

// Weaker lists, in words, the controls that s weakens compared with before. The author of a
// new version of a tool gets the list as warnings.
func (s Settings) Weaker(before Settings) []string {
	var all []string
	say := func(weaker bool, format string, args ...any) {
		if weaker {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	say(before.RequiresApproval && !s.RequiresApproval, "requires_approval: no person has to agree any more")
	say(opened(s.Roles, before.Roles), "roles: callers with other roles may call it, too")
	say(s.Rate.looser(before.Rate), "rate: it may be called more often")
	say(more(s.Concurrency, before.Concurrency), "concurrency: more calls may run at once")
	say(before.MinIsolation != "" && !s.MinIsolation.AtLeast(before.MinIsolation),
		"min_isolation: less isolation is enough")
	say(before.Sandbox != "" && s.Sandbox != before.Sandbox, "sandbox: it may run elsewhere")
	say(added(s.Network, before.Network), "network: it may reach more hosts")
	say(len(before.Secrets) > 0 && added(before.Secrets, s.Secrets), "secrets: it runs without some of them")
	say(added(s.Programs, before.Programs), "programs: it may run more programs of the host")
	say(before.NoArtifacts && !s.NoArtifacts, "no_artifacts: files that it leaves are kept")
	say(before.AuditFiles && !s.AuditFiles, "audit_files: the audit does not list any more what it touches")
	say(s.Idempotent && !before.Idempotent, "idempotent: it may run twice")
	say(s.Cacheable && !before.Cacheable, "cacheable: old values may be given back")
	say(s.Parallel && !before.Parallel, "parallel: calls of one batch may run beside each other")
	say(s.Fallback != before.Fallback && s.Fallback != "", "fallback: another tool may run in its place")
	say(len(s.OnError) > 0 && !reflect.DeepEqual(s.OnError, before.OnError),
		"on_error: after a failure it may run again, give a fixed value, or be disabled")
	say(before.Output.Type != "" && s.Output.Type != before.Output.Type, "output: its value is read as another type")
	say(added(before.Output.Validators, s.Output.Validators), "output: its value is held against fewer validators")
	say(before.Output.Strict && !s.Output.Strict, "output: its value may be of another type than it says")
	say(more(s.Output.MaxChars, before.Output.MaxChars), "output: more of its value is given back")
	say(s.Limits.looser(before.Limits), "limits: it may use more")
	return all
}

// looser reports whether r permits calls that before does not. A window or a bucket that replaces the
// other kind counts as looser: which is stricter depends on when the calls come.
func (r Rate) looser(before Rate) bool {
	return more(r.PerSecond, before.PerSecond) || before.PerSecond > 0 && r.Burst > before.Burst ||
		more(r.Calls, before.Calls) || before.Calls > 0 && r.Within < before.Within
}

// more reports whether a bound was raised or taken away; 0 means that there is none.
func more[T int | int64 | float64 | Millis](now, before T) bool {
	return before > 0 && (now == 0 || now > before)
}

// added reports whether list has what before does not.
func added(list, before []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(before, s) })
}

// opened is added for a list that is open if it is empty.
func opened(list, before []string) bool {
	return len(before) > 0 && (len(list) == 0 || added(list, before))
}

// looser reports whether a limit was raised or taken away.
func (l Limits) looser(before Limits) bool {
	return more(l.Wall, before.Wall) || more(l.Grace, before.Grace) || more(l.CPU, before.CPU) ||
		more(l.Memory, before.Memory) || more(l.Processes, before.Processes) ||
		more(l.OpenFiles, before.OpenFiles) || more(l.FileSize, before.FileSize) || more(l.Disk, before.Disk) ||
		more(l.Inodes, before.Inodes) ||
		more(l.Stdout, before.Stdout) || more(l.Stderr, before.Stderr) || more(l.Result, before.Result) ||
		more(l.Artifacts, before.Artifacts) || more(l.ArtBytes, before.ArtBytes) || more(l.Network, before.Network)
}
