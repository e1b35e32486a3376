package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/internal/secret"
)

// stateless is the revision from which on there is no ping.
const stateless = "2026-07-28"

// pingTime is how long a server may take to say that it lives.
const pingTime = 5 * time.Second

// A session is a connection with a server.
type session struct {
	pool   *Pool
	slot   *slot
	server haft.MCPServer
	client *mcp.ClientSession
	cmd    *command         // nil if it has an address
	bearer *bearer          // nil if nobody can log in
	out    *headers         // nil if it is a command
	hide   *secret.Redactor // of words about the server
	cover  *secret.Redactor // of what it gives
	ending chan struct{}
	once   sync.Once

	tokens atomic.Int64
	mu     sync.Mutex
	calls  map[string]*running // by progress token
	list   *haft.MCPListing    // as it was when the session began
	listed error
}

// running is a call on its way. Its functions are called one at a time, and not
// after its end.
type running struct {
	progress func(json.RawMessage)
	log      func([]byte)

	mu   sync.Mutex
	over bool
}

// tell has one of the functions called, unless the call is over.
func (r *running) tell(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		what()
	}
}

// end waits for what is being told, and lets nothing more be.
func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// connect opens a session.
func (p *Pool) connect(slot *slot, w wanted) (_ *session, err error) {
	limit := p.cfg.Connect
	if d := w.server.Connect.D(); d > 0 {
		limit = d
	}
	s := &session{
		pool: p, slot: slot, server: w.server, hide: hide(w, func(string) bool { return true }),
		cover:  hide(w, secret.NewNames(nil).Sensitive),
		ending: make(chan struct{}), calls: map[string]*running{},
	}
	transport, err := s.transport(p.ctx, w) // which may install packages first, with bounds of its own
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	if err == nil {
		s.client, err = mcp.NewClient(&mcp.Implementation{Name: "haft", Version: p.cfg.Version},
			s.options()).Connect(ctx, transport, nil)
	}
	if err != nil {
		err = s.explain(ctx, err)
		s.close()
		return nil, err
	}
	s.look(ctx)
	p.work.Go(s.watch)
	return s, nil
}

// hide removes the server's credentials: all headers, and those variables whose
// names are of them.
func hide(w wanted, secretive func(name string) bool) *secret.Redactor {
	var values []secret.Named
	add := func(name, text string) {
		values = append(values, secret.Named{Name: name, Value: secret.New(text)})
		if _, token, ok := strings.Cut(text, " "); ok { // Bearer …
			values = append(values, secret.Named{Name: name, Value: secret.New(token)})
		}
	}
	for name, f := range w.headers {
		add(name, f.text)
	}
	for name, f := range w.env {
		if secretive(name) {
			add(name, f.text)
		}
	}
	return secret.NewRedactor(secret.Config{Values: values, Formats: true})
}

// authorized reports whether headers say who asks.
func authorized(headers map[string]filled) bool {
	for name := range headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// covered returns a text without what is secret of the session.
func (s *session) covered(text string) string {
	text = s.cover.Text(text)
	if t := s.token(); t != "" {
		text = strings.ReplaceAll(text, t, "[redacted]")
	}
	return text
}

// token is the one that requests are sent with, or "".
func (s *session) token() string {
	if s.bearer == nil {
		return ""
	}
	a := s.bearer.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grant == nil { // one for another origin is not sent, and removed all the same
		return ""
	}
	return a.grant.Access
}

// transport is how the server is reached. A command is started.
func (s *session) transport(ctx context.Context, w wanted) (mcp.Transport, error) {
	p := s.pool
	if w.server.Transport == haft.MCPStdio {
		if p.cfg.Place == nil {
			return nil, &haft.Error{Code: haft.CodeDenied, Message: "commands of MCP servers are not run here"}
		}
		place, err := p.cfg.Place(ctx, w.server, texts(w.env))
		if err != nil {
			return nil, err
		}
		if s.cmd, err = start(ctx, place); err != nil {
			return nil, err
		}
		return s.cmd.transport(p.cfg.MaxMessage, s.hear), nil
	}
	if p.cfg.Client == nil {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "MCP servers with an address are not reached from here"}
	}
	u, err := url.Parse(w.server.URL)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the address of the server cannot be read", Err: err}
	}
	client := *p.client(w)
	next := client.Transport
	if p.cfg.Vault != nil && !authorized(w.headers) {
		s.bearer = &bearer{next: next, account: p.account(w)}
		next = s.bearer
	}
	s.out = &headers{
		next: next, origin: haft.URLOrigin(u), values: w.headers, fits: p.fits, max: p.cfg.MaxMessage,
		closing: s.ending,
	}
	client.Transport = s.out
	if w.server.Transport == haft.MCPSSE {
		return &lasting{&mcp.SSEClientTransport{Endpoint: w.server.URL, HTTPClient: &client,
			MaxEventSize: p.cfg.MaxMessage}}, nil
	}
	return &mcp.StreamableClientTransport{Endpoint: w.server.URL, HTTPClient: &client}, nil
}

