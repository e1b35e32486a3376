package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox/cell"
)

// Config says how many sessions there may be, and for how long. Zero fields get defaults.
type Config struct {
	// Total bounds the sessions of this server, PerOrg those of an organisation and PerOwner
	// those of one owner; 0 means 256, and 5/8 and half of Total.
	Total, PerOrg, PerOwner int
	// TTL is how long a session lives if nothing else is asked for, MaxTTL the longest that
	// can be; 0 means an hour and a day. Idle is after how long without use it ends; 0 means
	// 10 minutes.
	TTL, MaxTTL, Idle time.Duration
	// Home is the sandbox of sessions whose request names none; empty means [haft.SandboxLocal].
	Home haft.SandboxType
	// Open starts the sandbox of a session with its agent, and says what confines it.
	Open func(ctx context.Context, req executor.Request) (*cell.Cell, haft.Isolation, error)
}

// remembered bounds how many ended sessions are known by why they ended.
const remembered = 1024

// A Manager has the sessions of one server. It is safe for concurrent use.
//
// Lifecycle: New, use, Close.
type Manager struct {
	cfg Config
	// boot is a part of the ids of this server's sessions, so that those of another process
	// are told from those that never were.
	boot string

	mu      sync.Mutex
	closed  bool
	live    map[string]*Session
	running map[haft.CallID]*Process // commands that take input
	opening map[*opening]bool
	past    []past // the newest last

	permissions Permissions
	reviews     map[string]bool // organisations whose sessions are being reviewed
	reviewing   sync.WaitGroup
	ctx         context.Context // of reviews
	stop        context.CancelFunc
}

// An opening is a session that is being made.
type opening struct {
	owner   haft.Principal
	name    string
	made    haft.Call
	stopped bool // meanwhile
	due     bool // for a review; see [subject]
}

// past is why a session ended.
type past struct {
	id, org, owner string
	why            error
}

// New returns a manager without sessions.
func New(cfg Config) *Manager {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.TTL, time.Hour)
	set(&cfg.MaxTTL, 24*time.Hour)
	set(&cfg.Idle, 10*time.Minute)
	cfg.Home = cmp.Or(cfg.Home, haft.SandboxLocal)
	if cfg.Total <= 0 {
		cfg.Total = 256
	}
	if cfg.PerOrg <= 0 {
		cfg.PerOrg = max(1, cfg.Total*5/8)
	}
	if cfg.PerOwner <= 0 {
		cfg.PerOwner = max(1, cfg.Total/2)
	}
	m := &Manager{cfg: cfg, boot: strings.ToLower(rand.Text()[:8]), live: map[string]*Session{},
		running: map[haft.CallID]*Process{}, opening: map[*opening]bool{}, reviews: map[string]bool{}}
	m.ctx, m.stop = context.WithCancel(context.Background()) //nolint:forbidigo // Close ends it
	return m
}

// Options are what a session is made with.
type Options struct {
	// Name is what its owner calls it; empty means that it has only an id.
	Name string
	// TTL and Idle are as in [Config]; 0 means the server's.
	TTL, Idle time.Duration
	// Request has organisation, principal, limits, network, environment and layers.
	Request executor.Request
}

// owner names who a session belongs to: one user or credential, and one agent. It is empty
// for somebody who owns nothing.
func owner(p haft.Principal) string {
	if p.Agent == "" || p.Owner() == "" {
		return p.Owner()
	}
	return p.Owner() + "\x00" + p.Agent
}

// Open makes a session.
func (m *Manager) Open(ctx context.Context, o Options) (*Session, error) {
	if err := m.CheckTimes(o.TTL, o.Idle); err != nil {
		return nil, err
	}
	ttl, idle := min(cmp.Or(o.TTL, m.cfg.TTL), m.cfg.MaxTTL), cmp.Or(o.Idle, m.cfg.Idle)
	if err := checkName("session", o.Name); err != nil {
		return nil, err
	}
	p := o.Request.Principal
	begun, err := m.reserve(p, o)
	if err != nil {
		return nil, err
	}
	open := o.Request
	open.Env, open.Bound = nil, nil // those of each call are its own
	mounted, err := mount(ctx, &open)
	made := false
	defer func() {
		if !made {
			mounted.Release()
		}
	}()
	var c *cell.Cell
	var isolation haft.Isolation
	if err == nil {
		c, isolation, err = m.cfg.Open(ctx, open)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.opening, begun)
	if err != nil {
		return nil, err
	}
	if m.closed || begun.stopped {
		c.Release(false)
		return nil, cell.ErrClosed
	}
	now := time.Now().UTC()
	s := newSession(haft.Session{
		ID: "sess_" + m.boot + strings.ToLower(rand.Text()), Org: p.Org, Name: o.Name, Created: now,
		Owner:   strings.ReplaceAll(owner(p), "\x00", "/"),
		Expires: now.Add(ttl), IdleTimeout: haft.Millis(idle), Isolation: isolation,
		Requirements: o.Request.Requirements, Sandbox: cmp.Or(place(o.Request), m.cfg.Home),
	}, o.Request, c, mounted)
	made = true
	m.live[s.info.ID] = s
	// Permissions may have changed since the engine last decided about the call, and before it was in m.opening: then
	// nobody has asked about this session.
	s.due = true
	m.review(p.Org)
	context.AfterFunc(s.ctx, func() { m.forget(s) })
	return s, nil
}

