package app_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/auth"
)

// inSession runs a command of Bash in a session, and returns its exit code and what it printed.
func inSession(t *testing.T, s *app.Service, name, command string) (int, string) {
	t.Helper()
	args, err := json.Marshal(map[string]string{"session": name, "command": command})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Call(t.Context(), haft.Call{Tool: "run_command", Args: args, Principal: root()})
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var out struct {
		Exit   *int `json:"exit_code"`
		Stdout string
	}
	if res.Error != nil || json.Unmarshal(res.Value, &out) != nil || out.Exit == nil {
		t.Fatalf("%s: %s, %+v, %s", command, res.Status, res.Error, res.Value)
	}
	return *out.Exit, out.Stdout
}

// eventually tries again until the lease of a workspace is given back; each try waits for it a while.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for {
		err := try()
		if err == nil {
			return
		}
		if haft.CodeOf(err) != haft.CodeConflict || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// A session has its workspace alone until it is closed, killed or not used.
func TestService_sessions_with_a_workspace(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	ctx, spaces := t.Context(), s.API.Workspaces
	if _, err := spaces.AddWorkspace(ctx, root(), haft.NewWorkspace{Name: "desk"}); err != nil {
		t.Fatal(err)
	}
	write := func(text string) error {
		return spaces.PutWorkspaceFile(ctx, root(), "desk", haft.CallFile{Path: "f", Data: []byte(text)})
	}
	add := func(n haft.NewSession) *haft.Session {
		t.Helper()
		got, err := s.API.Sessions.AddSession(ctx, root(), n)
		if err != nil {
			t.Fatalf("AddSession %s: %v", n.Name, err)
		}
		return got
	}
	reads := &haft.SessionWorkspace{Name: "desk", ReadOnly: true}
	got := add(haft.NewSession{Name: "writes", Workspace: &haft.SessionWorkspace{Name: "desk"}})
	if w := got.Workspace; w == nil || w.Name != "desk" || w.ReadOnly {
		t.Errorf("the session says of its workspace %+v", w)
	}
	code, out := inSession(t, s, "writes", "echo hi > /workspace/f; cat $HAFT_WORKSPACE/f")
	if code != 0 || out != "hi\n" {
		t.Errorf("a command in the session: %d, %q", code, out)
	}
	for r, err := range s.Records(ctx, root(), haft.CallFilter{Tool: "run_command", Limit: 1}) {
		if err != nil || r.Call.Workspace == nil {
			t.Errorf("the call in the session is kept without its workspace: %+v, %v", r.Call, err)
		}
	}

	// All wait as long as a call waits, so side by side.
	var waits sync.WaitGroup
	for what, try := range map[string]func() error{
		"a session": func() error {
			_, err := s.API.Sessions.AddSession(ctx, root(), haft.NewSession{Name: "other", Workspace: reads})
			return err
		},
		"a file":  func() error { return write("x") },
		"removal": func() error { return spaces.RemoveWorkspace(ctx, root(), "desk") },
	} {
		waits.Go(func() {
			if err := try(); haft.CodeOf(err) != haft.CodeConflict ||
				!strings.Contains(haft.MessageOf(err), "in use by another call or session") {
				t.Errorf("%s while the session lives: %v", what, err)
			}
		})
	}
	waits.Wait()
	if err := s.API.Sessions.EndSession(ctx, root(), "writes"); err != nil {
		t.Fatal(err)
	}

	// Two that only read share it.
	add(haft.NewSession{Name: "one", Workspace: reads})
	add(haft.NewSession{Name: "two", Workspace: reads, Language: "python"})
	for _, name := range []string{"one", "two"} {
		if code, out := inSession(t, s, name, "cat /workspace/f; echo x > /workspace/f"); code == 0 || out != "hi\n" {
			t.Errorf("a session that only reads: %d, %q", code, out)
		}
	}
	if err := s.Stop(ctx, root(), "test", true); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(ctx, root()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return write("after a kill") })
	add(haft.NewSession{Name: "idle", Workspace: &haft.SessionWorkspace{Name: "desk"}, Idle: haft.Millis(time.Second)})
	eventually(t, func() error { return write("after no use") })
}

