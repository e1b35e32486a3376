package server

import (
	"context"
	"iter"
	"net/http"
	"time"

	"haft"
)

// sessions has the operations on sessions.
type sessions struct {
	s        *Server
	sessions haft.Sessions
	worker   haft.SessionWorker
}

func (a *api) sessions() {
	h := sessions{s: a.s, sessions: a.s.cfg.Sessions}
	h.worker, _ = h.sessions.(haft.SessionWorker)
	g := a.group("sessions", haft.CallsRead, haft.CallsWrite).needs(h.sessions != nil, "sessions")
	register(g.op("GET /v1/sessions", "list-sessions", "List sessions, the oldest first").
		about("A call of `run_code` or `run_command` with `session` makes one, or POST. It ends when it was not used "+
			"for a while, and with the server."), h.list)
	register(g.op("POST /v1/sessions", "add-session", "Make a session").
		about("It is made by a call of `run_command`, or of `run_code` with a language: policy and limits are those "+
			"of such a call.").answers(http.StatusCreated).conflicts(), h.add)
	register(g.op("PATCH /v1/sessions/{id}", "extend-session", "Let a session live longer, or less long").
		about("Times count from now."), h.extend)
	register(g.op("DELETE /v1/sessions/{id}", "end-session", "End a session").
		about("The id may be the name that its owner gave it. Everything in the session ends before the answer comes."),
		h.end)
	register(g.op("GET /v1/sessions/{id}/contexts", "list-contexts", "List the contexts of code, with their variables").
		about("It runs code of the session, by which variables are shown.").needsAction(haft.CallsWrite), h.contexts)
	register(g.op("DELETE /v1/sessions/{id}/contexts/{name}", "restart-context", "Restart a context").
		about("Its variables are gone, and what its code started has ended. The next code that names it begins anew."),
		h.restart)
	calls := a.group("calls", haft.CallsRead, haft.CallsWrite).needs(h.worker != nil, "sessions")
	register(calls.op("POST /v1/calls/{id}/input", "send-input", "Send input to a command that runs").
		about("It is for calls of `run_command` with `input` or `tty`, and for who made the call. Such a call reports "+
			"progress with the pid of its command; from then on it takes input. Data is sent before a signal.").
		conflicts(), h.input)
	a.sessionFiles(h)
}

type sessionList struct {
	Body struct {
		Sessions []haft.Session `json:"sessions"`
	}
}

func (h sessions) list(ctx context.Context, who Identity, _ *struct{}) (*sessionList, error) {
	list, err := h.sessions.Sessions(ctx, who.Principal)
	if err != nil {
		return nil, err
	}
	out := &sessionList{}
	out.Body.Sessions = list
	return out, nil
}

// SessionRef names a session in a path.
type SessionRef struct {
	ID string `path:"id" maxLength:"200"`
}

func (h sessions) end(ctx context.Context, who Identity, in *SessionRef) (*struct{}, error) {
	return nil, h.sessions.EndSession(ctx, who.Principal, in.ID)
}

// SessionTimes say how long a session lives.
type SessionTimes struct {
	TTL  float64 `json:"timeout_seconds,omitempty" minimum:"1" maximum:"86400" doc:"How long the session lives at the most, from now on."`
	Idle float64 `json:"idle_seconds,omitempty" minimum:"1" maximum:"86400" doc:"After how long without use it ends."`
}

// millis returns both times.
func (t SessionTimes) millis() (ttl, idle haft.Millis) {
	of := func(seconds float64) haft.Millis { return haft.Millis(seconds * float64(time.Second)) }
	return of(t.TTL), of(t.Idle)
}

type newSession struct {
	Body struct {
		SessionTimes
		Name     string `json:"name,omitempty" maxLength:"64" doc:"What the owner calls it; a name is made up if it is left out."`
		Language string `json:"language,omitempty" maxLength:"20" doc:"The language of a context to start with it."`
		TTY      bool   `json:"tty,omitempty" doc:"Commands of the session may have terminals."`
		Sandbox  string `json:"sandbox,omitempty" maxLength:"40" doc:"The sandbox that it runs in, one of the server's machine; calls in the session follow it."`
		// A session waits for its workspace as a call does.
		Workspace    *haft.SessionWorkspace `json:"workspace,omitempty" doc:"A workspace, which the session has at /workspace until it ends."`
		Requirements haft.Requirements      `json:"requirements,omitzero" doc:"Packages that code of the session can import, besides those of the organisation."`
	}
}

