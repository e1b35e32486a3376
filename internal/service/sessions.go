package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"strconv"
	"strings"

	"haft"
	"haft/internal/registry"
	"haft/internal/session"
	"haft/policy"
)

// A SessionManager is how people work in sessions besides calls. It adds nothing to what they
// may do: the policy is asked about the call of run_command that would do the same.
type SessionManager struct {
	*base
	sessions *session.Manager
}

var (
	_ haft.Sessions      = (*SessionManager)(nil)
	_ haft.SessionFiles  = (*SessionManager)(nil)
	_ haft.SessionWorker = (*SessionManager)(nil)
)

// Sessions implements [haft.Sessions].
func (m *SessionManager) Sessions(_ context.Context, p haft.Principal) ([]haft.Session, error) {
	if err := m.authority.May(p, haft.CallsRead); err != nil {
		return nil, err
	}
	if m.sessions == nil {
		return []haft.Session{}, nil
	}
	return m.sessions.List(p, m.authority.SeesAll(p, haft.CallsRead)), nil
}

// EndSession implements [haft.Sessions].
func (m *SessionManager) EndSession(_ context.Context, p haft.Principal, id string) error {
	if err := m.authority.May(p, haft.CallsWrite); err != nil {
		return err
	}
	if m.sessions == nil {
		return errNoSessions
	}
	return m.sessions.End(p, id, m.authority.SeesAll(p, haft.CallsWrite))
}

// errNoSessions is the error of a server that has no sessions.
var errNoSessions = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such session"}

// own returns a session that is p's own.
func (m *SessionManager) own(p haft.Principal, act haft.Action, id string) (*session.Session, error) {
	if err := m.authority.May(p, act); err != nil {
		return nil, err
	}
	if m.sessions == nil {
		return nil, errNoSessions
	}
	return m.sessions.Get(p, id)
}

// work says what is done in a session besides calls: as the call that would do the same, and as
// what of it the filters of a policy do not see; empty is nothing.
type work struct {
	tool   string
	args   map[string]any
	unseen []policy.Direction
	// workspace is the one whose files the session gets, or nil.
	workspace *haft.CallWorkspace
}

// reads and writes are the work that a command does.
func reads(argv ...string) work  { return command(argv, policy.Output) }
func writes(argv ...string) work { return command(argv, policy.Input) }

// command is the work of run_command.
func command(argv []string, unseen ...policy.Direction) work {
	return work{tool: "run_command", args: map[string]any{"argv": argv}, unseen: unseen}
}

// use returns a session that is p's own, if p may do the work in it.
func (m *SessionManager) use(ctx context.Context, p haft.Principal, act haft.Action, id string,
	w work) (*session.Session, error) {
	s, err := m.own(p, act, id)
	if err != nil {
		return nil, err
	}
	info := s.Info()
	w.args["session"] = cmp.Or(info.Name, id)
	args, err := json.Marshal(w.args)
	if err != nil {
		return nil, fmt.Errorf("encode a command: %w", err)
	}
	about := map[string]any{"session": info.ID, "work": w.args}
	return s, m.admit(ctx, haft.Call{Tool: w.tool, Args: args, Principal: p, Workspace: w.workspace}, "session.used",
		about, w.unseen...)
}

// admit is what all work in sessions passes that is no call. It refuses what the call c could not do,
// or not without being asked or filtered, takes what that call would cost of rates and quotas, and
// writes to the audit what is done.
func (m *SessionManager) admit(ctx context.Context, c haft.Call, kind string, about any,
	unseen ...policy.Direction) error {
	if reason, stopped := m.stopped(); stopped {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "all calls are stopped: " + reason}
	}
	d, err := m.decisions.Explain(ctx, c)
	if err != nil {
		return err
	}
	denied := func(why string) error { return &haft.Error{Code: haft.CodeDenied, Message: why} }
	switch {
	case d.Effect == policy.NeedsApproval && len(unseen) > 0:
		return denied("a person has to agree to this: make it a call of " + c.Tool)
	case d.Effect != policy.Allow && d.Effect != policy.NeedsApproval:
		return denied("the policy does not allow the call of " + c.Tool + " that does the same (" + d.Rule + ")")
	}
	rules, err := m.decisions.Rules(ctx, c.Principal.Org)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(unseen, rules.Filters) {
		return denied("the policy has filters, which cannot look into this: make it a call of " + c.Tool)
	}
	return m.changes.Charge(ctx, c.Principal, d, kind, about)
}

// stopped reports whether calls are refused, and why.
func (m *SessionManager) stopped() (string, bool) {
	if o, ok := m.operator.(interface{ Stopped() (string, bool) }); ok {
		return o.Stopped()
	}
	return "", false
}

