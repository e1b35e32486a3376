package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor"
	"haft/internal/secret"
)

// stateless is the first revision of the protocol without a ping.
const stateless = "2026-07-28"

// A session is a connection with a server.
type session struct {
	pool      *Pool
	slot      *slot
	server    haft.MCPServer
	client    *mcp.ClientSession
	cmd       *command          // nil if the server has an address
	bearer    *bearerTransport  // nil if nobody can log in
	transport *headersTransport // nil if the server is a command
	// redactAll removes all credentials from messages about the server, redactSecret
	// the sensitive ones from its results.
	redactAll, redactSecret *secret.Redactor
	ending                  chan struct{}
	once                    sync.Once

	tokens atomic.Int64
	mu     sync.Mutex
	calls  map[string]*listener // by progress token
}

// connect opens a session.
func (p *Pool) connect(slot *slot, to target) (_ *session, err error) {
	limit := p.cfg.Connect
	if d := to.server.Connect.D(); d > 0 {
		limit = d
	}
	s := &session{
		pool: p, slot: slot, server: to.server, redactAll: redactor(to, func(string) bool { return true }),
		redactSecret: redactor(to, secret.NewNames(nil).Sensitive),
		ending:       make(chan struct{}), calls: map[string]*listener{},
	}
	transport, err := s.openTransport(p.ctx, to) // it may install packages first, with its own time limits
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
	s.compareTools(ctx)
	p.work.Go(s.watch)
	return s, nil
}

// redactor removes the server's credentials: all headers, and the variables whose names
// are sensitive.
func redactor(to target, sensitive func(name string) bool) *secret.Redactor {
	var values []secret.Named
	add := func(name, text string) {
		values = append(values, secret.Named{Name: name, Value: secret.New(text)})
		if _, token, ok := strings.Cut(text, " "); ok { // Bearer …
			values = append(values, secret.Named{Name: name, Value: secret.New(token)})
		}
	}
	for name, v := range to.headers {
		add(name, v.text)
	}
	for name, v := range to.env {
		if sensitive(name) {
			add(name, v.text)
		}
	}
	return secret.NewRedactor(secret.Config{Values: values, Formats: true})
}

// hasAuthorization reports whether headers authenticate the caller.
func hasAuthorization(headers map[string]expanded) bool {
	for name := range headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// redact returns a text of a result without the secrets of the session.
func (s *session) redact(text string) string {
	text = s.redactSecret.Text(text)
	if s.bearer != nil {
		if t := s.bearer.account.accessToken(); t != "" {
			text = strings.ReplaceAll(text, t, "[redacted]")
		}
	}
	return text
}

// openTransport returns the transport to the server. If the server is a command, it
// starts the command.
func (s *session) openTransport(ctx context.Context, to target) (mcp.Transport, error) {
	p := s.pool
	if to.server.Transport == haft.MCPStdio {
		if p.cfg.Place == nil {
			return nil, &haft.Error{Code: haft.CodeDenied, Message: "commands of MCP servers are not run here"}
		}
		place, err := p.cfg.Place(ctx, to.server, texts(to.env))
		if err != nil {
			return nil, err
		}
		if s.cmd, err = startCommand(ctx, place, s.logStderr); err != nil {
			return nil, err
		}
		return s.cmd.transport(p.cfg.MaxMessage, s.handleNotification), nil
	}
	if p.cfg.Client == nil {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "MCP servers with an address are not reached from here"}
	}
	u, err := url.Parse(to.server.URL)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the address of the server cannot be read", Err: err}
	}
	client := *p.client(to)
	next := client.Transport
	if p.cfg.Vault != nil && !hasAuthorization(to.headers) {
		s.bearer = &bearerTransport{next: next, account: p.account(to)}
		next = s.bearer
	}
	s.transport = &headersTransport{
		next: next, origin: haft.URLOrigin(u), values: to.headers, fits: p.fits, max: p.cfg.MaxMessage,
		closing: s.ending,
	}
	client.Transport = s.transport
	if to.server.Transport == haft.MCPSSE {
		return &detachedTransport{&mcp.SSEClientTransport{Endpoint: to.server.URL, HTTPClient: &client,
			MaxEventSize: p.cfg.MaxMessage}}, nil
	}
	return &mcp.StreamableClientTransport{Endpoint: to.server.URL, HTTPClient: &client}, nil
}

