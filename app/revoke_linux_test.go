package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/executor/builtin"
	"haft/internal/auth"
)

// bound is within what everything has to end. What is promised is one second; this is
// for machines that are busy.
const bound = 20 * time.Second

// A revoked server has a tool that does not end by itself.
type revokedServer struct {
	*app.Server
	url     string
	admin   auth.Identity
	started chan string
}

func newRevokedServer(t *testing.T) *revokedServer {
	t.Helper()
	r := &revokedServer{started: make(chan string, 256)}
	var stop func()
	r.Server, r.url, stop = startServerWith(t, app.ServerConfig{ServiceConfig: app.ServiceConfig{
		Policy: []byte("version: 1\nroles:\n  dev: [\"tool:*\"]\n  admin: [\"tool:*\"]\n"),
		Builtins: func(set *builtin.Set) error {
			return builtin.Add(set, builtin.Def{Name: "forever", Description: "Never ends."},
				func(ctx context.Context, c builtin.Call, _ struct{}) (string, error) {
					r.started <- string(c.ID)
					<-ctx.Done()
					return "", ctx.Err()
				})
		},
	}})
	t.Cleanup(stop)
	var err error
	if r.admin, err = r.Auth.Authenticate(t.Context(),
		auth.Credential{Scheme: "Bearer", Token: r.Auth.First.Reveal()}); err != nil {
		t.Fatal(err)
	}
	return r
}

// manage does something as the administrator, as the API would.
func (r *revokedServer) manage(t *testing.T, kind string, do func(ctx context.Context) error) {
	t.Helper()
	if err := r.Manage(t.Context(), r.admin.Principal, haft.KeysWrite, kind,
		func(ctx context.Context) (any, error) { return nil, do(ctx) }); err != nil {
		t.Fatal(err)
	}
}

// A holder has a key.
type holder struct {
	id, text string
	agent    *haft.Agent
}

func (r *revokedServer) issue(t *testing.T, agent bool) holder {
	t.Helper()
	k := auth.Key{Org: "local", User: "mallory", Roles: []string{"dev"}}
	var h holder
	if agent {
		var err error
		if h.agent, err = r.PutAgent(t.Context(), r.admin.Principal,
			haft.Agent{Name: "bot", Tools: []string{"forever"}}); err != nil {
			t.Fatal(err)
		}
		k.Agent = string(h.agent.ID)
	}
	made, token, err := r.Auth.Keyring.Issue(t.Context(), r.admin, k)
	if err != nil {
		t.Fatal(err)
	}
	h.id, h.text = made.ID, token.Reveal()
	return h
}

// changes are what an administrator can do to a key or its agent, and what its holder is
// told.
func changes() map[string]struct {
	agent bool
	do    func(t *testing.T, r *revokedServer, h holder)
	why   string
} {
	key := func(do func(ctx context.Context, r *revokedServer, id string) error) func(*testing.T, *revokedServer,
		holder) {
		return func(t *testing.T, r *revokedServer, h holder) {
			r.manage(t, "key.set", func(ctx context.Context) error { return do(ctx, r, h.id) })
		}
	}
	edit := func(f func(*auth.Key)) func(*testing.T, *revokedServer, holder) {
		return key(func(ctx context.Context, r *revokedServer, id string) error {
			k, err := r.Store.Keys.Key(ctx, id)
			if err != nil {
				return err
			}
			f(&k)
			return r.Store.Keys.PutKey(ctx, k)
		})
	}
	soon := func() *time.Time { at := time.Now().Add(100 * time.Millisecond); return &at }
	return map[string]struct {
		agent bool
		do    func(t *testing.T, r *revokedServer, h holder)
		why   string
	}{
		"the key is removed": {do: key(func(ctx context.Context, r *revokedServer, id string) error {
			return r.Auth.Keyring.Remove(ctx, r.admin, id)
		}), why: "the API key was removed"},
		"the key is disabled": {do: key(func(ctx context.Context, r *revokedServer, id string) error {
			_, err := r.Auth.Keyring.Set(ctx, r.admin, id, auth.KeyState{Disabled: new(true)})
			return err
		}), why: "the API key was disabled"},
		"the key is rotated": {do: key(func(ctx context.Context, r *revokedServer, id string) error {
			_, _, err := r.Auth.Keyring.Rotate(ctx, r.admin, id, 0)
			return err
		}), why: "the API key was rotated"},
		"the key is rotated with an overlap": {do: key(func(ctx context.Context, r *revokedServer, id string) error {
			_, _, err := r.Auth.Keyring.Rotate(ctx, r.admin, id, 100*time.Millisecond)
			return err
		}), why: "the API key was rotated"},
		"the key is made to expire": {do: key(func(ctx context.Context, r *revokedServer, id string) error {
			_, err := r.Auth.Keyring.Set(ctx, r.admin, id, auth.KeyState{Expires: soon()})
			return err
		}), why: "expired"},
		"the key is for another user": {do: edit(func(k *auth.Key) { k.User = "bob" }), why: "another user"},
		"the key loses its scope":     {do: edit(func(k *auth.Key) { k.Scope = []string{"usage:read"} }), why: ""},
		"the agent is removed": {agent: true, do: func(t *testing.T, r *revokedServer, h holder) {
			if err := r.RemoveAgent(t.Context(), r.admin.Principal, "bot", ""); err != nil {
				t.Fatal(err)
			}
		}, why: "agent"},
		"the agent is disabled": {agent: true, do: func(t *testing.T, r *revokedServer, h holder) {
			a := *h.agent
			a.Disabled = true
			if _, err := r.PutAgent(t.Context(), r.admin.Principal, a); err != nil {
				t.Fatal(err)
			}
		}, why: "the agent is disabled"},
	}
}

