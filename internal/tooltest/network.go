package tooltest

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"haft"
	"haft/internal/apimock"
	"haft/internal/egress"
	"haft/internal/secret"
)

// answer answers a request of a tool: by the mock of the case whose user it is. Without a case there is no answer.
func (w *world) answer(req egress.MockRequest) (*http.Response, error) {
	found, ok := w.runs.Load(req.Principal.Org + "/" + req.Principal.User)
	switch {
	case !ok && req.Principal.User == "" && w.cfg.RealNetwork: // an MCP server is asked for its tools
		return req.Send()
	case !ok:
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the network is mocked, and the request is of " +
			"no case: haft test --real-network lets out those to MCP servers"}
	}
	r := found.(*run) //nolint:forcetypeassert // nothing else is stored
	if r.c.Network == networkReal && !r.cfg.RealNetwork {
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: "the case asks for the real network: haft test --real-network allows it"}
	}
	if r.c.Network == networkReal {
		r.meet(req.URL.Hostname())
		if strings.EqualFold(req.URL.Hostname(), noHost) { // the tool may reach no host, and so asks no resolver
			return nil, &haft.Error{Code: haft.CodeDenied, Message: "the settings of the tool name no host"}
		}
		return req.Send()
	}
	return r.mock.Answer(req)
}

// networkReal lets the requests of a case reach the network.
const networkReal = "real"

// meet notes that a host was reached.
func (r *run) meet(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.real = append(r.real, host)
}

// secretVar begins the variables with the values of secrets while answers are recorded: the real API needs the real
// value, which does not belong in a test file.
const secretVar = "HAFT_TEST_SECRET_"

// secretValue is the value of a secret of the case.
func (r *run) secretValue(name string, s Secret) secret.Value {
	if r.cfg.Record && r.c.Record != "" {
		return secret.New(cmp.Or(os.Getenv(secretVar+name), s.Value))
	}
	return secret.New(s.Value)
}

// openMock makes the mock of the case, and lets requests find it until the function that it returns is called.
func (r *run) openMock() (release func(), err error) {
	o := apimock.Options{Record: r.cfg.Record && r.c.Record != ""}
	if r.c.Record != "" {
		if o.Cassette, err = r.file.within(r.c.Record); err != nil {
			return nil, err
		}
	}
	for name, s := range r.c.Secrets {
		o.Secrets = append(o.Secrets, secret.Named{Name: name, Value: r.secretValue(name, s)})
	}
	if r.mock, err = apimock.New(r.c.Mock, o); err != nil {
		return nil, fmt.Errorf("make the mock: %w", err)
	}
	key := r.principal.Org + "/" + r.principal.User
	r.runs.Store(key, r)
	return func() { r.runs.Delete(key) }, nil
}

// closeMock says what is wrong with the requests of the case, and keeps those that were recorded.
func (r *run) closeMock() {
	report := r.mock.Report()
	for _, text := range report.Unexpected {
		r.add(Fault{"request", "unexpected request: " + text})
	}
	for _, text := range report.Unused {
		r.add(Fault{"request", text})
	}
	if err := r.mock.Save(); err != nil {
		r.fault("record", err)
	}
}

// isUnanswered reports whether the case made a request that no rule is for.
func (r *run) isUnanswered() bool { return r.mock != nil && len(r.mock.Report().Unexpected) > 0 }

// hosts returns the hosts that the case has met so far, sorted.
func (r *run) hosts() []string {
	r.mu.Lock()
	list := slices.Clone(r.real)
	r.mu.Unlock()
	for _, s := range r.mock.Report().Requests {
		list = append(list, s.URL.Hostname())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// requests compares the requests that the mock got with those that are expected, in order.
func (c *checker) requests() {
	if c.Requests == nil {
		return
	}
	want := *c.Requests
	if len(want) != len(c.seen) {
		var list []string
		for _, s := range c.seen {
			list = append(list, s.String())
		}
		c.fault("requests", "expected %d requests, there were %d\n%s", len(want), len(c.seen),
			indent("+ ", strings.Join(list, "\n")))
		return
	}
	for i, w := range want {
		if d := w.Differences(c.seen[i]); len(d) > 0 {
			c.fault("requests", "request %d (%s) differs: %s", i+1, c.seen[i], strings.Join(d, "; "))
		}
	}
}
