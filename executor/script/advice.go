package script

import (
	"regexp"
	"strings"
	"sync"

	"haft"
	"haft/sandbox"
)

// noNetwork is what programs say where there is no network: resolvers, then the system.
var noNetwork = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)name resolution|name or service not known|could not resolve host|nodename nor servname|` +
		`unable to resolve host|EAI_AGAIN|ENOTFOUND|ENETUNREACH|network is unreachable`)
})

// noVariable is what Python says about a variable of the environment that is not there.
var noVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^'([A-Z_][A-Z0-9_]{0,63})'$`) })

// advise adds what to do to a failure that comes from how the tool is confined: it has no network, or
// not the variable that it looks for. The advice replaces the text about names that cannot be
// resolved, which sounds like a failure that will pass.
func (r *run) advise(res *haft.Result) {
	f := res.Error
	if f == nil || f.Kind != haft.FailException && f.Kind != haft.FailExit {
		return
	}
	confined := r.req.Network == sandbox.NetworkNone && res.Sandbox.Isolation.Level.AtLeast(haft.LevelReduced)
	if confined && noNetwork().MatchString(f.Message) {
		f.Message = "this tool has no network: name each host that it needs with --network HOST (" + f.Message + ")"
		f.Retry = haft.RetryNever
		return
	}
	m := noVariable().FindStringSubmatch(f.Message)
	if m != nil && f.Type == "KeyError" &&
		(strings.Contains(f.Traceback, "<frozen os>") || strings.Contains(f.Traceback, `os.py"`)) {
		f.Message = "the variable " + m[1] + " is not set: store it with haft secret set " + m[1] +
			", or give it with --env " + m[1] + "=VALUE; haft run has only those of --env"
		f.Retry = haft.RetryNever
	}
}
