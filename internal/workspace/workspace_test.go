package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/store"
	"haft/internal/store/sqlite"
	"haft/internal/workspace"
)

// crashVar names the data directory in which the program takes a snapshot, to be killed meanwhile. With
// restoreVar it restores one.
const (
	crashVar   = "HAFT_TEST_SNAPSHOT_IN"
	restoreVar = "HAFT_TEST_RESTORE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashVar); dir != "" {
		fmt.Println(snapshotIn(dir))
		return
	}
	goleak.VerifyTestMain(m)
}

// newAPI returns the API of a store.
func newAPI(s *workspace.Store) *workspace.API {
	return &workspace.API{Store: s,
		Log: func(context.Context, haft.Principal, string, any) error { return nil }}
}

// snapshotIn takes or restores a snapshot of the workspace w.
func snapshotIn(dir string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	a := newAPI(workspace.New(db, workspace.Config{Dir: filepath.Join(dir, "workspaces")}))
	if os.Getenv(restoreVar) != "" {
		return a.RestoreWorkspace(ctx, ann, "w", "w@whole")
	}
	_, err = a.AddWorkspace(ctx, ann, haft.NewWorkspace{Name: "w@half"})
	return err
}

var (
	ann  = haft.Principal{Org: "acme", User: "ann"}
	bob  = haft.Principal{Org: "acme", User: "bob"}
	evil = haft.Principal{Org: "evil", User: "ann", Roles: []string{haft.RoleAdmin}}
)

// world is a store with one workspace, w.
type world struct {
	*testing.T
	*workspace.API
	db          *store.Store
	dir         string
	home, files string
}

// open makes a world.
func open(t *testing.T, cfg workspace.Config) *world {
	t.Helper()
	x := &world{T: t, dir: t.TempDir()}
	x.reopen(cfg)
	t.Cleanup(func() { x.check(x.Store.Close(), x.db.Close()) })
	_, err := x.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: "w"})
	x.check(err)
	x.find()
	return x
}

// reopen opens the store in the directory.
func (x *world) reopen(cfg workspace.Config) {
	x.Helper()
	var err error
	x.db, err = sqlite.Open(x.Context(), sqlite.Config{Dir: x.dir})
	x.check(err)
	cfg.Dir = filepath.Join(x.dir, "workspaces")
	x.API = newAPI(workspace.New(x.db, cfg))
}

// find finds the files of the workspace, which a restore moves.
func (x *world) find() {
	x.Helper()
	var err error
	x.home, x.files, err = workspace.Dirs(x.Store, "acme", "w")
	x.check(err)
}

func (x *world) check(errs ...error) {
	x.Helper()
	if err := errors.Join(errs...); err != nil {
		x.Fatal(err)
	}
}

func (x *world) wantCode(err error, code haft.Code) {
	x.Helper()
	if haft.CodeOf(err) != code {
		x.Errorf("error %v, want %s", err, code)
	}
}

// put writes a file as a tool does.
func (x *world) put(name, text string) {
	x.Helper()
	name = filepath.Join(x.files, name)
	x.check(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644))
}

// hostile leaves what a tool can leave.
func (x *world) hostile() {
	x.Helper()
	x.put("a/plain", "plain")
	x.put("run", "#!/bin/sh\n")
	x.put("line\nbreak", "newline")
	x.put("locked/inside", "inside")
	x.check(os.Symlink("/etc/passwd", filepath.Join(x.files, "passwd")),
		os.Symlink("../../../..", filepath.Join(x.files, "up")), os.Symlink("a", filepath.Join(x.files, "to-a")),
		os.Link(filepath.Join(x.files, "a/plain"), filepath.Join(x.files, "a/linked")),
		syscall.Mkfifo(filepath.Join(x.files, "pipe"), 0o644),
		os.Chmod(filepath.Join(x.files, "run"), 0o755|os.ModeSetuid),
		os.Chmod(filepath.Join(x.files, "locked"), 0))
}