// ATTACKER: somebody else of the organisation, and somebody of another one, who know the name of a workspace.
// WEAKNESS: a session mounts what a call may not have.
// VERIFIES: to both there is no such workspace, and a rule on the workspace holds for calls in a session.
func TestService_sessions_without_a_right_to_the_workspace(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	ctx := t.Context()
	desk := haft.NewSession{Name: "s", Workspace: &haft.SessionWorkspace{Name: "desk"}}
	if _, err := s.API.Workspaces.AddWorkspace(ctx, root(), haft.NewWorkspace{Name: "desk"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []haft.Principal{{Org: "evil", User: "root", Roles: []string{haft.RoleAdmin}},
		{Org: "local", User: "mallory", Roles: []string{haft.RoleApprover}}} {
		_, err := s.API.Sessions.AddSession(ctx, p, desk)
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), "no such workspace") {
			t.Errorf("%s of %s is told %v", p.User, p.Org, err)
		}
	}
	if _, err := s.API.Sessions.AddSession(ctx, root(), desk); err != nil {
		t.Fatal(err)
	}
	if code, out := inSession(t, s, "s", "echo kept > /workspace/f"); code != 0 {
		t.Fatalf("a file of the workspace: %d, %s", code, out)
	}
	_, err := s.PutPolicy(ctx, root(), false, haft.PolicyText{Text: []byte("version: 1\nroles: {admin: ['tool:*']}\n" +
		"rules:\n  - {id: not-here, effect: deny, workspaces: [desk]}\n")})
	if err != nil {
		t.Fatal(err)
	}
	// The session ends with the right. Until then calls in it and its files are refused; then a call makes another one.
	res, err := s.Call(ctx, haft.Call{Tool: "run_command", Principal: root(),
		Args: json.RawMessage(`{"session": "s", "command": "cat /workspace/f || echo none"}`)})
	if err != nil || res.Status != haft.StatusDenied && !strings.Contains(string(res.Value), "none") ||
		strings.Contains(string(res.Value), "kept") {
		t.Errorf("a call in a session whose workspace is forbidden now: %+v, %v", res, err)
	}
	_, err = s.API.Sessions.ReadFile(ctx, root(), "s", "/workspace/f")
	if code := haft.CodeOf(err); code != haft.CodeDenied && code != haft.CodeNotFound && code != haft.CodeInvalid {
		t.Errorf("a file of such a session: %v", err)
	}
}

