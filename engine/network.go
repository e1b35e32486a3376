package engine

import (
	"context"
	"net"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/sandbox"
	"haft/secret"
)

// networkFull is how a tool asks for every public host. Policy must name it.
const networkFull = "full"

// A Gate makes the ways out of sandboxes.
type Gate interface {
	// Open makes the way out of one call.
	Open(ctx context.Context, w Way) (*Exit, error)
	// Host returns which hosts an entry of a tool's network is about, for policy.
	Host(entry string) (string, error)
}

// A Way is where one call wants to go.
type Way struct {
	Call haft.Call
	// Hosts are what it may reach, as the tool names them.
	Hosts []string
	// Bound are secrets that are put in on the way, the most wanted first.
	Bound []Bound
}

// An Exit is a way out that was made.
type Exit struct {
	Passage Passage
	// CA has certificates that the call's programs have to trust; nil if none.
	CA []byte
	// Stand is what programs are given instead of bound secrets, by name.
	Stand map[string]string
	// Leased are tokens that bound secrets were exchanged for, and Failed says why
	// that could not be done.
	Leased []secret.Named
	Failed map[string]error
	// Unreached are bound secrets whose hosts are not among those of the way.
	Unreached []string
}

// A Passage is the way out of one call, and of no other.
type Passage interface {
	// Serve serves one connection of the sandbox, and returns when it is over.
	Serve(ctx context.Context, conn net.Conn)
	// Refused reports whether a connection was refused.
	Refused() bool
	// Close ends the passage and tells what went through it, and which tokens were
	// fetched for it.
	Close() ([]Contact, []secret.Named)
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

// reach opens the way out that the tool names, or its organisation if it names none. Hosts that a rule forbids are not
// reached, and a way that cannot be given refuses the call: nothing is weakened
// in silence.
func (e *Engine) reach(ctx context.Context, f *flight, req *executor.Request) error {
	want := f.tool.Tool.Version.Settings.Network
	switch k := f.tool.Tool.Version.Kind; {
	case k == haft.KindBuiltin && len(f.bound) == 0:
		want = nil // what it reaches without bound secrets, it reaches by itself
	case len(want) == 0 && k != haft.KindBuiltin && k != haft.KindMCP:
		want = f.config.Network
	}
	if len(want) == 0 {
		f.stand(req, nil, nil)
		for _, name := range f.tool.Tool.Version.Settings.Secrets {
			f.unreached(name)
		}
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
	exit, err := e.cfg.Gate.Open(ctx, Way{Call: f.named(), Hosts: want, Bound: f.bounds()})
	if err != nil {
		return no(haft.FailIsolation, "the network of the tool cannot be given: "+haft.MessageOf(err))
	}
	f.passage = exit.Passage
	if ctx.Err() != nil {
		e.unreach(f)
		return context.Cause(ctx)
	}
	if err := f.unhad(exit.Failed); err != nil {
		e.unreach(f)
		return err
	}
	for _, name := range exit.Unreached {
		f.unreached(name)
	}
	e.leased(f, exit.Leased)
	f.stand(req, exit.Stand, exit.Unreached)
	req.Network, req.Outlet, req.CA = sandbox.NetworkOutlet, exit.Passage.Serve, exit.CA
	return nil
}

// unreach closes the way out and keeps what went through it, for the audit, and
// what was refused, for the model.
func (e *Engine) unreach(f *flight) {
	if f.passage == nil {
		return
	}
	var leased []secret.Named
	f.contacts, leased = f.passage.Close()
	f.passage = nil
	e.leased(f, leased)
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
