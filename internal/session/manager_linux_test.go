package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/session"
	"haft/sandbox/cell"
)

// Who stops sessions does not stop those that others are opening meanwhile.
func TestManager_Stop_while_opening(t *testing.T) {
	boom := errors.New("made, but this test has no sandbox")
	var m *session.Manager
	for stopped, match := range map[bool]string{true: "acme", false: "evil"} {
		m = session.New(session.Config{Open: func(context.Context,
			executor.Request) (*cell.Cell, haft.Isolation, error) {
			m.Stop("stopped", func(p haft.Principal) bool { return p.Org == match })
			if m.Stopping(alice) != stopped {
				t.Errorf("%s is stopped: the session of acme that is being made: %v", match, !stopped)
			}
			return nil, haft.Isolation{}, boom
		}})
		req := executor.Request{Org: "acme", Principal: alice}
		if _, err := m.Open(t.Context(), session.Options{Request: req}); !errors.Is(err, boom) {
			t.Errorf("Open: %v", err)
		}
	}
}

// One owner cannot take all the sessions of an organisation, nor one organisation all of a server.
func TestManager_bounds_of_owners(t *testing.T) {
	m := setup(t, session.Config{Total: 3, PerOrg: 2, PerOwner: 1})
	try := func(org, user string) error {
		_, err := m.Open(t.Context(), session.Options{Request: executor.Request{Org: org,
			Principal: haft.Principal{Org: org, User: user}}})
		return err
	}
	for _, c := range []struct {
		org, user, want string
	}{
		{"acme", "alice", ""}, {"acme", "alice", "you have 1"}, {"acme", "bob", ""},
		{"acme", "carl", "the organisation has 2"}, {"other", "dora", ""}, {"third", "eve", "the server has"},
	} {
		err := try(c.org, c.user)
		if c.want == "" && err != nil || c.want != "" && (haft.CodeOf(err) != haft.CodeRateLimited ||
			!strings.Contains(haft.MessageOf(err), c.want)) {
			t.Errorf("%s of %s: %v, want %q", c.user, c.org, err, c.want)
		}
	}
}

// Code writes answers of its own, with very many parts: they are refused before they are read.
func TestSession_refuses_answers_of_many_parts(t *testing.T) {
	for name, answer := range map[string]string{
		"variables": `{"done":true,"variables":[` + strings.Repeat("{},", 2000) + `{}]}`,
		"forms":     `{"result":{` + strings.Repeat(`"a":1,`, 2000) + `"b":1}}`,
	} {
		s := open(t, setup(t, session.Config{}), session.Options{})
		_, err := s.Run(t.Context(), session.Code{Language: "python",
			Source: "import os\nos.write(3, b'''" + answer + "\\0''')"})
		if err == nil || !strings.Contains(err.Error(), "parts of an answer") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