// checkName refuses names that cannot be told or written in a path.
func checkName(of, name string) error {
	if len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '/' }) ||
		name == "." || name == ".." {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the name of a " + of +
			" has at most 64 letters, digits and signs of ASCII without /"}
	}
	return nil
}

// reserve checks that one more session may be opened, and counts it.
func (m *Manager) reserve(p haft.Principal, asked Options) (*opening, error) {
	name := asked.Name
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, cell.ErrClosed
	case owner(p) == "":
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "a session needs an owner: a user or a key"}
	}
	all, ofOrg, ofOwner, taken := 0, 0, 0, false
	count := func(q haft.Principal, other string) {
		all++
		if q.Org == p.Org {
			ofOrg++
			if owner(q) == owner(p) {
				ofOwner++
				taken = taken || name != "" && other == name
			}
		}
	}
	for _, s := range m.live {
		count(s.owner, s.info.Name)
	}
	for o := range m.opening {
		count(o.owner, o.name)
	}
	tooMany := func(format string, n int) error {
		return &haft.Error{Code: haft.CodeRateLimited, Message: fmt.Sprintf(format, n) +
			", which is the most; end one, or wait until one ends"}
	}
	switch {
	case taken:
		return nil, &haft.Error{Code: haft.CodeConflict,
			Message: "there is a session of this name, or it is being made"}
	case ofOwner >= m.cfg.PerOwner:
		return nil, tooMany("you have %d sessions", ofOwner)
	case ofOrg >= m.cfg.PerOrg:
		return nil, tooMany("the organisation has %d sessions", ofOrg)
	case all >= m.cfg.Total:
		return nil, tooMany("the server has as many sessions as it may have (%d)", m.cfg.Total)
	}
	begun := &opening{owner: p, name: name, made: madeBy(asked.Request)}
	m.opening[begun] = true
	return begun, nil
}

// forget drops a session that has ended, and remembers why.
func (m *Manager) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, s.info.ID)
	m.past = append(m.past, past{s.info.ID, s.info.Org, owner(s.owner), s.Why()})
	if len(m.past) > remembered {
		m.past = slices.Clone(m.past[len(m.past)-remembered/2:])
	}
}

// Get returns the session of the principal with this id or name. The error of one that has
// ended says why.
func (m *Manager) Get(p haft.Principal, id string) (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := func(org, o string) bool { return org == p.Org && o == owner(p) && o != "" }
	if s := m.live[id]; s != nil && mine(s.info.Org, owner(s.owner)) {
		if err := s.Why(); err != nil {
			return nil, err
		}
		return s, nil
	}
	for _, s := range m.live {
		if s.info.Name == id && id != "" && mine(s.info.Org, owner(s.owner)) && s.ctx.Err() == nil {
			return s, nil
		}
	}
	for _, e := range slices.Backward(m.past) {
		if e.id == id && mine(e.org, e.owner) {
			return nil, e.why
		}
	}
	if rest, ok := strings.CutPrefix(id, "sess_"); ok && !strings.HasPrefix(rest, m.boot) {
		return nil, ended("it is not of this server process, which may have been started anew")
	}
	return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such session"}
}

// List lists the sessions of the principal, the oldest first; with all, those of its whole
// organisation.
func (m *Manager) List(p haft.Principal, all bool) []haft.Session {
	return m.infos(func(s *Session) bool {
		return s.info.Org == p.Org && (all || owner(s.owner) == owner(p) && owner(p) != "")
	})
}

