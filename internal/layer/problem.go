package layer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/internal/requirement"
	"haft/sandbox"
)

// ProblemKind sorts failures of an installer by what to do about them.
type ProblemKind string

// The kinds of problems.
const (
	ProblemNotFound ProblemKind = "not_found"  // no package has this name
	ProblemVersion  ProblemKind = "no_version" // it has no such version, or none for this system
	ProblemConflict ProblemKind = "conflict"   // two packages want what excludes each other
	ProblemHash     ProblemKind = "hash"       // a file is not the one that was locked
	ProblemNetwork  ProblemKind = "network"    // the index cannot be reached
	ProblemTrust    ProblemKind = "trust"      // the index shows a certificate that is not trusted
	ProblemAccess   ProblemKind = "access"     // the index wants credentials
	ProblemTimeout  ProblemKind = "timeout"    // it took too long
	ProblemBuild    ProblemKind = "build"      // a package could not be built from source
	ProblemDisk     ProblemKind = "disk"       // the disk is full
	ProblemMemory   ProblemKind = "memory"     // or no memory
	ProblemTool     ProblemKind = "installer"  // the installer itself is missing or too old
	ProblemOther    ProblemKind = "other"
)

// A Problem says why packages were not installed. It is the cause of an
// [*haft.Error], whose message is for people and models.
type Problem struct {
	Kind ProblemKind
	// Requirement is what failed, as the installer names it, or "".
	Requirement string
	// Other is the other side of a conflict, or "".
	Other string
	// Words are the last of the installer, bounded and redacted.
	Words string
}

// Error implements error.
func (p *Problem) Error() string {
	return fmt.Sprintf("installer: %s %s %s", p.Kind, p.Requirement, p.Other)
}

// problemOf returns the problem that err wraps.
func problemOf(err error) (*Problem, bool) { return errors.AsType[*Problem](err) }

// sign is a text that identifies a problem. The first group is the requirement, the second
// the other side.
type sign struct {
	kind ProblemKind
	form *regexp.Regexp
}

