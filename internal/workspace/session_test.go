package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/workspace"
)

// A session has the workspace of the call that made it, after that call too, until it releases it.
func TestMount_for_a_session(t *testing.T) {
	x := open(t, workspace.Config{Wait: 50 * time.Millisecond})
	ctx, rules := t.Context(), authority.Rules{}
	begin := func(p haft.Principal, c haft.CallWorkspace) (*executor.Workspace, error) {
		req := executor.Request{Kind: haft.KindBuiltin, Tool: "run_command"}
		w, err := x.Store.Bind(ctx, rules, p, &c)
		if err != nil {
			return nil, err
		}
		use, err := x.Store.Mount(ctx, rules, haft.Call{Principal: p, Workspace: w}, &req, nil)
		if use != nil {
			t.Error("the call has the workspace itself")
		}
		return req.Workspace, err
	}
	call, cancel := context.WithCancel(ctx)
	w, err := begin(ann, haft.CallWorkspace{Name: "w"})
	x.check(err, x.write("f", "nobody has it yet"))
	mounted, err := w.Mount(call)
	x.check(err)
	cancel() // the call has ended, and the session goes on
	x.wantCode(x.write("f", "x"), haft.CodeConflict)
	x.wantCode(x.RemoveWorkspace(ctx, ann, "w"), haft.CodeConflict)
	_, err = w.Mount(ctx)
	x.wantCode(err, haft.CodeConflict)
	if err := mounted.Watch.Err(); err != nil || mounted.ReadOnly {
		t.Errorf("the workspace of the session: %v, read-only %v", err, mounted.ReadOnly)
	}
	release, ok := mounted.Hold()
	if !ok {
		t.Fatal("the workspace cannot be held")
	}
	gone := make(chan struct{})
	go func() { mounted.Release(); close(gone) }()
	x.wantCode(x.write("f", "x"), haft.CodeConflict) // something of the session still runs
	release()
	<-gone
	x.check(x.write("f", "given back"))

	reads := haft.CallWorkspace{Name: "w", ReadOnly: true}
	w, err = begin(ann, reads)
	x.check(err)
	one, err := w.Mount(ctx)
	x.check(err)
	two, err := w.Mount(ctx)
	x.check(err)
	if !one.ReadOnly || !two.ReadOnly {
		t.Error("a workspace that is only read can be written")
	}
	x.wantCode(x.write("f", "x"), haft.CodeConflict)
	one.Release()
	two.Release()

	_, err = begin(ann, haft.CallWorkspace{Name: "w", Workdir: true})
	x.wantCode(err, haft.CodeInvalid)
	for _, p := range []haft.Principal{bob, evil} {
		_, err := begin(p, reads)
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(err.Error(), "no such") {
			t.Errorf("somebody else is told %v", err)
		}
	}
}

// A session that writes more than the quota is told so while it lives.
func TestMount_for_a_session_that_writes_too_much(t *testing.T) {
	x := open(t, workspace.Config{Quota: haft.WorkspaceSize{Bytes: 1 << 10}})
	ctx, rules := t.Context(), authority.Rules{}
	req := executor.Request{Kind: haft.KindBuiltin, Tool: "run_code"}
	w, err := x.Store.Bind(ctx, rules, ann, &haft.CallWorkspace{Name: "w"})
	x.check(err)
	_, err = x.Store.Mount(ctx, rules, haft.Call{Principal: ann, Workspace: w}, &req, nil)
	x.check(err)
	mounted, err := req.Workspace.Mount(ctx)
	x.check(err, os.WriteFile(filepath.Join(mounted.Host, "big"), make([]byte, 2<<10), 0o600))
	<-mounted.Watch.Done()
	if why := context.Cause(mounted.Watch); !strings.Contains(why.Error(), "more than 1024 bytes") {
		t.Errorf("the session is told %v", why)
	}
	mounted.Release()
	got, err := x.Workspace(ctx, ann, "w")
	x.check(err)
	if got.Used.Bytes < 2<<10 {
		t.Errorf("what the session left is not measured: %+v", got.Used)
	}
}
