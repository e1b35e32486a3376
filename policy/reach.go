package policy

import (
	"net"
	"slices"
	"strconv"

	"haft"
)

// Forbids returns the name of the rule of the first network that does not allow a host and
// port, or "" if all allow it.
func Forbids(networks []Network, host string, port uint16) (rule string) {
	to := net.JoinHostPort(host, strconv.Itoa(int(port)))
	for _, n := range networks {
		if !n.covers(to) {
			return n.Rule
		}
	}
	return ""
}

// Networks returns what the rules that match say of the network, whether or not they
// let the call run: it is for what runs without a call, such as the command of an MCP
// server. A rule that cannot be evaluated is an error with [haft.CodeDenied].
func (p *Policy) Networks(req Request) ([]Network, error) {
	if p == nil {
		return nil, nil
	}
	var all []Network
	e := &evaluation{req: &req}
	for i := range p.layers {
		l := &p.layers[i]
		for j := range l.rules {
			r := &l.rules[j]
			if r.network == nil {
				continue
			}
			ref := l.ref(r.id)
			if l.org != "" && l.org != req.Principal.Org {
				return nil, &haft.Error{Code: haft.CodeDenied, Message: "the policy is that of another organisation"}
			}
			matched, _, err := r.matches(&req, e)
			if err != nil {
				return nil, &haft.Error{Code: haft.CodeDenied, Err: err,
					Message: "the rule " + ref + " about the network cannot be evaluated: " +
						haft.MessageOf(publicError(err))}
			}
			if matched && !slices.ContainsFunc(all, func(n Network) bool { return n.Rule == ref }) {
				all = append(all, Network{ref, r.network})
			}
		}
	}
	return all, nil
}

// Narrower returns the first of now, by the name of its rule, that may forbid something
// which all of was let through, or "" if none does.
func Narrower(was, now []Network) (rule string) {
	for _, n := range now {
		wider := func(old Network) bool {
			return !slices.ContainsFunc(old.Hosts, func(h string) bool { return !n.covers(h) })
		}
		if !n.covers("*") && !slices.ContainsFunc(was, wider) {
			return n.Rule
		}
	}
	return ""
}