// signs are in the order in which they are searched: a cause comes before its effects. For
// example, a package is also "not found" when the index cannot be reached.
var signs = sync.OnceValue(func() []sign {
	return []sign{
		{ProblemDisk,
			regexp.MustCompile(`(?i)no space left on device|\bENOSPC\b|disk quota exceeded|not enough free disk`)},
		{ProblemTool,
			regexp.MustCompile(
				`No module named pip\b|no such option: --(?:report|dry-run)|unexpected argument '--|Unknown (?:cli )?command`)},
		{ProblemHash,
			regexp.MustCompile(`THESE PACKAGES DO NOT MATCH THE HASHES[\s\S]{0,400}?\n\s+([A-Za-z0-9][^\s]*) from `)},
		{ProblemHash, regexp.MustCompile("Hash mismatch for `([^`\\s]+)`")},
		{ProblemHash, regexp.MustCompile(`\bEINTEGRITY\b(?:[\s\S]{0,200}?(?:for|from) ([^\s:]+@[^\s:]+))?`)},
		{ProblemHash, regexp.MustCompile(`(?i)do(?:es)? not match the hash|hash(?:es)? (?:mismatch|are required)`)},
		{ProblemTrust,
			regexp.MustCompile(
				`CERTIFICATE_VERIFY_FAILED|invalid peer certificate|SELF_SIGNED_CERT|UNABLE_TO_(?:GET|VERIFY)|self[- ]signed certificate`)},
		{ProblemAccess,
			regexp.MustCompile(
				`\b(?:401|407) (?:Client )?(?:Error|Unauthorized|Proxy)|\bE40[13]\b|status (?:code )?\(?40[13]\b|40[13] (?:Client Error|Forbidden)|Tunnel connection failed: 40[37]|unsuccessful tunnel`)},
		{ProblemNetwork,
			regexp.MustCompile(
				`(?i)\b(?:ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT)\b` +
					`|connection refused|name resolution|name or service not known|network is unreachable|max retries exceeded|connection broken by|read timed out|connect timeout` +
					`|dns error|tcp connect error|error sending request|failed to fetch|operation timed out|Tunnel connection failed: 50[234]|50[234] (?:Server Error|Bad Gateway|Service Unavailable|Gateway Time)|\bE50[234]\b|proxyerror|cannot connect to proxy|failed to connect`)},
		{ProblemBuild, regexp.MustCompile("(?:Failed building wheel for|Could not build wheels for|Failed to " +
			"build(?: installable wheels for some pyproject\\.toml based projects \\()?) " +
			"?`?([A-Za-z0-9][A-Za-z0-9._=-]*)")},
		{ProblemBuild,
			regexp.MustCompile(
				`metadata-generation-failed|subprocess-exited-with-error|gyp ERR!|npm (?:ERR!|error) command failed`)},
		{ProblemConflict,
			regexp.MustCompile(
				`The conflict is caused by:\s*\n\s+(?:The user requested )?([^\n]{1,200}?)\s*\n\s+(?:The user requested )?([^\n]{1,200})`)},
		{ProblemConflict,
			regexp.MustCompile(
				`Cannot install ([^\n]{1,200}?) and ([^\n]{1,200}?) because these package versions have conflicting`)},
		{ProblemConflict,
			regexp.MustCompile(`\bERESOLVE\b[\s\S]{0,600}?Found: ([^\s]+)[\s\S]{0,900}?(peer [^\n]{1,150})`)},
		{ProblemConflict, regexp.MustCompile(`\b(?:ResolutionImpossible|ERESOLVE)\b`)},
		{ProblemBuild,
			regexp.MustCompile(
				`[Bb]ecause (?:all versions of |only )?([A-Za-z0-9][A-Za-z0-9._-]*)[^\n]{0,100}? ha(?:s|ve) no (?:usable )?wheels`)},
		{ProblemNotFound,
			regexp.MustCompile(
				`Because ([A-Za-z0-9][A-Za-z0-9._-]*) was not found in the (?:package registry|provided package locations)`)},
		{ProblemNotFound,
			regexp.MustCompile(
				`Could not find a version that satisfies the requirement ([^\n]{1,200}?) \(from versions: none\)`)},
		{ProblemNotFound, regexp.MustCompile(`\bE404\b[\s\S]{0,600}?404\s+'([^'\s]+)' is not in`)},
		{ProblemNotFound, regexp.MustCompile(`\bE404\b`)},
		{ProblemVersion,
			regexp.MustCompile(`Could not find a version that satisfies the requirement ([^\n]{1,200}?) \(from`)},
		{ProblemVersion, regexp.MustCompile(`No matching version found for ([^\n]{1,200}?)\.?\s*(?:\n|$)`)},
		{ProblemVersion,
			regexp.MustCompile(
				`(?:[Bb]ecause |and )(?:only [^\n]{0,100}?|there (?:is|are) no versions? of )([A-Za-z0-9][A-Za-z0-9._=<>!~,-]*)`)},
		{ProblemVersion,
			regexp.MustCompile(
				`has no (?:usable )?wheels|no matching (?:distribution|wheels?)|requires a different Python`)},
		{ProblemConflict,
			regexp.MustCompile(
				`[Bb]ecause ([^\n]{1,150}? depends on [^\n]{1,100}?) and ([^\n]{1,150}?),? we can conclude`)},
		{ProblemConflict,
			regexp.MustCompile(
				`you require ([^\s,]\S{0,150}) and ([^\s,]\S{0,150}), (?:which are incompatible|we can conclude)`)},
		{ProblemConflict, regexp.MustCompile(`No solution found when resolving`)},
		{ProblemNotFound, regexp.MustCompile(`No matching distribution found for ([^\s]+)`)},
	}
})