// AddSession implements [haft.Sessions]. It makes the session by a call, so that all holds that
// holds for calls.
func (m *SessionManager) AddSession(ctx context.Context, p haft.Principal, n haft.NewSession) (*haft.Session, error) {
	if n.Name == "" {
		n.Name = "s-" + strings.ToLower(rand.Text()[:12])
	}
	_, err := m.own(p, haft.CallsWrite, n.Name)
	switch {
	case err == nil:
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "there is a session of this name already"}
	case haft.CodeOf(err) != haft.CodeNotFound || m.sessions == nil:
		return nil, err
	case strings.HasPrefix(n.Name, "sess_"):
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the name of a session does not begin as their ids do"}
	}
	if err := m.sessions.CheckTimes(n.TTL.D(), n.Idle.D()); err != nil {
		return nil, err
	}
	if err := registry.CheckPackages(n.Requirements); err != nil {
		return nil, err
	}
	c := haft.Call{Principal: p, Requirements: n.Requirements, Sandbox: n.Sandbox}
	if w := n.Workspace; w != nil {
		c.Workspace = &haft.CallWorkspace{Name: w.Name, ReadOnly: w.ReadOnly}
	}
	if err := m.makeBy(ctx, c, n); err != nil {
		return nil, err
	}
	s, err := m.own(p, haft.CallsWrite, n.Name)
	if err != nil {
		return nil, err
	}
	return m.extend(s, n.TTL, n.Idle)
}

// makeBy makes a session by calls like c. If one of them fails it ends the session, which would keep its workspace from
// others.
func (m *SessionManager) makeBy(ctx context.Context, c haft.Call, n haft.NewSession) (err error) {
	var made []haft.CallID
	call := func(tool string, args map[string]any) error {
		c.ID = haft.NewCallID() // it is needed also if the call returns nothing but an error
		made = append(made, c.ID)
		return m.make(ctx, c, tool, args)
	}
	defer func() {
		if err != nil {
			for _, id := range made {
				m.sessions.EndMadeBy(id, "it could not be made as it was asked for")
			}
		}
	}()
	if n.Language == "" || n.TTY {
		// A command makes the first one of the client faster. In a terminal it takes longer than that is worth.
		args := map[string]any{"session": n.Name, "argv": []string{"true"}}
		if n.TTY {
			args["argv"], args["tty"] = []string{}, true
		}
		if err := call("run_command", args); err != nil {
			return err
		}
	}
	if n.Language != "" {
		return call("run_code", map[string]any{"session": n.Name, "language": n.Language, "code": ""})
	}
	return nil
}

// make makes a call that makes a session.
func (m *SessionManager) make(ctx context.Context, c haft.Call, tool string, args map[string]any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	c.Tool, c.Args = tool, raw
	res, err := m.calls.Call(ctx, c)
	if err != nil {
		return err
	}
	return notMade(res)
}

// notMade says why the call that makes a session has not made it.
func notMade(res *haft.Result) error {
	code := haft.CodeInvalid
	switch res.Status {
	case haft.StatusSuccess:
		return nil
	case haft.StatusPending:
		return &haft.Error{Code: haft.CodeConflict, Message: "a person has to agree to call " + string(res.Call) +
			", which makes the session"}
	case haft.StatusDenied:
		code = haft.CodeDenied
	case haft.StatusRate:
		code = haft.CodeRateLimited
	}
	why := string(res.Status)
	if res.Error != nil {
		why = res.Error.Message
		switch {
		case res.Error.Kind == haft.FailDenied:
			code = haft.CodeDenied
		case res.Error.Kind == haft.FailException && res.Error.Retry == haft.RetryChanged:
			code = haft.CodeConflict // the workspace is in use, or packages contradict each other
		}
	}
	return &haft.Error{Code: code, Message: "the call " + string(res.Call) + " has not made the session: " + why}
}

// ExtendSession implements [haft.Sessions].
func (m *SessionManager) ExtendSession(ctx context.Context, p haft.Principal, id string,
	ttl, idle haft.Millis) (*haft.Session, error) {
	s, err := m.use(ctx, p, haft.CallsWrite, id, command([]string{"true"}))
	if err != nil {
		return nil, err
	}
	return m.extend(s, ttl, idle)
}

// extend sets how long a session lives.
func (m *SessionManager) extend(s *session.Session, ttl, idle haft.Millis) (*haft.Session, error) {
	if err := m.sessions.Extend(s, ttl.D(), idle.D()); err != nil {
		return nil, err
	}
	info := s.Info()
	return &info, nil
}

// SessionContexts implements [haft.Sessions]. Variables say themselves how they are shown: that is
// code, which runs.
func (m *SessionManager) SessionContexts(ctx context.Context, p haft.Principal,
	id string) ([]haft.SessionContext, error) {
	s, err := m.use(ctx, p, haft.CallsWrite, id, work{tool: "run_code",
		args: map[string]any{"language": "python", "code": "vars()"}, unseen: []policy.Direction{policy.Output}})
	if err != nil {
		return nil, err
	}
	return s.Contexts(ctx)
}