// options say what this client can do, and where notifications go.
func (s *session) options() *mcp.ClientOptions {
	o := &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{},
		ProgressNotificationHandler: s.progress,
		LoggingMessageHandler:       s.logged, //nolint:staticcheck // servers of earlier revisions log
		ToolListChangedHandler: func(context.Context,
			*mcp.ToolListChangedRequest) {
			s.pool.cfg.Changed(s.server.Org, s.server.ID)
		},
	}
	if ask := s.pool.cfg.Elicit; ask != nil {
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			schema, err := encode(r.Params.RequestedSchema)
			if err != nil {
				return nil, err
			}
			action, content, err := ask(ctx, r.Params.Message, schema)
			if err != nil {
				return nil, err
			}
			return &mcp.ElicitResult{Action: action, Content: content}, nil
		}
	}
	if s.cmd != nil {
		s.cmd.stderr.mu.Lock()
		s.cmd.stderr.hear = s.said
		s.cmd.stderr.mu.Unlock()
	}
	return o
}

// look lists the tools: the SDK wants to know them before they are called, and if
// they are others than those that were looked at, somebody has to look again.
func (s *session) look(ctx context.Context) {
	limit := s.pool.cfg.List
	if d := s.server.List.D(); d > 0 {
		limit = d
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	s.list, s.listed = listing(ctx, s.client, s.pool.cfg)
	if s.listed != nil {
		s.listed = s.explain(ctx, s.listed)
		return
	}
	if known := s.server.State.Listing; known != "" && known != s.list.Digest() {
		s.pool.cfg.Changed(s.server.Org, s.server.ID)
	}
}

// watch waits for the end of the session.
func (s *session) watch() {
	err := s.client.Wait()
	select {
	case <-s.ending:
		return
	default:
	}
	if err == nil {
		err = errors.New("the server closed the connection")
	}
	s.slot.lose(s, err)
	s.close()
}

// close ends the session, and returns when nothing of it is left.
func (s *session) close() {
	s.once.Do(func() {
		close(s.ending)
		if s.cmd != nil {
			s.cmd.stop()
		}
		if s.client != nil {
			_ = s.client.Close() // the server may be gone, and is told no more
		}
	})
}

// health asks the server whether it lives, and ends the session if it does not.
func (s *session) health(ctx context.Context) {
	if i := s.client.InitializeResult(); i == nil || i.ProtocolVersion >= stateless {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	err := s.client.Ping(ctx, nil)
	if wireError(err) != nil {
		return // it does not know what a ping is, but it answers
	}
	if err == nil || s.pool.ctx.Err() != nil {
		return
	}
	s.pool.cfg.Logger.Warn("an MCP server does not answer and is ended", "org", s.server.Org, "server", s.server.Name)
	s.slot.lose(s, fmt.Errorf("it does not answer: %w", err))
	s.close()
}

// hear takes the notifications that are about calls.
func (s *session) hear(r *jsonrpc.Request) bool {
	switch r.Method {
	case "notifications/progress":
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(r.Params, &p) == nil {
			s.progressed(&p)
		}
		return true
	case "notifications/message":
		var p mcp.LoggingMessageParams //nolint:staticcheck // see options
		if json.Unmarshal(r.Params, &p) == nil {
			s.loggedThat(&p)
		}
		return true
	}
	return false
}

// progress passes on how far a call is.
func (s *session) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	if r.Params != nil {
		s.progressed(r.Params)
	}
}

func (s *session) progressed(p *mcp.ProgressNotificationParams) {
	token, ok := p.ProgressToken.(string)
	if !ok {
		return
	}
	s.mu.Lock()
	c := s.calls[token]
	s.mu.Unlock()
	if c == nil || c.progress == nil {
		return
	}
	data := map[string]any{"progress": p.Progress}
	if p.Total != 0 {
		data["total"] = p.Total
	}
	if p.Message != "" {
		data["message"] = cut(s.hide.Text(p.Message), 4<<10)
	}
	if raw, err := json.Marshal(data); err == nil {
		c.tell(func() { c.progress(raw) })
	}
}

// only returns the one call that is on its way. What a server says without saying
// about which call is told to nobody if there are several: it may be about
// another's.
func (s *session) only() *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 1 {
		return nil
	}
	for _, c := range s.calls {
		return c
	}
	return nil
}

