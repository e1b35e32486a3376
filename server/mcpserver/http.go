package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/internal/bounds"
)

// The headers by which the two generations of the protocol differ.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "MCP-Protocol-Version"
)

// sessionVersions are the versions of the protocol that have sessions.
func sessionVersions() []string {
	return []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}
}

// Bounds on a message.
const (
	maxNesting = 200
	maxBatch   = 32
)

// viewKey is the key of the view in the context of a request, for the SDK, which
// asks for a server by request.
type viewKey struct{}

// transport makes the SDK's side of one of the two wires.
func (s *Server) transport(stateless bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		v, _ := r.Context().Value(viewKey{}).(*view)
		if v == nil {
			return nil
		}
		return v.mcp
	}, &mcp.StreamableHTTPOptions{
		Stateless: stateless, SessionTimeout: s.cfg.Idle, MaxRequestBodyBytes: s.cfg.MaxMessage,
		PropagateRequestCancellation: true,
		// Package server has checked the host.
		DisableLocalhostProtection: true,
	})
}

// Handler returns the API for HTTP. The function who authenticates a request; its error is an
// [*haft.Error].
func (s *Server) Handler(who func(http.ResponseWriter, *http.Request) (Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := who(w, r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		v, leave, err := s.enter(caller)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer leave()
		body, err := s.read(w, r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		if err := check(body); err != nil {
			s.refuse(w, r, err)
			return
		}
		ctx, cancel := s.lifetime(r, caller, body)
		defer cancel()
		r = r.WithContext(context.WithValue(ctx, viewKey{}, v))
		r.Header.Set(credentialHeader, caller.Principal.Credential) // whatever the client says
		out := &answered{ResponseWriter: w}
		v.noteUse(r.Header.Get(sessionHeader), caller.Principal)
		s.serve(out, r, v)
		v.noteUse(w.Header().Get(sessionHeader), caller.Principal) // a session that this request made
		s.sendReason(out, r, v)
	})
}

// serve hands a request to the wire that it is of.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, v *view) {
	id, version := r.Header.Get(sessionHeader), r.Header.Get(versionHeader)
	switch {
	case id != "" && !v.owns(id):
		// Also for a session of another caller, which does not exist for this one.
		http.Error(w, "session not found", http.StatusNotFound)
	case id == "" && version != "" && !slices.Contains(sessionVersions(), version):
		s.stateless.ServeHTTP(w, r)
	case id == "" && r.Method == http.MethodPost:
		done, err := s.admit(v)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer done()
		s.stateful.ServeHTTP(w, r)
	default:
		s.stateful.ServeHTTP(w, r)
	}
}

// lifetime is how long a request may last. Streams without an end of their own end
// with the credential and when the server is leaving.
func (s *Server) lifetime(r *http.Request, who Caller, body []byte) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	if r.Method != http.MethodGet && !bytes.Contains(body, []byte(`"subscriptions/listen"`)) {
		return ctx, cancel
	}
	unhook := context.AfterFunc(s.leaving, cancel)
	var timer *time.Timer
	if !who.Expires.IsZero() {
		timer = time.AfterFunc(time.Until(who.Expires), cancel)
	}
	return ctx, func() {
		unhook()
		if timer != nil {
			timer.Stop()
		}
		cancel()
	}
}

// read reads the message of r, whole, in a bounded time, and puts it back.
func (s *Server) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	ctl := http.NewResponseController(w)
	// A recorder in a test has no deadlines, which may be.
	_ = ctl.SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxMessage))
	if err != nil {
		if why := withdrawn(r.Context()); why != nil {
			return nil, why
		}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, &tooLarge{}
		}
		if _, ok := errors.AsType[*haft.Error](err); ok {
			return nil, err // the body is not the signed one
		}
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the message cannot be read to its end", Err: err}
	}
	_ = ctl.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return body, nil
}

// tooLarge is the error of a message that is.
type tooLarge struct{}

// Error implements error.
func (*tooLarge) Error() string { return "the message is too large" }

// check bounds a message: how deep it nests, how many values it has, and how many
// messages there are in one.
func check(body []byte) error {
	text := bytes.TrimLeft(body, " \t\r\n")
	if len(text) == 0 {
		return nil
	}
	var shape *bounds.Shape
	if text[0] == '[' {
		shape = &bounds.Shape{Items: maxBatch}
	}
	most := bounds.Default()
	most.Depth = maxNesting
	err := bounds.Check(body, most, shape)
	if errors.Is(err, bounds.ErrSyntax) {
		// The SDK reads what it reads piece by piece.
		return &haft.Error{Code: haft.CodeInvalid, Message: "the message is not JSON", Err: err}
	}
	return err
}

// statuses are the HTTP statuses of codes; others have 500.
var statuses = map[haft.Code]int{
	haft.CodeInvalid: http.StatusBadRequest, haft.CodeConflict: http.StatusBadRequest,
	haft.CodeNotFound: http.StatusNotFound, haft.CodeUnauthenticated: http.StatusUnauthorized,
	haft.CodeDenied: http.StatusForbidden, haft.CodeRateLimited: http.StatusTooManyRequests,
	haft.CodeUnavailable: http.StatusServiceUnavailable,
}

// refuse answers a request that reaches no session, with an error of JSON-RPC.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, out := cmp.Or(statuses[haft.CodeOf(err)], http.StatusInternalServerError), toRPCError(err)
	if _, ok := errors.AsType[*tooLarge](err); ok {
		status, out = http.StatusRequestEntityTooLarge,
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: "the message is larger than " + strconv.FormatInt(s.cfg.MaxMessage, 10) + " bytes"}
	} else {
		switch status {
		case http.StatusUnauthorized:
			s.challenge(w, r, "")
		case http.StatusForbidden:
			s.challenge(w, r, `, error="insufficient_scope"`)
		case http.StatusInternalServerError:
			s.cfg.Logger.Error("a request of MCP failed", "err", err)
		}
		if wait := haft.RetrySeconds(haft.RetryAfterOf(err)); wait != "" {
			w.Header().Set("Retry-After", wait)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	// It fails if the client is gone.
	_ = e.Encode(map[string]any{"jsonrpc": "2.0", "id": nil, "error": out})
}

// challenge says which credentials are taken, and where to get one (RFC 6750,
// RFC 9728).
func (s *Server) challenge(w http.ResponseWriter, r *http.Request, more string) {
	text := `Bearer realm="haft"` + more
	if s.cfg.Metadata != nil {
		text += `, resource_metadata="` + s.cfg.Metadata(r) + `"`
	}
	w.Header().Add("WWW-Authenticate", text)
}