// list returns the paths and kinds of all entries.
func (x *world) list() string {
	x.Helper()
	l, err := x.WorkspaceFiles(x.Context(), ann, "w", "")
	x.check(err)
	var all []string
	for _, e := range l.Entries {
		all = append(all, fmt.Sprintf("%q %s", e.Path, e.Kind))
	}
	return strings.Join(all, "\n")
}

func (x *world) read(w, name string) (string, error) {
	_, f, err := x.OpenWorkspaceFile(x.Context(), ann, w, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

// add adds a workspace or a snapshot.
func (x *world) add(name, from string) error {
	_, err := x.AddWorkspace(x.Context(), ann, haft.NewWorkspace{Name: name, From: from})
	return err
}

// write writes a file as a client does.
func (x *world) write(name, text string) error {
	return x.PutWorkspaceFile(x.Context(), ann, "w", haft.CallFile{Path: name, Data: []byte(text)})
}

// left returns what is in the directory of the workspace besides its files and its lock, and in that of all
// workspaces besides those of so many.
func (x *world) left(homes int) (names []string) {
	x.Helper()
	x.find()
	entries, err := os.ReadDir(x.home)
	x.check(err)
	for _, e := range entries {
		if e.Name() != "lock" && e.Name() != filepath.Base(x.files) {
			names = append(names, e.Name())
		}
	}
	all, err := os.ReadDir(filepath.Dir(x.home))
	if x.check(err); len(all) != homes {
		names = append(names, fmt.Sprint(all))
	}
	return names
}

func TestFiles_of_a_hostile_tool(t *testing.T) {
	x := open(t, workspace.Config{})
	x.hostile()
	want := strings.Join([]string{`"a" directory`, `"a/linked" file`, `"a/plain" file`, `"line\nbreak" file`,
		`"locked" directory`, `"locked/inside" file`, `"passwd" link`, `"pipe" other`, `"run" file`, `"to-a" link`,
		`"up" link`}, "\n")
	if got := x.list(); got != want {
		t.Errorf("the files are\n%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"passwd", "pipe", "up/etc/passwd", "to-a/plain", "../lock", "/etc/passwd",
		"a/../run", "",
		".", "a//plain", "a/\x00", strings.Repeat("a/", 40) + "b"} {
		if _, err := x.read("w", name); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("reading %.40q: %v", name, err)
		}
		if err := x.write(name, "x"); haft.CodeOf(err) != haft.CodeInvalid &&
			name != "passwd" && name != "pipe" {
			t.Errorf("writing %.40q: %v", name, err)
		}
	}
	if text, err := x.read("w", "passwd"); err != nil || text != "x" { // the link was replaced, and not followed
		t.Errorf("the link is now %q, %v", text, err)
	}
	if text, err := x.read("w", "locked/inside"); err != nil || text != "inside" {
		t.Errorf("the file in a locked directory is %q, %v", text, err)
	}
	x.check(x.write("new/dir/f", "abc"))
	if text, err := x.read("w", "new/dir/f"); err != nil || text != "abc" {
		t.Errorf("the file is %q, %v", text, err)
	}
	x.wantCode(x.write("new/dir", "x"), haft.CodeInvalid)
	x.check(x.RemoveWorkspaceFile(t.Context(), ann, "w", "new"), x.RemoveWorkspaceFile(t.Context(), ann, "w", "up"))
	x.wantCode(x.RemoveWorkspaceFile(t.Context(), ann, "w", "new"), haft.CodeNotFound)
	if left := x.left(1); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSnapshot_of_a_hostile_tool(t *testing.T) {
	x := open(t, workspace.Config{})
	ctx := t.Context()
	x.hostile()
	x.check(x.add("w@one", ""))
	x.wantCode(x.add("w@one", ""), haft.CodeConflict)
	_, kept, err := workspace.Dirs(x.Store, "acme", "w@one") // to which a tool may guess a way
	x.check(err)
	kept, err = filepath.Rel(x.files, kept)
	x.check(err, os.Symlink(kept, filepath.Join(x.files, "snapshot")))
	for _, name := range []string{"snapshot/run", "snapshot/a/plain", "snapshot/new"} {
		_, err := x.read("w", name)
		x.wantCode(err, haft.CodeInvalid)
		x.wantCode(x.write(name, "evil"), haft.CodeInvalid)
		x.wantCode(x.RemoveWorkspaceFile(ctx, ann, "w", name), haft.CodeInvalid)
	}
	x.check(x.RemoveWorkspaceFile(ctx, ann, "w", "snapshot"))                        // only the link
	x.check(os.WriteFile(filepath.Join(x.files, "a/plain"), []byte("other"), 0o644), // the same size
		os.RemoveAll(filepath.Join(x.files, "to-a")))
	x.put("b", "new")
	x.put("to-a/plain", "a directory where a link was")
	d, err := x.DiffWorkspaces(ctx, ann, "w@one", "w")
	x.check(err)
	got := fmt.Sprint(d.Changes)
	want := "[{a/linked changed 5 5} {a/plain changed 5 5} {b added 0 3} {pipe added 0 0} {to-a changed 0 0} " +
		"{to-a/plain added 0 28}]"
	if strings.Replace(got, " {run changed 10 10}", "", 1) != want { // its set-user-ID bit was dropped
		t.Errorf("the differences are %s\nwant %s", got, want)
	}
	_, err = x.AddWorkspace(ctx, bob, haft.NewWorkspace{Name: "fork", From: "w"})
	x.wantCode(err, haft.CodeNotFound) // it is not bob's
	_, err = x.AddWorkspace(ctx, ann, haft.NewWorkspace{Name: "fork", From: "w@one"})
	x.check(err)
	for name, from := range map[string]string{"w@two": "w@one", "none@s": "", "w@a@b": "", "@s": "", "w@": ""} {
		if err := x.add(name, from); haft.CodeOf(err) != haft.CodeInvalid && haft.CodeOf(err) != haft.CodeNotFound {
			t.Errorf("adding %s: %v", name, err)
		}
	}
	for _, err := range []error{x.RestoreWorkspace(ctx, ann, "w@one", "w"), x.RestoreWorkspace(ctx, ann, "w", "w"),
		x.PutWorkspaceFile(ctx, ann, "w@one", haft.CallFile{Path: "f"}),
		x.RemoveWorkspaceFile(ctx, ann, "w@one", "run")} {
		x.wantCode(err, haft.CodeInvalid) // nobody writes to a snapshot
	}
	if text, err := x.read("fork", "a/plain"); err != nil || text != "plain" {
		t.Errorf("the fork has %q, %v", text, err)
	}
	x.check(x.RestoreWorkspace(ctx, ann, "w", "w@one"))
	x.find()
	if text, err := x.read("w", "a/plain"); err != nil || text != "plain" {
		t.Errorf("what was restored is %q, %v", text, err)
	}
	a, err := os.Stat(filepath.Join(x.files, "a/plain"))
	x.check(err)
	b, err := os.Stat(filepath.Join(x.files, "a/linked"))
	x.check(err)
	run, err := os.Stat(filepath.Join(x.files, "run"))
	x.check(err)
	if !os.SameFile(a, b) || run.Mode() != 0o755 {
		t.Errorf("hard links are the same file: %t; the mode of the program is %s", os.SameFile(a, b), run.Mode())
	}
	d, err = x.DiffWorkspaces(ctx, ann, "w@one", "w")
	if x.check(err); len(d.Changes) > 0 {
		t.Errorf("after the restore there are differences: %v", d.Changes)
	}
	x.check(x.RemoveWorkspace(ctx, ann, "w@one"))
	_, err = x.DiffWorkspaces(ctx, ann, "w@one", "w")
	x.wantCode(err, haft.CodeNotFound)
	if left := x.left(2); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	x.check(x.add("w@two", ""), x.RemoveWorkspace(ctx, ann, "w")) // with its snapshot
	if all, err := os.ReadDir(filepath.Dir(x.home)); err != nil || len(all) != 1 {
		t.Errorf("besides the fork there is %v, %v", all, err)
	}
}

// TestKilled kills a process in the middle of a snapshot, and of a restore: nothing of that is seen, and
// nothing is left after a sweep. The lease of the dead process is free.
func TestKilled(t *testing.T) {
	for _, restore := range []bool{false, true} {
		t.Run(fmt.Sprintf("restore %t", restore), func(t *testing.T) { kill(t, restore) })
	}
}

func kill(t *testing.T, restore bool) {
	x := open(t, workspace.Config{})
	for i := range 600 {
		x.put(fmt.Sprintf("d%d/f%d", i%30, i), "content")
	}
	homes, watched := 1, filepath.Dir(x.home)
	if restore {
		homes, watched = 2, x.home
		x.check(x.add("w@whole", ""))
		x.put("later", "later")
	}
	for try := 0; ; try++ {
		x.check(x.Store.Close(), x.db.Close()) // which only one process has
		before, err := os.ReadDir(watched)
		x.check(err)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashVar+"="+x.dir)
		if restore {
			cmd.Env = append(cmd.Env, restoreVar+"=1")
		}
		var out strings.Builder
		cmd.Stdout = &out
		x.check(cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for len(ended) == 0 {
			if now, err := os.ReadDir(watched); err != nil || len(now) > len(before) {
				break
			}
			runtime.Gosched()
		}
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		x.reopen(workspace.Config{})
		if out.Len() == 0 {
			break
		}
		if out.String() != "<nil>\n" || try == 5 {
			t.Fatalf("the process was not killed in time: %s", out.String())
		}
		if restore {
			x.find()
			x.put("later", "later")
		} else {
			x.check(x.RemoveWorkspace(t.Context(), ann, "w@half"))
		}
	}
	if len(x.left(homes)) == 0 {
		t.Error("the killed process left nothing, so this proves nothing")
	}
	all, err := os.ReadDir(filepath.Dir(x.home))
	x.check(err)
	for _, e := range all { // one without a lock would count as one that is being made
		old := time.Now().Add(-time.Hour)
		x.check(os.Chtimes(filepath.Join(filepath.Dir(x.home), e.Name()), old, old))
	}
	x.check(x.Store.Sweep(t.Context()))
	if left := x.left(homes); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if restore {
		if text, err := x.read("w", "later"); err != nil || text != "later" {
			t.Errorf("half a restore was seen: %q, %v", text, err)
		}
		x.check(x.RestoreWorkspace(t.Context(), ann, "w", "w@whole"))
		_, err := x.read("w", "later")
		x.wantCode(err, haft.CodeNotFound)
		return
	}
	n, err := x.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: "w@half"})
	if x.check(err); n.Used.Inodes != 630 {
		t.Errorf("the snapshot has %d entries", n.Used.Inodes)
	}
}

func TestSweep_removes_what_no_row_names(t *testing.T) {
	x := open(t, workspace.Config{})
	x.put("kept", "kept")
	root := filepath.Dir(x.home)
	orphan, half := filepath.Join(root, "ws-orphan"), filepath.Join(root, "ws-half")
	x.check(os.MkdirAll(filepath.Join(x.home, "t-x/deep"), 0o755),
		os.WriteFile(filepath.Join(x.home, "put-x"), nil, 0o600),
		os.MkdirAll(filepath.Join(orphan, "t-x"), 0o755), os.WriteFile(filepath.Join(orphan, "lock"), nil, 0o600),
		os.MkdirAll(filepath.Join(root, "trash-x/deep"), 0), os.Mkdir(half, 0o755))
	x.check(x.Store.Sweep(t.Context()))
	if left := x.left(2); len(left) > 0 {
		t.Errorf("besides the workspace there is %q", left)
	}
	if _, err := os.Stat(half); err != nil {
		t.Errorf("a directory that somebody may be making is gone: %v", err)
	}
	old := time.Now().Add(-time.Hour)
	x.check(os.Chtimes(half, old, old), x.Store.Sweep(t.Context()))
	entries, err := os.ReadDir(root)
	if x.check(err); len(entries) != 1 {
		t.Errorf("besides the workspace there is %v", entries)
	}
	if _, err := os.Stat(orphan); !os.IsNotExist(err) {
		t.Errorf("the directory without a row is still there: %v", err)
	}
	if text, err := x.read("w", "kept"); err != nil || text != "kept" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func TestRemove_deep(t *testing.T) {
	x := open(t, workspace.Config{})
	root, err := os.OpenRoot(x.files)
	x.check(err)
	for range 300 {
		x.check(root.Mkdir("d", 0o755))
		next, err := root.OpenRoot("d")
		x.check(err, root.Close())
		root = next
	}
	x.check(root.WriteFile("f", []byte("deep"), 0o644), root.Close())
	x.wantCode(x.add("w@deep", ""), haft.CodeConflict)
	x.check(x.RemoveWorkspaceFile(t.Context(), ann, "w", "d"))
	if left := x.left(1); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	x.check(x.add("w@empty", ""))
}

func TestMount_leases(t *testing.T) {
	x := open(t, workspace.Config{Wait: 50 * time.Millisecond})
	ctx := t.Context()
	rules := authority.Rules{}
	var req executor.Request
	mount := func(p haft.Principal, readOnly bool) (*workspace.Use, error) {
		req = executor.Request{Kind: haft.KindPython}
		w, err := x.Store.Bind(ctx, rules, p, &haft.CallWorkspace{Name: "w", ReadOnly: readOnly})
		if err != nil {
			return nil, err
		}
		return x.Store.Mount(ctx, rules, haft.Call{Principal: p, Workspace: w}, &req, nil)
	}
	writer, err := mount(ann, false)
	held := req.Workspace
	x.check(err)
	_, err = mount(ann, false)
	x.wantCode(err, haft.CodeConflict)
	_, err = mount(ann, true)
	x.wantCode(err, haft.CodeConflict)
	x.wantCode(x.RemoveWorkspace(ctx, ann, "w"), haft.CodeConflict)
	x.wantCode(x.write("f", "x"), haft.CodeConflict)
	x.wantCode(x.add("w@s", ""), haft.CodeConflict)
	for _, p := range []haft.Principal{bob, evil} {
		if _, err := mount(p, true); haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(err.Error(), "no such") {
			t.Errorf("somebody else is told %v", err)
		}
	}
	release, ok := held.Hold()
	if !ok {
		t.Fatal("the workspace cannot be held")
	}
	finished := make(chan error)
	go func() { finished <- writer.Finish(ctx, &haft.Result{}) }()
	if _, err := mount(ann, true); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("while something of the run is left: %v", err)
	}
	release()
	x.check(<-finished)
	if _, ok := held.Hold(); ok {
		t.Error("a workspace that was given back is held")
	}
	one, err := mount(ann, true)
	x.check(err)
	two, err := mount(ann, true)
	x.check(err)
	_, err = mount(ann, false)
	x.wantCode(err, haft.CodeConflict)
	one.Close(ctx)
	two.Close(ctx)
	two.Close(ctx)
	x.check(x.RemoveWorkspace(ctx, ann, "w"))
	_, err = mount(ann, false)
	x.wantCode(err, haft.CodeInvalid)
}

// mount mounts the workspace to write to it.
func (x *world) mount() (*workspace.Use, error) {
	w, err := x.Store.Bind(x.Context(), authority.Rules{}, ann, &haft.CallWorkspace{Name: "w"})
	x.check(err)
	return x.Store.Mount(x.Context(), authority.Rules{}, haft.Call{Principal: ann, Workspace: w},
		&executor.Request{Kind: haft.KindPython}, nil)
}

func TestQuota(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  workspace.Config
		fill func(x *world)
		kind haft.FailureKind
	}{
		"bytes": {workspace.Config{Quota: haft.WorkspaceSize{Bytes: 10_000}},
			func(x *world) { x.put("f", strings.Repeat("x", 20_000)) }, haft.FailDisk},
		"a sparse file": {workspace.Config{}, func(x *world) {
			x.put("f", "")
			x.check(os.Truncate(filepath.Join(x.files, "f"), 10<<30))
		}, haft.FailDisk},
		"files": {workspace.Config{Quota: haft.WorkspaceSize{Inodes: 10}}, func(x *world) {
			for i := range 20 {
				x.put(fmt.Sprint(i), "")
			}
		}, haft.FailInodes},
		"files in a locked directory": {workspace.Config{Quota: haft.WorkspaceSize{Inodes: 10}}, func(x *world) {
			for i := range 20 {
				x.put(fmt.Sprintf("d/%d", i), "")
			}
			x.check(os.Chmod(filepath.Join(x.files, "d"), 0))
		}, haft.FailInodes},
		"long paths": {workspace.Config{}, func(x *world) {
			x.put(strings.Repeat(strings.Repeat("d", 200)+"/", 6)+"f", "")
		}, haft.FailInodes},
		"names of one file": {workspace.Config{Quota: haft.WorkspaceSize{Inodes: 10}}, func(x *world) {
			x.put("f", "")
			for i := range 20 {
				x.check(os.Link(filepath.Join(x.files, "f"), filepath.Join(x.files, fmt.Sprint(i))))
			}
		}, haft.FailInodes},
		"the organisation": {workspace.Config{Org: 10_000},
			func(x *world) { x.put("f", strings.Repeat("x", 20_000)) }, haft.FailDisk},
	} {
		t.Run(name, func(t *testing.T) {
			x := open(t, c.cfg)
			use, err := x.mount()
			x.check(err)
			ctx := use.Watch(t.Context())
			c.fill(x)
			<-ctx.Done() // the watch ends the call
			res := &haft.Result{Status: haft.StatusCancelled}
			x.check(use.Finish(t.Context(), res))
			if res.Status != haft.StatusLimit || res.Error == nil || res.Error.Kind != c.kind {
				t.Errorf("the result is %s, %+v", res.Status, res.Error)
			}
			if res.Workspace == nil || res.Workspace.Enforced != haft.QuotaMeasured {
				t.Errorf("the use is %+v", res.Workspace)
			}
			_, err = x.mount()
			x.wantCode(err, haft.CodeConflict)
			x.check(os.Chmod(x.files, 0o700))
			entries, err := os.ReadDir(x.files)
			x.check(err)
			for _, e := range entries {
				x.check(x.RemoveWorkspaceFile(t.Context(), ann, "w", e.Name()))
			}
			use, err = x.mount()
			x.check(err)
			use.Close(t.Context())
		})
	}
}

func TestAdd_names_and_bounds(t *testing.T) {
	x := open(t, workspace.Config{Count: 3})
	for _, name := range []string{"", "..", "A", "a/b", "-a", "a b", "ä", strings.Repeat("a", 65)} {
		_, err := x.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: name})
		x.wantCode(err, haft.CodeInvalid)
	}
	_, err := x.AddWorkspace(t.Context(), bob, haft.NewWorkspace{Name: "w"})
	x.wantCode(err, haft.CodeConflict)
	_, err = x.AddWorkspace(t.Context(), evil, haft.NewWorkspace{Name: "w"}) // of another organisation
	x.check(err)
	for i := range 3 {
		_, err = x.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: fmt.Sprintf("w%d", i)})
	}
	x.wantCode(err, haft.CodeConflict)
	x.check(x.Store.Erase(t.Context(), "acme", ""))
	if all, err := x.Store.All(t.Context(), "acme", ""); err != nil || len(all) > 0 {
		t.Errorf("there are still workspaces: %v, %v", all, err)
	}
	entries, err := os.ReadDir(filepath.Dir(x.home))
	if x.check(err); len(entries) != 1 { // that of the other organisation
		t.Errorf("there are %d entries", len(entries))
	}
}
