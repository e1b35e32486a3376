package policy

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"haft"
)

// Severity says what has to happen after a failure.
type Severity = haft.Severity

// The severities, mildest first.
const (
	Low      = haft.SeverityLow      // retry at once, changed if need be
	Medium   = haft.SeverityMedium   // back off, then retry
	High     = haft.SeverityHigh     // a person is needed
	Critical = haft.SeverityCritical // stop, and block what caused it
)

// Severities lists them, mildest first.
func Severities() []Severity { return haft.Severities() }

// defaults says how severe each kind of failure is, and whether it passes by
// itself. Every kind is here: a test reads them in the source of the root.
func defaults(kind haft.FailureKind) (s Severity, transient, known bool) {
	switch kind {
	case haft.FailValidation, haft.FailValue, haft.FailOutput, haft.FailResult, haft.FailArtifacts, haft.FailCancelled,
		haft.FailRule, haft.FailNotFound:
		return Low, false, true // another try with other arguments may do
	case haft.FailTimeout, haft.FailRate, haft.FailBroken, haft.FailInternal, haft.FailRuntime, haft.FailProtocol,
		haft.FailSignal, haft.FailNetwork:
		return Medium, true, true
	case haft.FailException, haft.FailExit, haft.FailRecursion, haft.FailCPU:
		return Medium, false, true
	case haft.FailMemory, haft.FailPIDs, haft.FailOpenFiles, haft.FailFileSize, haft.FailDisk, haft.FailInodes:
		return High, false, true // it will need as much again
	case haft.FailSource, haft.FailIsolation, haft.FailDenied, haft.FailRejected, haft.FailUnknown, haft.FailStopped,
		haft.FailFiltered, haft.FailLogin:
		return High, false, true
	case haft.FailBlocked:
		return Critical, false, true // a forbidden system call is an attempt to get out
	}
	return High, false, false
}

// SeverityOf returns how severe a failure is unless a policy says otherwise: by its
// kind, and by the class of an exception. A kind that is unknown is high.
func SeverityOf(f haft.Failure) Severity {
	switch {
	case f.OfType([]string{"PermissionError"}):
		return Critical
	case f.OfType([]string{"MemoryError"}):
		return High
	case f.OfType([]string{"ValueError"}):
		return Low
	}
	s, _, _ := defaults(f.Kind)
	return s
}

// Transient reports whether a failure of that kind may pass by itself, so that the same call
// can succeed later. Wrong arguments, missing permissions and lack of memory do not pass.
func Transient(kind haft.FailureKind) bool {
	_, transient, _ := defaults(kind)
	return transient
}

// severity is one entry that overrides the defaults.
type severity struct {
	tools []Permission       // none means all
	kinds []haft.FailureKind // none means all
	types []string           // classes of exceptions; none means all failures
	level Severity
}

// Severity returns how severe a failure of a tool is. In one document the most
// severe entry that matches counts. An organisation may override the defaults,
// but not go below what the server's document says.
func (p *Policy) Severity(t haft.Tool, f haft.Failure) Severity {
	if found := p.stated(t, f); found != "" {
		return found
	}
	return SeverityOf(f)
}

// Blocks reports whether whoever made a call that failed so cannot use the tool for a
// while. The class of an exception is the word of the tool: it blocks nobody unless a
// policy says so.
func (p *Policy) Blocks(t haft.Tool, f haft.Failure) bool {
	return p.stated(t, f) == Critical || f.Kind != haft.FailException && p.Severity(t, f) == Critical
}

// stated returns what the documents say of a failure, or "".
func (p *Policy) stated(t haft.Tool, f haft.Failure) Severity {
	var found Severity
	if p != nil {
		for _, l := range p.layers {
			for _, s := range l.severities {
				if (len(s.tools) == 0 || covered(s.tools, t)) &&
					(len(s.kinds) == 0 || slices.Contains(s.kinds, f.Kind)) &&
					(len(s.types) == 0 || f.OfType(s.types)) &&
					(found == "" || s.level.AtLeast(found)) {
					found = s.level
				}
			}
		}
	}
	return found
}

// severity reads one entry.
func (c *compiler) severity(n ast.Node) {
	var s severity
	c.object(n, "a severity", map[string]field{
		"tools": func(n ast.Node) { s.tools = c.permissions(n, "tools") },
		"kinds": func(n ast.Node) {
			for _, k := range c.texts(n, "kinds") {
				if _, _, known := defaults(haft.FailureKind(k)); !known {
					c.fail(n, "there is no failure of kind %q", short(k))
				}
				s.kinds = append(s.kinds, haft.FailureKind(k))
			}
		},
		"types": func(n ast.Node) { s.types = c.texts(n, "types") },
		"level": func(n ast.Node) { s.level = oneOf(&c.document, n, "level", Severities()) },
	})
	if s.level == "" {
		c.fail(n, "a severity needs a level")
	}
	c.layer.severities = append(c.layer.severities, s)
}

// TransientException reports whether an exception of this type is about somebody else who was away.
func TransientException(name string) bool {
	switch name {
	case "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError",
		"BrokenPipeError",
		"TimeoutError", "socket.timeout", "urllib.error.URLError", "requests.exceptions.ConnectionError",
		"requests.exceptions.Timeout", "httpx.ConnectError", "httpx.ReadTimeout":
		return true
	}
	return false
}