// RestartContext implements [haft.Sessions].
func (m *SessionManager) RestartContext(ctx context.Context, p haft.Principal, id, name string) error {
	s, err := m.use(ctx, p, haft.CallsWrite, id, command([]string{"kill", name}))
	if err != nil {
		return err
	}
	return s.EndContext(ctx, name)
}

// ListFiles implements [haft.SessionFiles].
func (m *SessionManager) ListFiles(ctx context.Context, p haft.Principal, id, path string,
	depth int) (*haft.SessionDir, error) {
	s, err := m.use(ctx, p, haft.CallsRead, id, reads("ls", path))
	if err != nil {
		return nil, err
	}
	return s.Files(ctx, path, depth)
}

// ReadFile implements [haft.SessionFiles].
func (m *SessionManager) ReadFile(ctx context.Context, p haft.Principal, id, path string) (io.ReadCloser, error) {
	s, err := m.use(ctx, p, haft.CallsRead, id, reads("cat", path))
	if err != nil {
		return nil, err
	}
	return s.OpenFile(ctx, path)
}

// WriteFile implements [haft.SessionFiles].
func (m *SessionManager) WriteFile(ctx context.Context, p haft.Principal, id, path string, content io.Reader) error {
	s, err := m.use(ctx, p, haft.CallsWrite, id, writes("tee", path))
	if err != nil {
		return err
	}
	_, err = s.WriteFile(ctx, path, 0, content)
	return err
}

// MakeDir implements [haft.SessionFiles].
func (m *SessionManager) MakeDir(ctx context.Context, p haft.Principal, id, path string) error {
	s, err := m.use(ctx, p, haft.CallsWrite, id, writes("mkdir", "-p", path))
	if err != nil {
		return err
	}
	return s.MakeDir(ctx, path)
}

// MoveFile implements [haft.SessionFiles].
func (m *SessionManager) MoveFile(ctx context.Context, p haft.Principal, id, from, to string) error {
	s, err := m.use(ctx, p, haft.CallsWrite, id, writes("mv", from, to))
	if err != nil {
		return err
	}
	return s.Move(ctx, from, to)
}

// RemoveFile implements [haft.SessionFiles].
func (m *SessionManager) RemoveFile(ctx context.Context, p haft.Principal, id, path string) error {
	s, err := m.use(ctx, p, haft.CallsWrite, id, writes("rm", "-r", path))
	if err != nil {
		return err
	}
	return s.Remove(ctx, path)
}

// WatchFiles implements [haft.SessionWorker].
func (m *SessionManager) WatchFiles(ctx context.Context, p haft.Principal, id,
	path string) iter.Seq2[haft.SessionChange, error] {
	s, err := m.use(ctx, p, haft.CallsRead, id, reads("ls", path))
	if err != nil {
		return func(yield func(haft.SessionChange, error) bool) { yield(haft.SessionChange{}, err) }
	}
	return s.Watch(ctx, path)
}

// SendInput implements [haft.SessionWorker]. What a person has agreed to is the command as it is:
// it takes no input.
func (m *SessionManager) SendInput(ctx context.Context, p haft.Principal, call haft.CallID,
	in haft.CommandInput) error {
	if err := m.authority.May(p, haft.CallsWrite); err != nil {
		return err
	}
	r, err := m.work.Seen(ctx, p, call, haft.CallsWrite)
	if err != nil {
		return err
	}
	refused := func(why string) error { return &haft.Error{Code: haft.CodeConflict, Message: why} }
	switch {
	case m.sessions == nil || r.Call.Tool != "run_command":
		return refused("the call takes no input: only those of run_command do")
	case r.Status.Final():
		return refused("the call has ended")
	case r.Status != haft.StatusRunning:
		return refused("the call does not run yet")
	case !m.sessions.Runs(call):
		return refused("the call takes no input, or not yet, or runs on another server than this one (" + r.Owner +
			"): send the input there, when it has reported that its command runs")
	}
	if err := m.sessions.Takes(p, call); err != nil {
		return err // nothing is done
	}
	about := map[string]any{"call": call, "bytes": len(in.Data), "close": in.Close, "signal": in.Signal}
	err = m.admit(ctx, haft.Call{Tool: r.Call.Tool, Args: r.Call.Args, Principal: p}, "session.input", about,
		policy.Input)
	if err != nil {
		return err
	}
	return m.sessions.Input(ctx, p, call, in)
}

// DialPort connects to a TCP port of a session. What comes from there has whatever the session
// has: a session with secrets has no ports.
func (m *SessionManager) DialPort(ctx context.Context, p haft.Principal, id string, port int) (net.Conn, error) {
	s, err := m.use(ctx, p, haft.CallsWrite, id, command([]string{"nc", "127.0.0.1", strconv.Itoa(port)},
		policy.Input, policy.Output))
	if err != nil {
		return nil, err
	}
	if s.Exposed() {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "code of this session could see secrets, which " +
			"nobody would remove from what its ports send: use a session whose calls have none, or bind them to hosts"}
	}
	return s.DialPort(ctx, port)
}