// dial sends the head of a request over a connection of its own.
func (r *revokedServer) dial(t *testing.T, h holder, method, path, headers, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n%s", method,
		path, h.text, headers, body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// rest reads a connection to its end.
func rest(conn net.Conn) (string, error) {
	_ = conn.SetReadDeadline(time.Now().Add(bound))
	var all bytes.Buffer
	_, err := io.Copy(&all, conn)
	return all.String(), err
}

// until reads a connection until it has said something.
func until(t *testing.T, conn net.Conn, what string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(bound))
	var seen []byte
	for buf := make([]byte, 1); !bytes.Contains(seen, []byte(what)); {
		if _, err := conn.Read(buf); err != nil {
			t.Fatalf("%q never came: %v, %q", what, err, seen)
		}
		seen = append(seen, buf[0])
	}
}

// ends returns what waits for the end of a connection and returns what it said.
func ends(t *testing.T, conn net.Conn) func() string {
	t.Helper()
	return func() string {
		said, err := rest(conn)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) { // of a body that was not read
			t.Errorf("it does not end: %v", err)
		}
		return said
	}
}

// begun waits until a call runs.
func begun(t *testing.T, r *revokedServer) {
	t.Helper()
	select {
	case <-r.started:
	case <-time.After(bound):
		t.Fatal("the call does not begin")
	}
}

// sendMCP sends a message and returns the session and the answer.
func sendMCP(t *testing.T, r *revokedServer, h holder, body string) (session, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.text)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %s %v", res.StatusCode, raw, err)
	}
	return res.Header.Get("Mcp-Session-Id"), string(raw)
}

