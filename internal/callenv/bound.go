package callenv

import (
	"maps"
	"slices"

	"haft"
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
func (e *Env) overlay(values []secret.Named, stored bool, agent haft.AgentID) {
	for _, v := range values {
		e.Vars[v.Name] = v.Value.Reveal()
		to := v.Bound
		if to == nil {
			to = e.Bound[v.Name].To
		}
		if to == nil {
			continue
		}
		if v.Value.IsZero() { // nothing that could be seen
			delete(e.Bound, v.Name)
			continue
		}
		if e.Bound == nil {
			e.Bound = map[string]Bound{}
		}
		e.Bound[v.Name] = Bound{Name: v.Name, Value: v.Value, To: to, Stored: stored, Agent: agent}
	}
}

// overlayText is overlay for what came as text.
func (e *Env) overlayText(env map[string]string) {
	for name, text := range env {
		e.overlay([]secret.Named{{Name: name, Value: secret.New(text)}}, false, "")
	}
}

// BoundList lists the bound secrets by name, those first that a tool says it needs.
func (e *Env) BoundList(needs []string) []Bound {
	var first, rest []Bound
	for _, name := range slices.Sorted(maps.Keys(e.Bound)) {
		if b := e.Bound[name]; slices.Contains(needs, name) {
			first = append(first, b)
		} else {
			rest = append(rest, b)
		}
	}
	return append(first, rest...)
}

// NamedHosts returns the hosts of the bound secrets that a text names as {{ NAME }}.
func (e *Env) NamedHosts(text string) []string {
	if len(e.Bound) == 0 {
		return nil
	}
	var hosts []string
	for _, name := range secret.References(text) {
		if b, ok := e.Bound[name]; ok {
			hosts = append(hosts, b.To.Hosts...)
		}
	}
	return hosts
}

// SetPlaceholders writes placeholders for bound secrets to the environment of the program: those
// that its egress route replaces, and, for secrets that the route does not know, others that mean
// nothing to anybody. It returns for each bound secret whether the route replaces it on the way to
// a host that it leads to; those elsewhere are not such.
func (e *Env) SetPlaceholders(env, given map[string]string, elsewhere []string) map[string]bool {
	if len(e.Bound) == 0 {
		return nil
	}
	replaced := make(map[string]bool, len(e.Bound))
	for name, b := range e.Bound {
		text, ok := given[name]
		if !ok {
			like := ""
			if b.To.OAuth == nil {
				like = b.Value.Reveal()
			}
			text = secret.Placeholder(like)
		}
		env[name] = text
		replaced[name] = ok && !slices.Contains(elsewhere, name)
	}
	return replaced
}

// Variables lists the variables of the environment with where they come from: those of the
// call first, which its caller chose, and each group by name.
func (e *Env) Variables(agent *haft.Agent, call map[string]string) []haft.Variable {
	type layer struct {
		origin string
		names  map[string]bool
	}
	layers := []layer{{haft.OriginCall, map[string]bool{}}, {haft.OriginAgent, map[string]bool{}},
		{haft.OriginOrganisation, map[string]bool{}}}
	for name := range call {
		layers[0].names[name] = true
	}
	for name := range ownVars(agent) {
		layers[1].names[name] = true
	}
	if s := e.stored; s != nil {
		for i, list := range [][]secret.Named{s.Agent, s.Org} {
			for _, v := range list {
				layers[i+1].names[v.Name] = true
			}
		}
	}
	var all []haft.Variable
	for i, l := range layers {
		for _, name := range slices.Sorted(maps.Keys(l.names)) {
			if slices.ContainsFunc(layers[:i], func(above layer) bool { return above.names[name] }) {
				continue
			}
			v := haft.Variable{Name: name, Origin: l.origin}
			for _, below := range layers[i+1:] {
				if v.Replaces == "" && below.names[name] {
					v.Replaces = below.origin
				}
			}
			if b, ok := e.Bound[name]; ok {
				v.Hosts = b.To.Hosts
			}
			all = append(all, v)
		}
	}
	return all
}

// Values are names and values of the variables in turn, for a digest and nothing
// else. A token of OAuth is left out: it is renewed while a call waits.
func (e *Env) Values() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(e.Vars)) {
		if b, ok := e.Bound[name]; ok && b.To.OAuth != nil {
			continue
		}
		all = append(all, name, e.Vars[name])
	}
	return all
}
