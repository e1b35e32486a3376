// Package apimock answers the requests of tools instead of external APIs, for haft test.
//
//	tool ── request ──► egress proxy ──► Mock ──► the first rule that fits: its answer
//	                                        ├───► else the cassette: the recorded answer
//	                                        └───► else status 599, and the case fails
//
// A [Rule] says which requests it is for and how they are answered: with a fixed text, a template, one of several
// answers in order, late, in part, or not at all. A cassette is a file of requests and answers that were recorded
// from the real API once, without secrets.
//
// The proxy checks requests before they come here (see [egress.Mock]): a mock never makes a host reachable that the
// tool may not reach, and never gets the value of a secret.
package apimock

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/egress"
	"haft/internal/secret"
)

// The bounds of a mock.
const (
	maxSeen    = 10_000   // requests that are remembered
	maxKept    = 64 << 10 // bytes of a body that are remembered
	maxRequest = 8 << 20  // bytes of a body that are compared
	maxPer     = 1000     // values of the header that a rule counts for
)

// Options adjust a mock. The zero value is useful.
type Options struct {
	// Cassette is the file with recorded answers; "" means that there are none.
	Cassette string
	// Record asks the real API for the requests that no rule is for, and keeps the answers for [Mock.Save].
	Record bool
	// Secrets are values that are removed from what is recorded and shown.
	Secrets []secret.Named
	// Now is the clock of rates; nil means [time.Now].
	Now func() time.Time
}

// A Mock answers the requests of one test case. It is safe for concurrent use.
type Mock struct {
	rules    []*ruleState
	o        Options
	clean    *cleaner
	cassette *cassette // nil if there is none

	mu         sync.Mutex
	seen       []Seen
	unexpected []string
	failed     error // of recording
}

// ruleState is a rule and what it got.
type ruleState struct {
	Rule
	name    string
	answers []*compiled
	rate    rate
	used    int
	per     map[string]*limiter
}

// A Report is what a mock saw.
type Report struct {
	// Requests are all requests in order, 10,000 at most.
	Requests []Seen
	// Unexpected says, for each request that no rule is for, how it differs from the nearest rule.
	Unexpected []string
	// Unused says which rules did not get as many requests as their Times.
	Unused []string
}

// New makes a mock. It reads the cassette.
func New(rules []Rule, o Options) (*Mock, error) {
	if len(rules) > maxRules {
		return nil, invalid("there are more than %d rules", maxRules)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Mock{o: o, clean: newCleaner(o.Secrets)}
	for i, r := range rules {
		s := &ruleState{Rule: r, name: fmt.Sprintf("rule %d", i+1), per: map[string]*limiter{}}
		if r.At.Line > 0 {
			s.name += fmt.Sprintf(" (line %d)", r.At.Line)
		}
		if err := r.Check(); err != nil {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: s.name + ": " + haft.MessageOf(err), Err: err}
		}
		for _, a := range r.answers() {
			c, err := a.compile()
			if err != nil {
				return nil, err
			}
			s.answers = append(s.answers, c)
		}
		var err error
		if s.rate, err = parseRate(r.Rate); err != nil {
			return nil, err
		}
		m.rules = append(m.rules, s)
	}
	if o.Cassette == "" {
		return m, nil
	}
	m.cassette = &cassette{}
	if o.Record {
		return m, nil
	}
	var err error
	m.cassette, err = readCassette(o.Cassette)
	return m, err
}

// Answer answers a request: it is for [egress.Mock].
func (m *Mock) Answer(r egress.MockRequest) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err == nil && len(body) > maxRequest {
		err = invalid("the body of the request has more than %d bytes", maxRequest)
	}
	if err != nil {
		return nil, err
	}
	s := Seen{Method: r.Method, URL: r.URL, Header: r.Header, Body: body, To: m.clean.url(r.URL)}
	answer, n, wait := m.find(&s)
	switch {
	case wait > 0:
		s.Status = http.StatusTooManyRequests
		m.remember(s)
		return tooMany(wait), nil
	case answer == nil:
		return m.recorded(r, s)
	}
	s.Status = answer.Status
	m.remember(s)
	resp, err := answer.send(r.Context(), s, n)
	if err != nil && !isCut(err) && r.Context().Err() == nil {
		return m.refuse(s, s.Rule+" of the mock: "+err.Error()), nil
	}
	return resp, err
}

// find returns the answer of the first rule that a request is for, and the number of the request in it, or how long
// to wait for one.
func (m *Mock) find(s *Seen) (answer *compiled, n int, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rules {
		if r.Times > 0 && r.used >= r.Times || len(r.Request.Differences(*s)) > 0 {
			continue
		}
		s.Rule = r.name
		l := r.limiterOf(s.Header.Get(r.Per))
		if wait := l.take(r.rate, m.o.Now()); wait > 0 {
			return nil, 0, wait
		}
		r.used++
		l.answered++
		return r.answers[min(l.answered, len(r.answers))-1], l.answered, 0
	}
	return nil, 0, 0
}

// limiterOf returns what counts the requests with a value of the header. Those beyond the bound count together.
func (r *ruleState) limiterOf(value string) *limiter {
	if r.Per == "" || r.per[value] == nil && len(r.per) >= maxPer {
		value = ""
	}
	if r.per[value] == nil {
		r.per[value] = &limiter{}
	}
	return r.per[value]
}

// remember keeps a request for the report.
func (m *Mock) remember(s Seen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.seen) < maxSeen {
		s.Body = s.Body[:min(len(s.Body), maxKept)]
		m.seen = append(m.seen, s)
	}
}

// refuse answers a request that cannot be answered, and keeps why for the report.
func (m *Mock) refuse(s Seen, message string) *http.Response {
	message = m.clean.text(message)
	m.mu.Lock()
	if len(m.unexpected) < maxSeen {
		m.unexpected = append(m.unexpected, message)
	}
	m.mu.Unlock()
	s.Status = StatusUnexpected
	m.remember(s)
	return unexpected(message)
}

// nearest says which rule a request is nearest to, and what differs.
func (m *Mock) nearest(s Seen) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var best []string
	var name string
	for _, r := range m.rules {
		d := r.Request.Differences(s)
		if len(d) == 0 {
			d = []string{fmt.Sprintf("it is for %d requests, and this is one more", r.Times)}
		}
		if best == nil || len(d) < len(best) {
			best, name = d, r.name
		}
	}
	if best == nil {
		return "there is no rule"
	}
	return "the nearest is " + name + ": " + strings.Join(best, "; ")
}

// Report returns what the mock saw so far.
func (m *Mock) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := Report{Requests: slices.Clone(m.seen), Unexpected: slices.Clone(m.unexpected)}
	for _, rule := range m.rules {
		if rule.used < rule.Times {
			r.Unused = append(r.Unused, fmt.Sprintf("%s of the mock got %d requests, want %d", rule.name, rule.used,
				rule.Times))
		}
	}
	return r
}

// Save writes the cassette, if answers were recorded.
func (m *Mock) Save() error {
	if m.cassette == nil || !m.o.Record {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return m.failed
	}
	if len(m.cassette.Exchanges) == 0 { // no answer came: what was recorded before stays
		return nil
	}
	return m.cassette.write(m.o.Cassette)
}

// fail keeps the first error of recording.
func (m *Mock) fail(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = errors.Join(m.failed, err)
	return err
}