// advice says what to do about each kind. The blank is for the requirement.
var advice = map[ProblemKind]struct {
	code haft.Code
	text string
}{
	ProblemNotFound: {haft.CodeInvalid, "the index has no package %s, or none that is built for this " +
		"interpreter: check the spelling, or let the operator allow --build-from-source"},
	ProblemVersion: {haft.CodeInvalid,
		"there is no version of %s that fits what is asked for and this interpreter: change or remove the constraint"},
	ProblemConflict: {haft.CodeConflict, "%s cannot be installed together: change or remove one of the constraints"},
	ProblemHash: {haft.CodeConflict, "a file of %s is not the one that was locked: somebody changed it on the " +
		"index; resolve anew if that was meant"},
	ProblemNetwork: {haft.CodeUnavailable,
		"the package index cannot be reached: check the index and the proxy that are configured, and try again"},
	ProblemTrust: {haft.CodeUnavailable,
		"the package index shows a certificate that is not trusted: configure its authority"},
	ProblemAccess: {haft.CodeUnavailable, "the package index refuses access: check the credentials that are " +
		"configured, and whether its host is allowed"},
	ProblemTimeout: {haft.CodeUnavailable, "installing the packages took too long: try again, or ask for fewer"},
	ProblemBuild: {haft.CodeInvalid,
		"%s could not be built from source: choose a version that has built packages for this system, or let the " +
			"operator allow --build-from-source"},
	ProblemDisk: {haft.CodeUnavailable, "there is not enough space on the disk to install the packages: free " +
		"some space, or remove unused ones with \"haft env gc\""},
	ProblemMemory: {haft.CodeUnavailable, "there is not enough memory to install the packages"},
	ProblemTool: {haft.CodeUnavailable,
		"the installer is missing or too old: pip 22.3 or newer, uv, or npm 8 or newer is needed"},
	ProblemOther: {haft.CodeUnavailable, "the packages could not be installed"},
}

// failed explains how a command ended.
func (st *step) failed(what string, exit sandbox.Exit, text string) error {
	text = st.clean(text)
	fetches, build := st.unsaid()
	p := diagnose(fetches + text)
	switch {
	case exit.Cause == sandbox.CauseTimeout:
		p = &Problem{Kind: ProblemTimeout}
	case exit.Cause == sandbox.CauseLimit && exit.Limit == haft.FailMemory:
		p = &Problem{Kind: ProblemMemory}
	case exit.Cause == sandbox.CauseLimit && exit.Limit == haft.FailDisk:
		p = &Problem{Kind: ProblemDisk}
	}
	p.Words = lastWords(text)
	if p.Kind == ProblemBuild {
		if build != "" {
			p.Words = build
		}
		if all := pipAt().FindAllStringSubmatch(text, -1); p.Requirement == "" && len(all) > 0 {
			m := all[len(all)-1]
			p.Requirement = m[1] + m[2]
		}
	}
	if p.Requirement == "" && p.Kind != ProblemConflict {
		p.Requirement = st.only()
	}
	if p.Kind == ProblemVersion && st.contested(p.Requirement) {
		p.Kind = ProblemConflict
	}
	a := advice[p.Kind]
	message := a.text
	if strings.Contains(message, "%s") {
		message = fmt.Sprintf(message, st.who(p))
	}
	if p.Words != "" {
		message += ". The installer said:\n" + p.Words
	}
	return &haft.Error{Code: a.code, Message: message,
		Err: fmt.Errorf("%s: exit %s %d: %w", what, exit.Cause, exit.Code, p)}
}

var (
	pipClock = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`(?m)^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:,]+ `) })
	pipBuild = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s)^(.*?)(?:ERROR: \[present-rich\]|error: subprocess-exited-with-error)`)
	})
	pipAt = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?m)^\s*(?:Collecting ([A-Za-z0-9][^\s(]*)|Processing \S*/([A-Za-z0-9][A-Za-z0-9_.]*?)-[0-9])`)
	})
)