// options state the capabilities of this client, and who handles notifications.
func (s *session) options() *mcp.ClientOptions {
	o := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			s.passProgress(r.Params)
		},
		//nolint:staticcheck // servers of earlier revisions log
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { s.passLog(r.Params) },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.pool.cfg.Changed(s.server.Org, s.server.ID)
		},
	}
	if ask := s.pool.cfg.Elicit; ask != nil {
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			schema, err := executor.EncodeJSON(r.Params.RequestedSchema)
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
	return o
}

// compareTools lists the tools: the SDK has to know them before they are called. If they
// differ from the tools that were reviewed, somebody has to review them again.
func (s *session) compareTools(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.pool.listLimit(s.server))
	defer cancel()
	list, err := listTools(ctx, s.client, s.pool.cfg)
	if err != nil {
		if s.bearer != nil {
			s.bearer.refused.Store(false) // the refusal was of this request
		}
		return
	}
	if known := s.server.State.Listing; known != "" && known != list.Digest() {
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
	s.slot.forget(s, err)
	s.close()
}

// close ends the session, and returns when everything of it is gone.
func (s *session) close() {
	s.once.Do(func() {
		close(s.ending)
		if s.cmd != nil {
			s.cmd.stop()
		}
		if s.client != nil {
			_ = s.client.Close() // the server may be gone already
		}
	})
}

// checkHealth pings the server, and ends the session if there is no answer. It pings twice: if this process stood
// still, such as in a machine that was suspended, the time for the first answer is over although the server is well.
func (s *session) checkHealth(ctx context.Context) {
	if i := s.client.InitializeResult(); i == nil || i.ProtocolVersion >= stateless {
		return
	}
	err := s.ping(ctx)
	if err != nil {
		err = s.ping(ctx)
	}
	if err == nil {
		return
	}
	s.pool.cfg.Logger.Warn("an MCP server does not answer and is ended", "org", s.server.Org, "server", s.server.Name)
	s.slot.forget(s, fmt.Errorf("it does not answer: %w", err))
	s.close()
}

// ping returns an error if the server does not answer.
func (s *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.pool.cfg.Ping)
	defer cancel()
	err := s.client.Ping(ctx, nil)
	if wireError(err) != nil || s.pool.ctx.Err() != nil {
		return nil // a server that does not know the method answers all the same
	}
	return err
}

// explain says whose fault an error of connecting or listing is.
func (s *session) explain(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*haft.Error](err); ok {
		return e
	}
	if f, ok := errors.AsType[*Failed](err); ok {
		return f
	}
	if s.transport != nil && s.transport.leftOrigin.Load() {
		return errOtherOrigin
	}
	if s.bearer != nil && s.bearer.refused.Swap(false) {
		return needLogin(s.server.Name)
	}
	f := &Failed{Fault: FaultNetwork, Err: err}
	wire := wireError(err)
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case s.cmd != nil && s.cmd.awaitEnd(err) != "":
		f.Fault, f.Message = FaultCommand, "the server cannot be started: "+s.cmd.ended()
		if words := strings.TrimSpace(strings.ToValidUTF8(s.cmd.stderr.String(), "")); words != "" {
			f.Message += "; it said: " + cut(s.redactAll.Text(lastLines(words, 5)), 1000)
		}
	case ctx.Err() != nil && s.pool.ctx.Err() == nil:
		f.Message = "the server does not answer in time"
	case wire != nil:
		f.Fault, f.Message = FaultProtocol, fmt.Sprintf("the server refuses: %s (%d)",
			cut(s.redactAll.Text(wire.Message), 500), wire.Code)
	case errors.As(err, &dns):
		f.Message = "the host of the server is not found"
	case errors.As(err, &op):
		f.Message = "the server cannot be connected to"
	case errors.Is(err, errTooLong):
		f.Fault, f.Message = FaultProtocol, errTooLong.Error()
	case errors.Is(err, errFlood):
		f.Fault, f.Message = FaultProtocol, errFlood.Error()
	default:
		f.Fault, f.Message = FaultProtocol, "the server does not speak MCP as it should"
	}
	return f
}

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
