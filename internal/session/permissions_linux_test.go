package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/session"
)

// answers are what permissions are: nil is that nothing was withdrawn.
type answers struct {
	mu         sync.Mutex
	credential func(haft.Principal) error
	call       func(haft.Call) error
}

// set changes the answers.
func (a *answers) set(credential func(haft.Principal) error, call func(haft.Call) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credential, a.call = credential, call
}

// permissions are the answers as a manager asks for them.
func (a *answers) permissions() session.Permissions {
	return session.Permissions{
		Credential: func(_ context.Context, p haft.Principal) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.credential == nil {
				return nil
			}
			return a.credential(p)
		},
		Call: func(_ context.Context, c haft.Call) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.call == nil {
				return nil
			}
			return a.call(c)
		},
	}
}

var (
	errDenied  = &haft.Error{Code: haft.CodeDenied, Message: "a rule denies it"}
	errExpired = &haft.Error{Code: haft.CodeUnauthenticated, Message: "the key was removed"}
)

// onWorkspace are the options of a session with a workspace. It waits for release to give the workspace back.
func onWorkspace(call haft.CallID, release <-chan struct{}) session.Options {
	w := &executor.Workspace{Call: &haft.CallWorkspace{Name: "desk"},
		Mount: func(context.Context) (*executor.Mounted, error) {
			return &executor.Mounted{Watch: context.Background(), Release: func() { <-release }}, nil
		}}
	return session.Options{Request: executor.Request{Call: call, Tool: "run_command", Sandbox: "e2b", Workspace: w}}
}

// ends waits until a session has ended.
func ends(t *testing.T, what string, s *session.Session) {
	t.Helper()
	select {
	case <-s.Ended():
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: the session lives", what)
	}
}

// ATTACKER: whoever makes sessions until their permission is withdrawn.
// WEAKNESS: a call is decided about before the change, and its session is made after those that there are were asked
// about: nobody asks about it.
// VERIFIES: a new session ends if its permission was withdrawn before, with and without a workspace.
func TestManager_reviews_new_sessions(t *testing.T) {
	m, a, free := setup(t, session.Config{}), &answers{}, make(chan struct{})
	close(free)
	m.SetPermissions(a.permissions())
	a.set(nil, func(c haft.Call) error {
		if c.ID != "c_1" || c.Tool != "run_command" || c.Sandbox != "e2b" || c.Workspace.Name != "desk" {
			t.Errorf("it is asked about the call %+v", c)
		}
		return errDenied
	})
	m.PermissionsChanged("acme")
	ends(t, "its workspace is denied", open(t, m, onWorkspace("c_1", free)))
	a.set(func(haft.Principal) error { return errExpired }, nil)
	ends(t, "its credential is gone", open(t, m, session.Options{}))
}

// ATTACKER: a user whose sessions have workspaces with very many files, which take long to close.
// WEAKNESS: sessions are ended one after another, each when the one before has closed its workspace.
// VERIFIES: all of them end at once, and so does that of another one whose credential is withdrawn.
func TestManager_ends_sessions_behind_slow_workspaces(t *testing.T) {
	m, a, slow := setup(t, session.Config{}), &answers{}, make(chan struct{})
	t.Cleanup(func() { close(slow) })
	m.SetPermissions(a.permissions())
	bob := haft.Principal{Org: "acme", User: "bob", Credential: "key:1"}
	one, two := open(t, m, onWorkspace("c_1", slow)), open(t, m, onWorkspace("c_2", slow))
	key := open(t, m, session.Options{Request: executor.Request{Principal: bob}})
	eve := haft.Principal{Org: "other", User: "eve"}
	other := open(t, m, session.Options{Request: executor.Request{Principal: eve}})
	a.set(func(p haft.Principal) error {
		if p.User == "bob" {
			return errExpired
		}
		return nil
	}, func(haft.Call) error { return errDenied })
	m.PermissionsChanged("")
	ends(t, "its credential is gone", key)
	ends(t, "its workspace is denied", one)
	ends(t, "its workspace is denied too", two)
	if err := other.Why(); err != nil {
		t.Errorf("a session that is allowed has ended: %v", err)
	}
}

// ATTACKER: whoever keeps the database busy while their permission is withdrawn.
// WEAKNESS: an error says neither that a session is allowed nor that it is not, and nobody asks again.
// VERIFIES: it is asked again until there is an answer, about credentials and calls.
func TestManager_asks_about_sessions_until_there_is_an_answer(t *testing.T) {
	m, a, free := setup(t, session.Config{}), &answers{}, make(chan struct{})
	close(free)
	m.SetPermissions(a.permissions())
	key, desk := open(t, m, session.Options{}), open(t, m, onWorkspace("c_1", free))
	failing := func(then error) func() error {
		asked := 0 // guarded by a.mu
		return func() error {
			if asked++; asked <= 2 {
				return errors.New("the database is busy")
			}
			return then
		}
	}
	denied, expired := failing(errDenied), failing(errExpired)
	a.set(nil, func(haft.Call) error { return denied() })
	m.PermissionsChanged("acme")
	ends(t, "its workspace is denied", desk)
	a.set(func(haft.Principal) error { return expired() }, nil)
	m.PermissionsChanged("acme")
	ends(t, "its credential is gone", key)
}

// No call is none whose session could be ended.
func TestManager_EndMadeBy_no_call(t *testing.T) {
	m := setup(t, session.Config{})
	s := open(t, m, session.Options{})
	m.EndMadeBy("", "a mistake")
	if err := s.Why(); err != nil {
		t.Errorf("a session without a call has ended: %v", err)
	}
}
