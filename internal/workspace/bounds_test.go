package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/store/sqlite"
	"haft/internal/workspace"
)

// bind binds a call of ann to a workspace.
func (x *world) bind(name string, readOnly bool) haft.Call {
	x.Helper()
	w, err := x.Store.Bind(x.Context(), authority.Rules{}, ann, &haft.CallWorkspace{Name: name, ReadOnly: readOnly})
	x.check(err)
	return haft.Call{Principal: ann, Workspace: w}
}

// run mounts the workspace of a call.
func (x *world) run(c haft.Call) (*workspace.Use, error) {
	return x.Store.Mount(x.Context(), authority.Rules{}, c, &executor.Request{Kind: haft.KindPython}, nil)
}

func TestMount_only_the_workspace_that_was_bound(t *testing.T) {
	x := open(t, workspace.Config{})
	ctx := t.Context()
	c := x.bind("w", false)
	x.check(x.RemoveWorkspace(ctx, ann, "w"), x.add("w", ""))
	_, err := x.run(c)
	x.wantCode(err, haft.CodeConflict)
	x.check(x.add("secret", ""), x.add("secret@s", ""))
	c = x.bind("w", false)
	x.check(x.RestoreWorkspace(ctx, ann, "w", "secret@s"))
	_, err = x.run(c) // a policy was asked about other origins
	x.wantCode(err, haft.CodeConflict)
	use, err := x.run(x.bind("w", false))
	x.check(err)
	use.Close(ctx)
	use, err = x.run(x.bind("secret@s", true))
	x.check(err)
	use.Close(ctx)
	_, err = x.Store.Bind(ctx, authority.Rules{}, ann, &haft.CallWorkspace{Name: "secret@s"})
	x.wantCode(err, haft.CodeInvalid)
	_, err = x.run(haft.Call{Principal: ann, Workspace: &haft.CallWorkspace{Name: "w"}}) // nobody was asked
	x.wantCode(err, haft.CodeConflict)
}

func TestMount_does_not_wait_without_leave(t *testing.T) {
	x := open(t, workspace.Config{Wait: time.Hour})
	use, err := x.mount()
	x.check(err)
	defer use.Close(t.Context())
	asked := 0
	_, err = x.Store.Mount(t.Context(), authority.Rules{}, x.bind("w", true), &executor.Request{Kind: haft.KindPython},
		func() bool { asked++; return false })
	if x.wantCode(err, haft.CodeConflict); asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestOrigins_are_those_of_forks_of_forks(t *testing.T) {
	x := open(t, workspace.Config{})
	x.check(x.add("w@s", ""), x.add("a", "w@s"), x.add("b", "a"), x.add("other", ""),
		x.RestoreWorkspace(t.Context(), ann, "b", "other"), x.RestoreWorkspace(t.Context(), ann, "w", "w@s"))
	for name, want := range map[string]string{"w": "[]", "w@s": "[w]", "a": "[w]", "b": "[other]"} {
		w, err := x.Workspace(t.Context(), ann, name)
		if x.check(err); fmt.Sprint(w.Origins) != want {
			t.Errorf("the origins of %s are %v, want %s", name, w.Origins, want)
		}
	}
}

func TestAsk_is_asked_about_everything(t *testing.T) {
	x := open(t, workspace.Config{})
	ctx := t.Context()
	x.check(x.write("f", "x"), x.add("w@s", ""), x.add("v", ""))
	denied := &haft.Error{Code: haft.CodeDenied, Message: "no"}
	x.Ask = func(_ context.Context, _ haft.Principal, w *haft.CallWorkspace) error {
		if w.Name == "w" || strings.Contains(strings.Join(w.Origins, ","), "w") {
			return denied
		}
		return nil
	}
	_, list := x.WorkspaceFiles(ctx, ann, "w", "")
	_, read := x.read("w", "f")
	_, diff := x.DiffWorkspaces(ctx, ann, "v", "w@s")
	for i, err := range []error{list, read, diff, x.write("f", "y"), x.RemoveWorkspaceFile(ctx, ann, "w", "f"),
		x.RestoreWorkspace(ctx, ann, "v", "w@s"), x.add("w@t", ""), x.add("fork", "w"), x.add("fork", "w@s"),
		x.RemoveWorkspace(ctx, ann, "w")} {
		if !errors.Is(err, denied) {
			t.Errorf("%d: %v", i, err)
		}
	}
	x.Ask = nil
	if text, err := x.read("w", "f"); err != nil || text != "x" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func TestRestore_asks_about_the_origins_of_now(t *testing.T) {
	x := open(t, workspace.Config{})
	x.check(x.add("secret", ""), x.add("v", ""))
	denied := &haft.Error{Code: haft.CodeDenied, Message: "no"}
	changed := false
	x.Ask = func(ctx context.Context, _ haft.Principal, w *haft.CallWorkspace) error {
		if w.Name == "v" && !changed { // after the source was found
			changed = true
			ask := x.Ask
			x.Ask = nil
			x.check(x.RestoreWorkspace(ctx, ann, "w", "secret"))
			x.Ask = ask
		}
		if strings.Contains(strings.Join(w.Origins, ","), "secret") {
			return denied
		}
		return nil
	}
	if err := x.RestoreWorkspace(t.Context(), ann, "v", "w"); !errors.Is(err, denied) || !changed {
		t.Errorf("the files of a secret were restored: %v", err)
	}
}

func TestSweep_leaves_another_database_alone(t *testing.T) {
	x := open(t, workspace.Config{})
	x.put("kept", "kept")
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	x.check(err)
	other := newAPI(workspace.New(db, workspace.Config{Dir: filepath.Join(x.dir, "workspaces")}))
	_, err = other.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: "theirs"})
	x.check(err, other.Store.Sweep(t.Context()), x.Store.Sweep(t.Context()))
	if _, err := other.Workspace(t.Context(), ann, "theirs"); err != nil {
		t.Error(err)
	}
	list, err := other.WorkspaceFiles(t.Context(), ann, "theirs", "")
	if x.check(err); len(list.Entries) > 0 {
		t.Errorf("the other one has %v", list.Entries)
	}
	if text, err := x.read("w", "kept"); err != nil || text != "kept" {
		t.Errorf("the file is %q, %v", text, err)
	}
	x.check(other.Store.Close(), db.Close())
}

