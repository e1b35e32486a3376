package engine

import (
	"context"
	"net"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/sandbox"
)

// networkFull is how a tool asks for every public host. Policy must name it.
const networkFull = "full"

// A Gate makes the ways out of sandboxes.
type Gate interface {
	// Open makes the way out of one call, to hosts as the tool names them.
	Open(c haft.Call, hosts []string) (Passage, error)
	// Host returns which hosts an entry of a tool's network is about, for policy.
	Host(entry string) (string, error)
}

// A Passage is the way out of one call, and of no other.
type Passage interface {
	// Serve serves one connection of the sandbox, and returns when it is over.
	Serve(ctx context.Context, conn net.Conn)
	// CA returns certificates that the call's programs have to trust; nil if none.
	CA() []byte
	// Refused reports whether a connection was refused.
	Refused() bool
	// Close ends the passage and tells what went through it.
	Close() []Contact
}

// A Contact is one connection that a call made, or was refused.
type Contact struct {
	// To is where: host and port, and the method where it is known.
	To string `json:"to"`
	// Rule is what allowed it.
	Rule string `json:"rule,omitempty"`
	// Refused says why it was not made, and what to ask for.
	Refused string      `json:"refused,omitempty"`
	Secrets []string    `json:"secrets,omitempty"`
	Up      int64       `json:"up"`
	Down    int64       `json:"down"`
	Took    haft.Millis `json:"took_ms"`
}

// maxContacts is how many connections of a call the audit keeps.
const maxContacts = 100

// reach opens the way out that the tool names. Hosts that a rule forbids are not
// reached, and a way that cannot be given refuses the call: nothing is weakened
// in silence.
func (e *Engine) reach(f *flight, req *executor.Request) error {
	want := f.tool.Tool.Version.Settings.Network
	if len(want) == 0 {
		return nil
	}
	no := func(kind haft.FailureKind, message string) error {
		return refuse(haft.StatusDenied, kind, haft.RetryNever, message)
	}
	if e.cfg.Gate == nil {
		return no(haft.FailIsolation, "a network of named hosts cannot be given here")
	}
	hosts := make([]string, len(want))
	for i, entry := range want {
		if entry == networkFull {
			if hosts[i] = "*"; len(f.decision.Networks) == 0 {
				return no(haft.FailDenied, "the tool wants every host, which a rule of the policy has to allow: network: [\"*\"]")
			}
			continue
		}
		host, err := e.cfg.Gate.Host(entry)
		if err != nil {
			return no(haft.FailDenied, "the network of the tool cannot be read: "+haft.MessageOf(err))
		}
		hosts[i] = host
	}
	if _, refused := f.decision.Reach(hosts); len(refused) > 0 {
		return no(haft.FailDenied, "policy does not let the tool reach "+strings.Join(refused, ", "))
	}
	passage, err := e.cfg.Gate.Open(f.named(), want)
	if err != nil {
		return no(haft.FailIsolation, "the network of the tool cannot be given: "+haft.MessageOf(err))
	}
	f.passage = passage
	req.Network, req.Outlet, req.CA = sandbox.NetworkOutlet, passage.Serve, passage.CA()
	return nil
}

// unreach closes the way out and keeps what went through it, for the audit, and
// what was refused, for the model.
func (f *flight) unreach() {
	if f.passage == nil {
		return
	}
	f.contacts = f.passage.Close()
	f.passage = nil
	var told []string
	for _, c := range f.contacts {
		if c.Refused != "" && !slices.Contains(told, c.Refused) && len(told) < 10 {
			told = append(told, c.Refused)
			f.notices = append(f.notices, "network: "+c.Refused)
		}
	}
}

// kept returns as many contacts as the audit keeps.
func (f *flight) keptContacts() []Contact { return f.contacts[:min(len(f.contacts), maxContacts)] }