type sessionAnswer struct {
	Body haft.Session
}

func (h sessions) add(ctx context.Context, who Identity, in *newSession) (*sessionAnswer, error) {
	n := haft.NewSession{Name: in.Body.Name, Language: in.Body.Language, TTY: in.Body.TTY, Sandbox: in.Body.Sandbox,
		Workspace: in.Body.Workspace, Requirements: in.Body.Requirements}
	n.TTL, n.Idle = in.Body.millis()
	s, err := h.sessions.AddSession(ctx, who.Principal, n)
	if err != nil {
		return nil, err
	}
	return &sessionAnswer{*s}, nil
}

type extendSession struct {
	SessionRef
	Body SessionTimes
}

func (h sessions) extend(ctx context.Context, who Identity, in *extendSession) (*sessionAnswer, error) {
	ttl, idle := in.Body.millis()
	s, err := h.sessions.ExtendSession(ctx, who.Principal, in.ID, ttl, idle)
	if err != nil {
		return nil, err
	}
	return &sessionAnswer{*s}, nil
}

type contextList struct {
	Body struct {
		Contexts []haft.SessionContext `json:"contexts"`
	}
}

func (h sessions) contexts(ctx context.Context, who Identity, in *SessionRef) (*contextList, error) {
	list, err := h.sessions.SessionContexts(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	out := &contextList{}
	out.Body.Contexts = list
	return out, nil
}

type contextRef struct {
	SessionRef
	Name string `path:"name" maxLength:"64"`
}

func (h sessions) restart(ctx context.Context, who Identity, in *contextRef) (*struct{}, error) {
	return nil, h.sessions.RestartContext(ctx, who.Principal, in.ID, in.Name)
}

type sendInput struct {
	CallRef
	Body struct {
		Text   string `json:"text,omitempty" maxLength:"65536" doc:"Text for the command."`
		Data   []byte `json:"data,omitempty" maxLength:"87384" doc:"Bytes for the command as base64, in place of text."`
		Close  bool   `json:"close,omitempty" doc:"There is no more input."`
		Signal string `json:"signal,omitempty" maxLength:"20" doc:"A signal for the command, such as SIGINT."`
		Rows   int    `json:"rows,omitempty" minimum:"0" maximum:"4096" doc:"The size of its terminal."`
		Cols   int    `json:"cols,omitempty" minimum:"0" maximum:"4096"`
	}
}

func (h sessions) input(ctx context.Context, who Identity, in *sendInput) (*struct{}, error) {
	b := in.Body
	if b.Text != "" {
		if len(b.Data) > 0 {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "give either text or data"}
		}
		b.Data = []byte(b.Text)
	}
	return nil, h.worker.SendInput(ctx, who.Principal, in.ID, haft.CommandInput{Data: b.Data, Close: b.Close,
		Signal: b.Signal, Rows: b.Rows, Cols: b.Cols})
}

// watch streams what happens to files as server-sent events.
func (h sessions) watch(w http.ResponseWriter, r *http.Request, who Identity, in *SessionPath) error {
	ctx, done, err := h.s.streams.begin(r, who)
	if err != nil {
		return err
	}
	defer done()
	if _, err := h.files().ListFiles(ctx, who.Principal, in.ID, in.path(), 1); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The files are looked at here, before the answer begins: a client that has its beginning misses nothing.
	changes := h.worker.WatchFiles(ctx, who.Principal, in.ID, in.path())
	sendEvents(ctx, h.s.errors, h.s.cfg.Heartbeat, w, r, Feed[haft.SessionChange]{Endless: true,
		Label: func(c haft.SessionChange) (int64, string) { return 0, string(c.Type) },
		Items: func(ctx context.Context) iter.Seq2[haft.SessionChange, error] {
			context.AfterFunc(ctx, cancel)
			return changes
		}})
	return nil
}