func TestErase_while_a_call_of_somebody_else_runs(t *testing.T) {
	x := open(t, workspace.Config{})
	ctx := t.Context()
	x.check(x.add("w@s", ""))
	use, err := x.mount()
	x.check(err)
	x.check(x.Store.Erase(ctx, "acme", "ann"))
	if all, err := x.Store.All(ctx, "acme", ""); err != nil || len(all) > 0 {
		t.Errorf("there are rows: %v, %v", all, err)
	}
	x.wantCode(use.Finish(ctx, &haft.Result{}), haft.CodeNotFound)
	x.check(x.Store.Sweep(ctx))
	if all, err := os.ReadDir(filepath.Dir(x.home)); err != nil || len(all) > 0 {
		t.Errorf("there are directories: %v, %v", all, err)
	}
}

func TestOrganisation_is_bounded_whoever_adds_at_once(t *testing.T) {
	x := open(t, workspace.Config{Org: 50_000, Quota: haft.WorkspaceSize{Bytes: 30_000}})
	x.check(x.write("f", strings.Repeat("x", 9_000)))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { _ = x.add(fmt.Sprint("fork", i), "w") }) // most are refused
	}
	all.Wait()
	list, err := x.Store.All(t.Context(), "acme", "")
	x.check(err)
	var sum int64
	for _, w := range list {
		sum += w.Used.Bytes
	}
	if sum > 50_000 || len(list) < 3 {
		t.Errorf("%d workspaces have %d bytes", len(list), sum)
	}
	for _, w := range list[1:] {
		x.check(x.RemoveWorkspace(t.Context(), ann, w.Name))
	}
	name := list[0].Name
	x.check(x.add("second", ""))
	one, err := x.run(x.bind(name, false)) // which may write 30,000 bytes
	x.check(err)
	x.wantCode(x.PutWorkspaceFile(t.Context(), ann, "second",
		haft.CallFile{Path: "f", Data: make([]byte, 25_000)}), haft.CodeConflict)
	one.Close(t.Context())
	x.check(x.PutWorkspaceFile(t.Context(), ann, "second", haft.CallFile{Path: "f", Data: make([]byte, 25_000)}))
}