// A session that writes too much ends, and its workspace is free again.
func TestService_sessions_that_fill_their_workspace(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	ctx := t.Context()
	_, err := s.API.Workspaces.AddWorkspace(ctx, root(), haft.NewWorkspace{Name: "small",
		Quota: haft.WorkspaceSize{Bytes: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.API.Sessions.AddSession(ctx, root(), haft.NewSession{Name: "s",
		Workspace: &haft.SessionWorkspace{Name: "small"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Call(ctx, haft.Call{Tool: "run_command", Principal: root(),
		Args: json.RawMessage(`{"session": "s", "command": "head -c 3000000 /dev/zero > /workspace/big; sleep 600"}`)})
	if err != nil || res.Error == nil ||
		!strings.Contains(res.Error.Message, "the workspace has more than 1048576 bytes") {
		t.Errorf("a call that fills the workspace: %+v, %v", res, err)
	}
	eventually(t, func() error { return s.API.Workspaces.RemoveWorkspaceFile(ctx, root(), "small", "big") })
}

// needs adds a session of the administrator with packages.
func needs(ctx context.Context, s *app.Service, name string, pip ...string) error {
	_, err := s.API.Sessions.AddSession(ctx, root(), haft.NewSession{Name: name, Language: "python",
		Requirements: haft.Requirements{Pip: pip}})
	return err
}

func TestPackages_of_a_session(t *testing.T) {
	s := wheels(t, "")
	ctx := t.Context()
	if err := needs(ctx, s, "s", "HaftUser"); err != nil {
		t.Fatal(err)
	}
	code, out := inSession(t, s, "s", "python3 -c 'import haftuser; print(haftuser.value)'")
	if code != 0 || out != "10\n" {
		t.Errorf("a command in the session: %d, %q", code, out)
	}
	res, err := s.Call(ctx, haft.Call{Tool: "run_code", Principal: root(),
		Args: json.RawMessage(`{"session": "s", "code": "import haftuser; haftuser.value"}`)})
	if err != nil || !strings.Contains(string(res.Value), `"value":10`) {
		t.Errorf("code in the session: %+v, %v", res, err)
	}
	for _, bad := range []string{"--index-url=http://evil.example.com", "x @ file:///etc/passwd", "-r /etc/passwd",
		"nosuchpackageanywhere"} {
		if err := needs(ctx, s, "bad", bad); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	_, err = s.PutSandboxConfig(ctx, root(), haft.SandboxConfig{Type: haft.SandboxLocal,
		Needs: haft.Requirements{Pip: []string{"hafttiny<2"}}})
	if err != nil {
		t.Fatal(err)
	}
	err = needs(ctx, s, "bad", "hafttiny>=3")
	if haft.CodeOf(err) != haft.CodeConflict || !strings.Contains(haft.MessageOf(err), "the sandbox configuration of") {
		t.Errorf("a conflict: %v", err)
	}
}

// ATTACKER: whoever makes a session and asks for a package that the policy refuses for tools.
// WEAKNESS: nobody looks at the packages of sessions.
// VERIFIES: the session is refused as the tool would be, and there is none.
func TestPackages_of_a_session_are_reviewed(t *testing.T) {
	osv := `{"id": "X-1", "summary": "It is bad.", "database_specific": {"severity": "HIGH"}, "affected": [
		{"package": {"ecosystem": "PyPI", "name": "hafttiny"},
		"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}]}]}`
	s := wheels(t, "", osv)
	err := needs(t.Context(), s, "s", "HaftUser")
	if haft.CodeOf(err) != haft.CodeDenied || !strings.Contains(haft.MessageOf(err), "hafttiny 1.0 has a known") {
		t.Errorf("a package with a vulnerability: %v", err)
	}
	if list, err := s.API.Sessions.Sessions(t.Context(), root()); err != nil || len(list) > 0 {
		t.Errorf("there are sessions: %+v, %v", list, err)
	}
}

// ATTACKER: a user who leaves a process in a session that is long not used, and loses the right to its workspace.
// WEAKNESS: only calls are decided again: the process goes on to write, and keeps the workspace from others.
// VERIFIES: the session ends with the right to its workspace, by a rule and by the erasure of whose workspace it is,
// and one without it stays.
func TestService_sessions_end_with_the_right_to_the_workspace(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	ctx := t.Context()
	ann := haft.Principal{Org: "local", User: "ann", Roles: []string{haft.RoleAdmin}}
	for name, owner := range map[string]haft.Principal{"desk": root(), "hers": ann} {
		if _, err := s.API.Workspaces.AddWorkspace(ctx, owner,
			haft.NewWorkspace{Name: name, Shared: true}); err != nil {
			t.Fatal(err)
		}
		_, err := s.API.Sessions.AddSession(ctx, root(), haft.NewSession{Name: name, Idle: haft.Millis(time.Hour),
			Workspace: &haft.SessionWorkspace{Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		inSession(t, s, name, "(while sleep 0.05; do echo x >> /workspace/f; done) >/dev/null 2>&1 &")
	}
	if _, err := s.API.Sessions.AddSession(ctx, root(), haft.NewSession{Name: "plain"}); err != nil {
		t.Fatal(err)
	}
	left := func(want string) {
		t.Helper()
		for names := ""; names != want; time.Sleep(20 * time.Millisecond) {
			list, err := s.API.Sessions.Sessions(ctx, root())
			if err != nil || ctx.Err() != nil {
				t.Fatalf("sessions are left: %s, not %s (%v)", names, want, err)
			}
			names = ""
			for _, x := range list {
				names += x.Name + " "
			}
			if len(names) < len(want) {
				t.Fatalf("sessions are left: %s, not %s", names, want)
			}
		}
	}
	policy := func(effect string) {
		t.Helper()
		_, err := s.PutPolicy(ctx, root(), false, haft.PolicyText{Text: []byte("version: 1\n" +
			"roles: {admin: ['tool:*']}\nrules:\n  - {id: r, effect: " + effect + ", workspaces: [desk]}\n")})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	policy("ask") // of calls that are made from now on
	if _, err := s.API.Sessions.AddSession(ctx, root(), haft.NewSession{Name: "late"}); err != nil {
		t.Fatal(err)
	}
	if list, err := s.API.Sessions.Sessions(ctx, root()); err != nil || len(list) != 4 {
		t.Fatalf("a rule that asks ended sessions: %+v, %v", list, err)
	}
	policy("deny")
	left("hers plain late ")
	if _, err := s.Erase(ctx, root(), haft.Subject{User: "ann"}); err != nil {
		t.Fatal(err)
	}
	left("plain late ")
}

// ATTACKER: whoever has a key of an administrator, leaves a process in a session on the workspace of somebody else, and
// is given fewer rights.
// WEAKNESS: a session is looked at with the rights of when it was made: the key still may run commands.
// VERIFIES: the session ends with the role or the scope that its workspace needs, and one without a workspace stays.
func TestService_sessions_end_with_the_rights_of_their_key(t *testing.T) {
	open(t, app.Config{})
	s, _, stop := startServerWith(t, app.ServerConfig{ServiceConfig: app.ServiceConfig{Data: t.TempDir(),
		Policy: []byte("version: 1\nroles: {dev: ['tool:*'], admin: ['tool:*']}\n")}})
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin, err := s.Auth.Authenticate(ctx, auth.Credential{Scheme: "Bearer", Token: s.Auth.First.Reveal()})
	must(t, err)
	ann := haft.Principal{Org: "local", User: "ann", Roles: []string{"dev"}}
	_, err = s.API.Workspaces.AddWorkspace(ctx, ann, haft.NewWorkspace{Name: "hers"})
	must(t, err)
	for what, reduce := range map[string]func(*auth.Key){
		"its role":  func(k *auth.Key) { k.Roles = []string{"dev"} },
		"its scope": func(k *auth.Key) { k.Scope = []string{"calls:*"} },
	} {
		made, token, err := s.Auth.Keyring.Issue(ctx, admin, auth.Key{Org: "local", User: "mallory",
			Roles: []string{"dev", haft.RoleAdmin}})
		must(t, err)
		id, err := s.Auth.Authenticate(ctx, auth.Credential{Scheme: "Bearer", Token: token.Reveal()})
		must(t, err)
		for name, w := range map[string]*haft.SessionWorkspace{"writes": {Name: "hers"}, "plain": nil} {
			_, err := s.API.Sessions.AddSession(ctx, id.Principal, haft.NewSession{Name: name, Workspace: w,
				Idle: haft.Millis(time.Hour)})
			must(t, err)
		}
		must(t, s.Manage(ctx, admin.Principal, haft.KeysWrite, "key.set", func(ctx context.Context) (any, error) {
			k, err := s.Store.Keys.Key(ctx, made.ID)
			if err == nil {
				reduce(&k)
				err = s.Store.Keys.PutKey(ctx, k)
			}
			return nil, err
		}))
		for {
			list, err := s.API.Sessions.Sessions(ctx, admin.Principal)
			if err != nil || ctx.Err() != nil || len(list) == 0 {
				t.Fatalf("the key loses %s, and the sessions are %+v, %v", what, list, err)
			}
			if len(list) == 1 && list[0].Name == "plain" {
				must(t, s.API.Sessions.EndSession(ctx, admin.Principal, list[0].ID))
				break
			}
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // it is asked for, not slept for
		}
	}
}

// A session that is not made as it was asked for is not left behind: it would keep its workspace from others.
func TestService_sessions_that_are_half_made(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	ctx := t.Context()
	if _, err := s.API.Workspaces.AddWorkspace(ctx, root(), haft.NewWorkspace{Name: "desk"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.PutPolicy(ctx, root(), false, haft.PolicyText{Text: []byte("version: 1\n" +
		"roles: {admin: ['tool:*']}\nrules:\n  - {id: no-code, effect: deny, tools: ['tool:run_code']}\n")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.API.Sessions.AddSession(ctx, root(), haft.NewSession{Name: "s", Language: "python", TTY: true,
		Workspace: &haft.SessionWorkspace{Name: "desk"}})
	if haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a session whose code is denied: %v", err)
	}
	if list, err := s.API.Sessions.Sessions(ctx, root()); err != nil || len(list) > 0 {
		t.Errorf("it is left behind: %+v, %v", list, err)
	}
	err = s.API.Workspaces.PutWorkspaceFile(ctx, root(), "desk", haft.CallFile{Path: "f", Data: []byte("free")})
	if err != nil {
		t.Errorf("its workspace: %v", err)
	}
}

// ATTACKER: whoever may run commands, and nothing of whose packages a rule could say.
// WEAKNESS: a rule sees the tool and its arguments, and the packages of a session are neither.
// VERIFIES: a rule on packages refuses a session with them before they are installed, and none without.
func TestPackages_of_a_session_are_for_rules_to_see(t *testing.T) {
	s := wheels(t, "version: 1\nroles: {admin: ['tool:*']}\nrules:\n"+
		"  - {id: no-packages, effect: deny, when: 'size(requirements.pip) > 0'}\n")
	if err := needs(t.Context(), s, "s", "hafttiny"); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a session with packages: %v", err)
	}
	if err := needs(t.Context(), s, "s"); err != nil {
		t.Errorf("one without: %v", err)
	}
}