// uses are the ways in which a holder can be in the middle of something. Each begins and
// returns what waits for its end and returns what the holder was told.
func uses() map[string]func(t *testing.T, r *revokedServer, h holder) func() string {
	return map[string]func(t *testing.T, r *revokedServer, h holder) func() string{
		"server-sent events": func(t *testing.T, r *revokedServer, h holder) func() string {
			conn := r.dial(t, h, "GET", "/v1/events", "Connection: close\r\n", "")
			until(t, conn, "heartbeat")
			return ends(t, conn)
		},
		"a WebSocket": func(t *testing.T, r *revokedServer, h holder) func() string {
			conn := r.dial(t, h, "GET", "/v1/events",
				"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+
					"dGhlIHNhbXBsZSBub25jZQ==\r\n", "")
			until(t, conn, "\r\n\r\n")
			return func() string { return closing(t, conn) }
		},
		"a long poll": func(t *testing.T, r *revokedServer, h holder) func() string {
			status, body := request(t, h.text, "POST", r.url+"/v1/calls", `{"tool":"forever","args":{},"wait":false}`)
			var made struct{ ID string }
			if err := json.Unmarshal([]byte(body), &made); err != nil || status != 202 {
				t.Fatalf("%d %s %v", status, body, err)
			}
			begun(t, r)
			conn := r.dial(t, h, "GET", "/v1/calls/"+made.ID+"?wait=600",
				"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n", "")
			until(t, conn, "100 Continue\r\n\r\n") // whoever sends it is known
			if _, err := conn.Write([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			return ends(t, conn)
		},
		"a call": func(t *testing.T, r *revokedServer, h holder) func() string {
			body := `{"tool":"forever","args":{}}`
			conn := r.dial(t, h, "POST", "/v1/calls",
				fmt.Sprintf("Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body)),
				body)
			begun(t, r)
			return ends(t, conn)
		},
		"a batch": func(t *testing.T, r *revokedServer, h holder) func() string {
			body := `{"calls":[{"tool":"forever","args":{}},{"tool":"forever","args":{}}]}`
			conn := r.dial(t, h, "POST", "/v1/calls/batch",
				fmt.Sprintf("Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body)),
				body)
			begun(t, r)
			return ends(t, conn)
		},
		"an upload": func(t *testing.T, r *revokedServer, h holder) func() string {
			conn := r.dial(t, h, "POST", "/v1/calls",
				"Connection: close\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: "+
					"1000000\r\n", "")
			until(t, conn, "100 Continue\r\n\r\n") // the body is being read
			return ends(t, conn)
		},
		"a stream of MCP": func(t *testing.T, r *revokedServer, h holder) func() string {
			session, _ := sendMCP(t, r, h,
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
			conn := r.dial(t, h, "GET", "/mcp", "Connection: close\r\nAccept: text/event-stream\r\nMcp-Session-Id: "+
				session+"\r\n", "")
			until(t, conn, "\r\n\r\n")
			return ends(t, conn)
		},
		"a call of MCP": func(t *testing.T, r *revokedServer, h holder) func() string {
			session, _ := sendMCP(t, r, h,
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
			body := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"forever","arguments":{}}}`
			conn := r.dial(t, h, "POST", "/mcp", fmt.Sprintf("Connection: close\r\nContent-Type: "+
				"application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: "+
				"%s\r\nContent-Length: %d\r\n", session, len(body)), body)
			begun(t, r)
			return ends(t, conn)
		},
	}
}

// closing reads the frames of a WebSocket and returns why it is closed.
func closing(t *testing.T, conn net.Conn) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(bound))
	in := bufio.NewReader(conn)
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(in, head); err != nil {
			t.Errorf("the socket does not end with a reason: %v", err)
			return ""
		}
		n := uint64(head[1] & 0x7f)
		switch n {
		case 126:
			var size uint16
			_ = binary.Read(in, binary.BigEndian, &size)
			n = uint64(size)
		case 127:
			_ = binary.Read(in, binary.BigEndian, &n)
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(in, data); err != nil {
			t.Errorf("half a frame: %v", err)
			return ""
		}
		if head[0]&0xf == 8 && len(data) >= 2 {
			code := binary.BigEndian.Uint16(data)
			if code != 4401 && code != 4403 {
				t.Errorf("the socket is closed with %d", code)
			}
			return string(data[2:])
		}
	}
}

// TestRevoked_ends_what_goes_on holds every kind of change against everything that can
// go on.
func TestRevoked_ends_what_goes_on(t *testing.T) {
	r := newRevokedServer(t)
	for change, c := range changes() {
		for use, begin := range uses() {
			t.Run(change+"/"+use, func(t *testing.T) {
				h := r.issue(t, c.agent)
				answer := begin(t, r, h)
				c.do(t, r, h)
				if said := answer(); !strings.Contains(said, c.why) {
					t.Errorf("the holder got %q, want %q", said, c.why)
				}
				if n := r.Running(); n > 0 {
					deadline := time.After(bound)
					for r.Running() > 0 {
						select {
						case <-deadline:
							t.Fatalf("%d calls still run", r.Running())
						case <-time.After(10 * time.Millisecond):
						}
					}
				}
			})
		}
	}
}

// TestRevoked_leaves_others: who has another key, or the new secret of the same one, is
// not disturbed.
func TestRevoked_leaves_others(t *testing.T) {
	r := newRevokedServer(t)
	mallory, ann := r.issue(t, false), r.issue(t, false)
	gone := uses()["server-sent events"](t, r, mallory)
	conn := r.dial(t, ann, "GET", "/v1/events", "", "")
	until(t, conn, "heartbeat")
	changes()["the key is removed"].do(t, r, mallory)
	gone()
	var text string
	r.manage(t, "key.rotate", func(ctx context.Context) error {
		_, token, err := r.Auth.Keyring.Rotate(ctx, r.admin, ann.id, time.Hour)
		text = token.Reveal()
		return err
	})
	if status, body := request(t, text, "POST", r.url+"/v1/calls",
		`{"tool":"run_code","args":{"language":"python","code":"6*7"}}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	until(t, conn, `"status":"success"`)
}
