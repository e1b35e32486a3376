package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/internal/secret"
)

// A Bound is a secret of a call that goes to hosts, and never to its program. That
// has a placeholder instead, made for this call.
type Bound struct {
	Name  string
	Value secret.Value
	// To is where it goes.
	To *secret.Binding
	// Stored says that the vault has the value, in the scope of Agent, or in that
	// of the organisation if it is empty. Else it came with the call or the webhook.
	Stored bool
	Agent  haft.AgentID
}

// overlay puts values on top of the environment. A name that is bound below stays
// so: who replaces a value need not know that it must not be seen.
func (ex *execution) overlay(values []secret.Named, stored bool, agent haft.AgentID) {
	for _, v := range values {
		ex.env[v.Name] = v.Value.Reveal()
		to := v.Bound
		if to == nil {
			to = ex.bound[v.Name].To
		}
		if to == nil {
			continue
		}
		if v.Value.IsZero() { // nothing that could be seen
			delete(ex.bound, v.Name)
			continue
		}
		if ex.bound == nil {
			ex.bound = map[string]Bound{}
		}
		ex.bound[v.Name] = Bound{Name: v.Name, Value: v.Value, To: to, Stored: stored, Agent: agent}
	}
}

// overlayText is overlay for what came as text.
func (ex *execution) overlayText(env map[string]string) {
	for name, text := range env {
		ex.overlay([]secret.Named{{Name: name, Value: secret.New(text)}}, false, "")
	}
}

// bounds lists the bound secrets by name, those first that the tool says it needs.
func (ex *execution) bounds() []Bound {
	needs := ex.tool.Tool.Version.Settings.Secrets
	var first, rest []Bound
	for _, name := range slices.Sorted(maps.Keys(ex.bound)) {
		if b := ex.bound[name]; slices.Contains(needs, name) {
			first = append(first, b)
		} else {
			rest = append(rest, b)
		}
	}
	return append(first, rest...)
}

// setPlaceholders gives the program placeholders: those of the way out, which does not lead to
// where those elsewhere are for, and others that mean nothing to anybody for what it
// does not know.
func (ex *execution) setPlaceholders(req *executor.Request, given map[string]string, elsewhere []string) {
	for name, b := range ex.bound {
		text, ok := given[name]
		if !ok {
			like := ""
			if b.To.OAuth == nil {
				like = b.Value.Reveal()
			}
			text = secret.Placeholder(like)
		}
		req.Env[name] = text
		if req.Bound == nil {
			req.Bound = make(map[string]bool, len(ex.bound))
		}
		req.Bound[name] = ok && !slices.Contains(elsewhere, name)
	}
}

// unreached tells of a secret that the tool needs and that can get nowhere, since
// the tool may not reach its hosts.
func (ex *execution) unreached(name string) {
	b, ok := ex.bound[name]
	if !ok || !slices.Contains(ex.tool.Tool.Version.Settings.Secrets, name) {
		return
	}
	hosts := strings.Join(b.To.Hosts, ", ")
	ex.notices = append(ex.notices, fmt.Sprintf("secrets: %s goes to %s and nowhere else, which the tool may not "+
		"reach: its network list needs a rule for that", name, hosts))
}

// failOnMissingTokens refuses the call if a token that the tool needs is not to be had, and
// tells of others.
func (ex *execution) failOnMissingTokens(failed map[string]error) error {
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		err := failed[name]
		if slices.Contains(ex.tool.Tool.Version.Settings.Secrets, name) {
			r := refuse(haft.StatusError, haft.FailRuntime, haft.RetrySame,
				"the tool needs the secret "+name+", and "+haft.MessageOf(err))
			r.cause = err
			return r
		}
		ex.notices = append(ex.notices, "secrets: "+name+": "+haft.MessageOf(err)+"; requests with it fail")
	}
	return nil
}

// leased has values that were fetched for the call removed from what leaves, too.
func (b *envBuilder) leased(ex *execution, values []secret.Named) {
	values = slices.DeleteFunc(slices.Clone(values), func(v secret.Named) bool {
		return slices.ContainsFunc(ex.lease.fetched, func(h secret.Named) bool { return h.Value.Equal(v.Value) })
	})
	if len(values) == 0 {
		return
	}
	ex.lease.fetched = slices.Concat(ex.lease.fetched, values)
	var own map[string]string
	if ex.agent != nil {
		own = ex.agent.Env
	}
	ex.redactor = b.redaction.redactor(&ex.lease, own, ex.call.Env)
}