// logged passes on what a server logs.
func (s *session) logged(_ context.Context, r *mcp.LoggingMessageRequest) {
	if r.Params != nil {
		s.loggedThat(r.Params)
	}
}

func (s *session) loggedThat(p *mcp.LoggingMessageParams) { //nolint:staticcheck // see options
	c := s.only()
	if c == nil || c.log == nil {
		return
	}
	raw, err := encode(p.Data)
	if err != nil {
		return
	}
	text := string(raw)
	if plain := ""; json.Unmarshal(raw, &plain) == nil {
		text = plain
	}
	c.tell(func() { c.log([]byte(fmt.Sprintf("[%s] %s\n", cut(string(p.Level), 20), cut(text, 16<<10)))) })
}

// said passes on what a command prints on stderr.
func (s *session) said(b []byte) {
	if c := s.only(); c != nil && c.log != nil {
		c.tell(func() { c.log(b) })
	}
}

// begin notes a call that is on its way, and returns its progress token.
func (s *session) begin(c *running) (token string, done func()) {
	token = "haft-" + strconv.FormatInt(s.tokens.Add(1), 10)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[token] = c
	return token, func() {
		s.mu.Lock()
		delete(s.calls, token)
		s.mu.Unlock()
		c.end()
	}
}

// explain sorts an error of connecting or listing by whose fault it is.
func (s *session) explain(ctx context.Context, err error) error {
	wire := wireError(err)
	var dns *net.DNSError
	var op *net.OpError
	f := &Failed{Fault: FaultNetwork, Message: "the server cannot be reached", Err: err}
	if e, ok := errors.AsType[*haft.Error](err); ok {
		return e
	}
	if n, ok := errors.AsType[*needLogin](err); ok {
		return n
	}
	if f, ok := errors.AsType[*Failed](err); ok {
		return f
	}
	if s.out != nil && s.out.strayed.Load() {
		return errStrayed
	}
	if s.bearer != nil && s.bearer.refused.Swap(false) {
		return &needLogin{s.server.Name}
	}
	switch {
	case s.cmd != nil && s.cmdEnded(err) != "":
		f.Fault, f.Message = FaultCommand, "the server cannot be started: "+s.cmd.ended()
		if words := strings.TrimSpace(strings.ToValidUTF8(s.cmd.stderr.String(), "")); words != "" {
			f.Message += "; it said: " + cut(s.hide.Text(lastLines(words, 5)), 1000)
		}
	case ctx.Err() != nil && s.pool.ctx.Err() == nil:
		f.Message = "the server does not answer in time"
	case wire != nil:
		f.Fault, f.Message = FaultProtocol, fmt.Sprintf("the server refuses: %s (%d)",
			cut(s.hide.Text(wire.Message), 500), wire.Code)
	case errors.As(err, &dns):
		f.Message = "the host of the server is not found"
	case errors.As(err, &op):
		f.Message = "the server cannot be connected to"
	case errors.Is(err, errLong), errors.Is(err, errFlood):
		f.Fault, f.Message = FaultProtocol, rootOf(err).Error()
	default:
		f.Fault, f.Message = FaultProtocol, "the server does not speak MCP as it should"
	}
	return f
}

// rootOf returns which of our own bounds an error is about.
func rootOf(err error) error {
	if errors.Is(err, errLong) {
		return errLong
	}
	return errFlood
}

// cmdEnded waits a moment for the end of a command whose stream has ended, and
// says how it ended, or "".
func (s *session) cmdEnded(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return s.cmd.ended()
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-s.cmd.done:
	case <-t.C:
	}
	return s.cmd.ended()
}

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
