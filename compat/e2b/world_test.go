package e2b

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/server"
)

// A world is an API whose sessions only remember what was asked of them.
type world struct {
	t   *testing.T
	api *API
	// ending is called when a session ends, unless it is nil.
	ending func()
	// listed is called when sessions were listed, before they are given, unless it is nil.
	listed func()
	// busy is why requests with tokens are not served.
	busy error
	// withdrawn says that the credentials of sandboxes are good no more.
	withdrawn atomic.Bool

	mu        sync.Mutex
	sessions  map[string]haft.Session
	files     map[string]string
	calls     []haft.Call
	cancelled []haft.CallID
	refused   []error
	inputs    []haft.CommandInput
	value     string
	res       haft.Result
}

// newWorld makes a world whose keys are ORG/USER, or ORG/USER/CREDENTIAL.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, sessions: map[string]haft.Session{}, files: map[string]string{},
		value: `{"status":"success","exit_code":0}`}
	w.api = New(Config{Call: w.call, Cancel: w.cancel, Sessions: w, Files: w, Worker: w, Ports: w,
		Domain: "sandboxes.example",
		Identify: func(_ http.ResponseWriter, r *http.Request) (server.Identity, error) {
			org, user, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "/")
			if !ok {
				return server.Identity{}, &haft.Error{Code: haft.CodeUnauthenticated, Message: "no"}
			}
			user, credential, _ := strings.Cut(user, "/")
			return server.Identity{Principal: haft.Principal{Org: org, User: user, Credential: credential,
				Roles: []string{haft.RoleAdmin}},
				Rules: authority.Rules{}}, nil
		},
		Busy: func(*http.Request) error { return w.busy },
		Refused: func(_ *http.Request, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, err)
		},
		Recheck: func(_ context.Context, p haft.Principal, a haft.Action) (haft.Principal, error) {
			if w.withdrawn.Load() || p.Credential == "narrow" && a == haft.CallsWrite {
				return p, &haft.Error{Code: haft.CodeUnauthenticated, Message: "withdrawn"}
			}
			return p, nil
		}})
	t.Cleanup(w.api.Close)
	return w
}

// call is [Config.Call].
func (w *world) call(_ context.Context, c haft.Call, show func(haft.Event)) (*haft.Result, bool, error) {
	if c.Template != "" { // the engine refuses it before anything is done
		return &haft.Result{Status: haft.StatusValidation, Error: &haft.Failure{Message: "there is no such template"}},
			true, nil
	}
	w.mu.Lock()
	w.calls = append(w.calls, c)
	var args struct{ Session string }
	if err := json.Unmarshal(c.Args, &args); err != nil {
		w.t.Error(err)
	}
	res := w.res
	name, byID := strings.CutPrefix(args.Session, "sess_")
	switch _, lives := w.sessions[name]; {
	case !lives && byID:
		res.Status, res.Error = haft.StatusError, &haft.Failure{Message: "the session is gone"}
	case !lives:
		w.sessions[args.Session] = haft.Session{ID: "sess_" + args.Session, Org: c.Principal.Org,
			Owner: c.Principal.User, Name: args.Session, Expires: time.Now().Add(time.Hour)}
	}
	res.Value = json.RawMessage(w.value)
	w.mu.Unlock()
	if res.Status == "" {
		res.Status = haft.StatusSuccess
	}
	if res.Status == haft.StatusSuccess {
		show(haft.Event{Type: haft.EventProgress, Data: json.RawMessage(`{"pid":7}`)})
		show(haft.Event{Type: haft.EventOutput, Data: json.RawMessage(`{"stream":"stdout","text":"out"}`)})
	}
	return &res, true, nil
}

// cancel is [Config.Cancel].
func (w *world) cancel(_ context.Context, _ haft.Principal, id haft.CallID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelled = append(w.cancelled, id)
	return nil
}

func (w *world) Sessions(_ context.Context, p haft.Principal) ([]haft.Session, error) {
	w.mu.Lock()
	var list []haft.Session
	for _, s := range w.sessions {
		if s.Org == p.Org {
			list = append(list, s)
		}
	}
	w.mu.Unlock()
	if w.listed != nil {
		w.listed()
	}
	return list, nil
}

func (w *world) EndSession(_ context.Context, _ haft.Principal, id string) error {
	if w.ending != nil {
		w.ending()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, strings.TrimPrefix(id, "sess_"))
	return nil
}

func (w *world) AddSession(context.Context, haft.Principal, haft.NewSession) (*haft.Session, error) {
	return nil, missing("not used")
}

func (w *world) ExtendSession(_ context.Context, _ haft.Principal, id string,
	ttl, _ haft.Millis) (*haft.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id = strings.TrimPrefix(id, "sess_")
	s := w.sessions[id]
	s.Expires = time.Now().Add(ttl.D())
	w.sessions[id] = s
	return &s, nil
}

func (w *world) SessionContexts(context.Context, haft.Principal, string) ([]haft.SessionContext, error) {
	return nil, nil
}

func (w *world) RestartContext(context.Context, haft.Principal, string, string) error { return nil }

func (w *world) ListFiles(_ context.Context, _ haft.Principal, _, path string, _ int) (*haft.SessionDir, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text, ok := w.files[path]; ok {
		return &haft.SessionDir{Files: []haft.SessionFile{{Path: path, Type: "file", Size: int64(len(text))}}}, nil
	}
	return nil, missing("there is no such file")
}

func (w *world) ReadFile(_ context.Context, _ haft.Principal, _, path string) (io.ReadCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text, ok := w.files[path]; ok {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	return nil, missing("there is no such file")
}

func (w *world) WriteFile(_ context.Context, _ haft.Principal, _, path string, content io.Reader) error {
	raw, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[path] = string(raw)
	return nil
}

func (w *world) MakeDir(context.Context, haft.Principal, string, string) error          { return nil }
func (w *world) MoveFile(context.Context, haft.Principal, string, string, string) error { return nil }
func (w *world) RemoveFile(context.Context, haft.Principal, string, string) error       { return nil }

func (w *world) WatchFiles(context.Context, haft.Principal, string, string) iter.Seq2[haft.SessionChange, error] {
	return func(func(haft.SessionChange, error) bool) {}
}

func (w *world) SendInput(_ context.Context, _ haft.Principal, _ haft.CallID, in haft.CommandInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inputs = append(w.inputs, in)
	return nil
}

func (w *world) DialPort(context.Context, haft.Principal, string, int) (net.Conn, error) {
	return nil, missing("nothing listens")
}

// ask sends a request to the control API.
func (w *world) ask(key, method, path, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Api-Key", key)
	rec := httptest.NewRecorder()
	w.api.control.ServeHTTP(rec, r)
	return rec
}

// create makes a sandbox.
func (w *world) create(key string) sandboxAnswer {
	w.t.Helper()
	rec := w.ask(key, "POST", "/v2/sandboxes", `{"templateID":"base","metadata":{"k":"v"}}`)
	var out sandboxAnswer
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil || rec.Code != http.StatusCreated {
		w.t.Fatalf("%d %s %v", rec.Code, rec.Body, err)
	}
	return out
}

// in sends a request to a sandbox. Headers are name, value, and so on.
func (w *world) in(id, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(idHeader, id)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	return rec
}