// infos describes the sessions that match.
func (m *Manager) infos(match func(*Session) bool) []haft.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []haft.Session{}
	for _, s := range m.live {
		if match(s) {
			out = append(out, s.Info())
		}
	}
	slices.SortFunc(out, func(a, b haft.Session) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Extend sets when a session ends at the latest, counted from now, and after how long without
// use; 0 changes nothing. However often it is extended, it ends MaxTTL after it was made.
func (m *Manager) Extend(s *Session, ttl, idle time.Duration) error {
	if err := m.CheckTimes(ttl, idle); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ttl > 0 {
		s.info.Expires = time.Now().Add(ttl).UTC()
		if last := s.info.Created.Add(m.cfg.MaxTTL); s.info.Expires.After(last) {
			s.info.Expires = last
		}
	}
	if idle > 0 {
		s.info.IdleTimeout = haft.Millis(idle)
	}
	if s.idle != nil {
		s.ttl.Reset(time.Until(s.info.Expires))
		s.idle.Reset(s.info.IdleTimeout.D())
	}
	return nil
}

// minTime is the shortest time that a session can be given.
const minTime = time.Second

// CheckTimes refuses times that no session can have; 0 means that none is asked for.
func (m *Manager) CheckTimes(ttl, idle time.Duration) error {
	for _, d := range []time.Duration{ttl, idle} {
		if d > m.cfg.MaxTTL {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("a session lives at most %s", m.cfg.MaxTTL)}
		}
		if d != 0 && d < minTime {
			return &haft.Error{Code: haft.CodeInvalid, Message: "the times of a session are at least 1 second"}
		}
	}
	return nil
}

// End ends a session of the principal, or with all one of its organisation that has this id.
func (m *Manager) End(p haft.Principal, id string, all bool) error {
	s, err := m.Get(p, id)
	if err != nil && all {
		m.mu.Lock()
		if o := m.live[id]; o != nil && o.info.Org == p.Org {
			s, err = o, nil
		}
		m.mu.Unlock()
	}
	if err != nil {
		return err
	}
	s.Close("it was ended")
	return nil
}

// Stop ends the sessions whose owners match, also those that are being made, and returns
// how many live ones there were. It does not wait for them.
func (m *Manager) Stop(why string, match func(haft.Principal) bool) int {
	list := m.stopping(match)
	for _, s := range list {
		s.end(why)
	}
	return len(list)
}

// stopping returns the sessions whose owners match.
func (m *Manager) stopping(match func(haft.Principal) bool) []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	for o := range m.opening {
		o.stopped = o.stopped || match(o.owner)
	}
	var list []*Session
	for _, s := range m.live {
		if match(s.owner) {
			list = append(list, s)
		}
	}
	return list
}

// Close ends all sessions and waits for them. There are none afterwards.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	for _, s := range m.stopping(func(haft.Principal) bool { return true }) {
		s.Close("the server is stopping")
	}
	m.reviewing.Wait()
}

// Use returns the session of the principal that has this name. If there is none it is made
// as the request says. One that was made under other rules is refused.
func (m *Manager) Use(ctx context.Context, req executor.Request, name string) (*Session, error) {
	if name == "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a session needs a name"}
	}
	s, err := m.Get(req.Principal, name)
	if haft.CodeOf(err) == haft.CodeNotFound && !strings.HasPrefix(name, "sess_") {
		if s, err = m.Open(ctx, Options{Name: name, Request: req}); haft.CodeOf(err) == haft.CodeConflict {
			if made, gone := m.Get(req.Principal, name); gone == nil {
				s, err = made, nil // another call has made it meanwhile
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if s.rules != rulesOf(req) {
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "sandbox, limits, network, isolation, workspace, " +
			"packages or secrets are not what they were when the session was made; end it, or use another name"}
	}
	s.learn(req)
	return s, nil
}

// place is the sandbox that a request is for, or "" for that of the server. A session stays in its first one.
func place(req executor.Request) haft.SandboxType {
	if len(req.Places) == 0 {
		return ""
	}
	return req.Places[0]
}

// rulesOf names what confines a session, what it has, and the values of its calls'
// environment. A call with other secrets would not redact those that the session remembers.
func rulesOf(req executor.Request) string {
	limits := req.Limits
	limits.Wall, limits.CPU, limits.Network = 0, 0, 0 // of a call, and not of its session
	h := sha256.New()
	fmt.Fprintf(h, "%+v %s %q %+v %q", limits, req.Network, req.Route, req.Need, place(req))
	for _, l := range req.Layers {
		fmt.Fprintf(h, " %q", l.Digest)
	}
	if w := req.Workspace; w != nil {
		fmt.Fprintf(h, " workspace %q %t", w.Call.ID, w.Call.ReadOnly)
	}
	for _, k := range slices.Sorted(maps.Keys(req.Env)) {
		if _, bound := req.Bound[k]; !bound && !strings.HasPrefix(k, "HAFT_") {
			fmt.Fprintf(h, " %q=%q", k, req.Env[k])
		}
	}
	return string(h.Sum(nil))
}
