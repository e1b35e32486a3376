package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/engine"
	"haft/internal/service"
	"haft/internal/session"
	"haft/internal/skiptest"
	"haft/sandbox/local"
	"haft/sandbox/process"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}

// openSessions opens a manager of sessions in the confined sandbox.
func openSessions(t *testing.T) *session.Manager {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	p, err := local.Open(ctx, local.Config{Dir: t.TempDir(), AllowReduced: true})
	if err != nil {
		skiptest.Lacking(t, "sandbox", err.Error())
	}
	t.Cleanup(func() { check(t, p.Close()) })
	host, err := process.Open(process.Config{Dir: t.TempDir()})
	check(t, err)
	finder := script.NewFinder(host, script.FinderConfig{Path: os.Getenv("PATH"), Home: os.Getenv("HOME")})
	x := script.New(ctx, p, "local", finder, script.Config{})
	t.Cleanup(x.Close)
	m := session.New(session.Config{Open: x.OpenSession})
	t.Cleanup(m.Close)
	return m
}

// unwritten makes the session of a call, and cannot write down what became of the call.
type unwritten struct {
	haft.Caller
	sessions *session.Manager
	t        *testing.T
}

func (u unwritten) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	var args struct{ Session string }
	check(u.t, json.Unmarshal(c.Args, &args))
	req := executor.Request{Call: c.ID, Org: c.Principal.Org, Principal: c.Principal}
	_, err := u.sessions.Use(ctx, req, args.Session)
	check(u.t, err)
	return nil, errors.New("the database is gone")
}

// A session whose call returned nothing but an error is not left behind, and no other session ends in its place.
func TestAddSession_ends_the_session_of_a_call_without_a_result(t *testing.T) {
	m := openSessions(t)
	w := setup(t, allowAll, engine.Config{}, service.Config{Sessions: m})
	other := executor.Request{Org: "other", Principal: user("other", "eve")} // made without a call
	_, err := m.Use(t.Context(), other, "hers")
	check(t, err)
	w.API.SetCaller(unwritten{w.Engine, m, t})
	ann := user("o", "ann")
	if _, err := w.API.Sessions.AddSession(t.Context(), ann, haft.NewSession{Name: "s"}); err == nil {
		t.Error("a session whose call has no result was made")
	}
	if list := m.List(ann, true); len(list) > 0 {
		t.Errorf("it is left behind: %+v", list)
	}
	if list := m.List(other.Principal, true); len(list) != 1 {
		t.Errorf("the sessions of another organisation are %+v", list)
	}
}