func TestDisk_stays_free(t *testing.T) {
	x := open(t, workspace.Config{})
	use, err := x.mount()
	x.check(err)
	workspace.SetReserve(x.Store, 1<<60)
	<-use.Watch(t.Context()).Done()
	res := &haft.Result{Status: haft.StatusCancelled}
	x.check(use.Finish(t.Context(), res))
	if res.Status != haft.StatusLimit || res.Error.Kind != haft.FailDisk {
		t.Errorf("the result is %s, %+v", res.Status, res.Error)
	}
	_, err = x.mount()
	x.wantCode(err, haft.CodeUnavailable)
	x.wantCode(x.write("f", "x"), haft.CodeUnavailable)
	x.wantCode(x.add("w@s", ""), haft.CodeUnavailable)
}

func TestDisk_is_watched_whatever_measuring_says(t *testing.T) {
	x := open(t, workspace.Config{})
	use, err := x.mount()
	x.check(err)
	x.check(os.Rename(x.files, x.files+"-away")) // which cannot be measured
	workspace.SetReserve(x.Store, 1<<60)
	ctx := use.Watch(t.Context())
	<-ctx.Done()
	if err := context.Cause(ctx); !strings.Contains(err.Error(), "disk") {
		t.Errorf("the call ended since %v", err)
	}
	x.check(os.Rename(x.files+"-away", x.files))
	res := &haft.Result{Status: haft.StatusCancelled}
	if x.check(use.Finish(t.Context(), res)); res.Status != haft.StatusLimit || res.Error.Kind != haft.FailDisk {
		t.Errorf("the result is %s, %+v", res.Status, res.Error)
	}
}

func TestChanges_are_bounded(t *testing.T) {
	x := open(t, workspace.Config{Changes: 2}) // of which one adds w
	x.check(x.write("f", "x"))
	x.wantCode(x.write("f", "x"), haft.CodeRateLimited)
	x.wantCode(x.add("v", ""), haft.CodeRateLimited)
	x.wantCode(x.RemoveWorkspace(t.Context(), ann, "w"), haft.CodeRateLimited)
	if text, err := x.read("w", "f"); err != nil || text != "x" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func TestList_is_bounded(t *testing.T) {
	x := open(t, workspace.Config{})
	x.put("d/0", "")
	for i := range 12_000 {
		x.check(os.WriteFile(filepath.Join(x.files, fmt.Sprintf("d/f%05d", i)), nil, 0o644))
	}
	l, err := x.WorkspaceFiles(t.Context(), ann, "w", "d")
	if x.check(err); len(l.Entries) != 10_000 || !l.More || l.Entries[1].Path != "d/f00000" {
		t.Errorf("%d entries, more %t", len(l.Entries), l.More)
	}
	x.check(x.add("empty", ""))
	d, err := x.DiffWorkspaces(t.Context(), ann, "empty", "w")
	if x.check(err); len(d.Changes) != 10_000 || !d.More {
		t.Errorf("%d changes, more %t", len(d.Changes), d.More)
	}
	// Names of 200 bytes: the paths are bounded too.
	x.check(os.RemoveAll(filepath.Join(x.files, "d")))
	for i := range 6_000 {
		x.check(os.WriteFile(filepath.Join(x.files, fmt.Sprintf("%0200d", i)), nil, 0o644))
	}
	l, err = x.WorkspaceFiles(t.Context(), ann, "w", "")
	if x.check(err); len(l.Entries) > 1<<20/200+1 || !l.More {
		t.Errorf("%d entries, more %t", len(l.Entries), l.More)
	}
}

// Who asks for more than the operator allows is refused, and not given less.
func TestAddWorkspace_refuses_more_than_is_allowed(t *testing.T) {
	x := open(t, workspace.Config{Quota: haft.WorkspaceSize{Bytes: 1 << 20, Inodes: 10}})
	for _, quota := range []haft.WorkspaceSize{{Bytes: 1<<20 + 1}, {Inodes: 11}} {
		_, err := x.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: "more", Quota: quota})
		x.wantCode(err, haft.CodeInvalid)
	}
	w, err := x.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: "most", Quota: haft.WorkspaceSize{Bytes: 1 << 20,
		Inodes: 10}})
	if x.check(err); w.Quota != (haft.WorkspaceSize{Bytes: 1 << 20, Inodes: 10}) {
		t.Errorf("it has %+v", w.Quota)
	}
}