// unsaid returns what pip writes only to its log: errors of the index, which pip reports as
// "not found", and the output of build code.
func (st *step) unsaid() (fetches, build string) {
	text, err := st.scratch.read("pip.log", maxResult)
	if err != nil {
		return "", ""
	}
	log := pipClock().ReplaceAllString(st.clean(string(text)), "")
	var b strings.Builder
	for line := range strings.Lines(log) {
		if _, why, ok := strings.Cut(line, "Could not fetch URL "); ok && b.Len() < maxTail {
			b.WriteString(cut(why, maxLine) + "\n")
		}
	}
	if m := pipBuild().FindStringSubmatch(log); m != nil {
		build = lastWords(m[1][strings.LastIndex(m[1], "Running command ")+1:])
	}
	return b.String(), build
}

// diagnose finds the problem in the output of an installer.
func diagnose(text string) *Problem {
	for _, s := range signs() {
		m := s.form.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		p := &Problem{Kind: s.kind}
		if len(m) > 1 {
			p.Requirement = cut(strings.TrimSpace(m[1]), 200)
		}
		if len(m) > 2 {
			p.Other = cut(strings.TrimSpace(m[2]), 200)
		}
		if need, ok := sameNeed(p.Requirement, p.Other); ok {
			return &Problem{Kind: ProblemNotFound, Requirement: need}
		}
		return p
	}
	return &Problem{Kind: ProblemOther}
}

// sameNeed returns what two versions of one package depend on. Pip calls them a conflict if what they
// need is not there, such as a package without a wheel.
func sameNeed(a, b string) (need string, ok bool) {
	one, need, _ := strings.Cut(a, " depends on ")
	two, other, ok := strings.Cut(b, " depends on ")
	return need, ok && packageName(one) == packageName(two) && packageName(need) == packageName(other)
}

// who names what failed, in a sentence.
func (st *step) who(p *Problem) string {
	switch {
	case p.Requirement != "" && p.Other != "" && packageName(p.Requirement) == packageName(p.Other):
		return fmt.Sprintf("%q and %q", p.Requirement, p.Other) + st.asker(p.Requirement)
	case p.Requirement != "" && p.Other != "":
		return fmt.Sprintf("%q and %q", p.Requirement, p.Other)
	case p.Requirement != "":
		return p.Requirement + st.asker(p.Requirement)
	}
	return "what is asked for"
}

// only returns the requirement if there is but one.
func (st *step) only() string {
	pip, npm := st.set.Strings()
	if all := slices.Concat(pip, npm); len(all) == 1 {
		return all[0]
	}
	return ""
}

var leadingName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^@?[A-Za-z0-9][A-Za-z0-9._/-]*`) })

// packageName returns the name of the package that a requirement begins with.
func packageName(text string) string {
	return requirement.NormalName(leadingName().FindString(text))
}

// contested reports whether several ask for versions of a Python package that an
// installer names.
func (st *step) contested(text string) bool {
	name := packageName(text)
	return slices.ContainsFunc(st.set.Pip, func(p requirement.Pip) bool {
		return p.Name == name && slices.ContainsFunc(p.Specs,
			func(s requirement.Spec) bool { return s.From != p.Specs[0].From })
	})
}

// asker says who asked for a requirement that an installer names. If several did, it says
// who asked for which version: their constraints may contradict each other.
func (st *step) asker(text string) string {
	name := packageName(text)
	for _, p := range st.set.Pip {
		if p.Name != name || len(p.Specs) == 0 || p.Specs[0].From == "" {
			continue
		}
		if !st.contested(text) {
			return " (asked for by " + p.Specs[0].From + ")"
		}
		var asked []string
		for _, s := range p.Specs {
			asked = append(asked, s.From+" asks for "+s.Op+s.Version)
		}
		return " (" + strings.Join(asked, ", ") + ")"
	}
	for _, n := range st.set.NPM {
		if n.Name == name && n.From != "" {
			return " (asked for by " + n.From + ")"
		}
	}
	return ""
}
