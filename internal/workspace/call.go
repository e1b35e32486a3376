package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/authority"
)

// Bind refuses a call of p with a workspace that p may not use like that, and returns the workspace of the call
// with its id and its origins. Nil is none.
func (s *Store) Bind(ctx context.Context, rules authority.Rules, p haft.Principal,
	c *haft.CallWorkspace) (*haft.CallWorkspace, error) {
	if c == nil {
		return nil, nil
	}
	w, err := s.bound(ctx, rules, p, c)
	if err != nil {
		return nil, err
	}
	return w.asked(c.ReadOnly, c.Workdir), nil
}

// Rebind is [Store.Bind] for a call that was made, with the present rights of its principal. The error is
// [haft.CodeDenied] if its workspace is gone, or not for the principal any more.
func Rebind(ctx context.Context, s *Store, rules authority.Rules, c haft.Call) (*haft.CallWorkspace, error) {
	if c.Workspace == nil {
		return nil, nil
	}
	w, err := s.Bind(ctx, rules, c.Principal, c.Workspace)
	if haft.CodeOf(err) == haft.CodeInvalid || err == nil && w.ID != c.Workspace.ID {
		err = &haft.Error{Code: haft.CodeDenied, Message: "there is no such workspace"}
	}
	return w, err
}

// asked is the workspace as policies are asked about it.
func (w *row) asked(readOnly, workdir bool) *haft.CallWorkspace {
	return &haft.CallWorkspace{Name: w.Name, ReadOnly: readOnly, Workdir: workdir, ID: w.home, Origins: w.Origins}
}

// action is what a call does to its workspace.
func action(c *haft.CallWorkspace) haft.Action {
	if c.ReadOnly {
		return haft.WorkspacesRead
	}
	return haft.WorkspacesWrite
}

// bound returns the workspace of a call that p makes.
func (s *Store) bound(ctx context.Context, rules authority.Rules, p haft.Principal,
	c *haft.CallWorkspace) (*row, error) {
	if s == nil {
		return nil, errNoDir
	}
	w, err := s.find(ctx, rules, p, c.Name, action(c))
	if haft.CodeOf(err) == haft.CodeNotFound {
		err = invalid("/workspace/name", "there is no such workspace")
	}
	if err == nil && isSnapshot(w.Name) && !c.ReadOnly {
		err = invalid("/workspace/read_only", "a snapshot is only read: say so, or fork it")
	}
	return w, err
}

// Digest is text that two calls have in common only if they have the same workspace.
func Digest(c *haft.CallWorkspace) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("\x00workspace %q %t %t", c.ID, c.ReadOnly, c.Workdir)
}

// A Use is a workspace that a call has: with a lease, open, and watched. Nil is the use of none.
type Use struct {
	s       *Store
	l       *lease
	mounted executor.Workspace
	limit   haft.WorkspaceSize
	stop    context.CancelFunc
	watch   sync.WaitGroup
	runs    sync.RWMutex // read-locked by what runs, and locked for ever when the use ends
	end     sync.Once
	over    *overError
	disk    *overError // what the watch of the disk says, when the watch has ended
	// failures is how often in a row measuring failed, and reserved says that update is due.
	failures int
	reserved bool
}

// Mount waits for the workspace of a call, which [Store.Bind] returned, and adds it to the request for its
// run. Before it waits it asks mayWait, and does not if that says so. Close the use. A step of a chain that is no
// script has no workspace: the other steps have it. File tools get no use: they read and write by [Store.ReadFor] and
// [Store.WriteFor]. Tools that make sessions get none either: the session mounts the workspace.
func (s *Store) Mount(ctx context.Context, rules authority.Rules, c haft.Call, req *executor.Request,
	mayWait func() bool) (*Use, error) {
	file := req.Kind == haft.KindBuiltin && IsFileTool(req.Tool)
	session := req.Kind == haft.KindBuiltin && IsSessionTool(req.Tool)
	light := req.Kind == haft.KindBuiltin && !file && !session || req.Kind == haft.KindMCP
	switch {
	case c.Workspace == nil || light && c.Chain != "":
		return nil, nil
	case light:
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "this tool takes no workspace: only tools of Python, JavaScript, TypeScript and Bash do, " +
				"and the built-in tools for files and sessions"}
	case session && c.Workspace.Workdir:
		return nil, invalid("/workspace/workdir", "a session works in /work: use the path /workspace")
	}
	w, err := s.bound(ctx, rules, c.Principal, c.Workspace)
	if err != nil {
		return nil, err
	}
	if file {
		req.Workspace = &executor.Workspace{Call: c.Workspace}
		return nil, w.same(c.Workspace)
	}
	if session {
		req.Workspace = &executor.Workspace{Call: c.Workspace, Mount: forSession(s, rules, c, w, mayWait)}
		return nil, w.same(c.Workspace)
	}
	u, err := newUse(ctx, s, rules, c, w, mayWait)
	if err != nil {
		return nil, err
	}
	req.Workspace = &u.mounted
	return u, nil
}

// newUse waits for the lease of a workspace, and opens its files.
func newUse(ctx context.Context, s *Store, rules authority.Rules, c haft.Call, w *row,
	mayWait func() bool) (u *Use, err error) {
	u = &Use{s: s, mounted: executor.Workspace{ReadOnly: c.Workspace.ReadOnly, Workdir: c.Workspace.Workdir}}
	if u.l, err = s.take(ctx, w, !c.Workspace.ReadOnly, s.cfg.Wait, mayWait); err != nil {
		return nil, err
	}
	if err := u.open(ctx, rules, c); err != nil {
		u.Close(ctx)
		return nil, err
	}
	return u, nil
}

// forSession returns what mounts a workspace for the session that a call makes. The session outlives the call.
func forSession(s *Store, rules authority.Rules, c haft.Call, w *row,
	mayWait func() bool) func(context.Context) (*executor.Mounted, error) {
	return func(ctx context.Context) (*executor.Mounted, error) {
		u, err := newUse(ctx, s, rules, c, w, mayWait)
		if err != nil {
			return nil, err
		}
		ctx = context.WithoutCancel(ctx)
		return &executor.Mounted{Workspace: &u.mounted, Watch: u.Watch(ctx), Release: func() {
			_ = u.Finish(ctx, nil) // if it fails the next sweep measures the workspace
		}}, nil
	}
}

// open opens the files for the executor.
func (u *Use) open(ctx context.Context, rules authority.Rules, c haft.Call) (err error) {
	w := u.l.w // it may have changed while this waited
	if err := rules.Authorize(c.Principal, action(c.Workspace), w.resource()); err != nil {
		return err
	}
	if err := w.same(c.Workspace); err != nil {
		return err
	}
	files, err := u.l.files()
	if err != nil {
		return err
	}
	defer files.Close() // only read
	if !u.mounted.ReadOnly {
		if err := u.reserve(ctx, files); err != nil {
			return err
		}
	}
	if u.mounted.Host, err = filepath.Abs(filepath.Join(u.s.path, w.home, w.dir)); err != nil {
		return fmt.Errorf("find a workspace: %w", err)
	}
	if u.mounted.Dir, err = files.Open("."); err != nil {
		return homeError(err)
	}
	u.mounted.Owner, u.mounted.Hold = w.uid, u.hold
	return nil
}

// reserve makes sure that the call can write something.
func (u *Use) reserve(ctx context.Context, files *os.Root) (err error) {
	w := u.l.w
	if u.limit, err = u.s.reserve(ctx, w); err != nil {
		return err
	}
	u.reserved = true
	if err := over(w.Used, u.limit); err != nil {
		return full(err)
	}
	if left := u.limit.Bytes - w.Used.Bytes; u.limit.Bytes < w.Quota.Bytes && left < min(1<<20, u.s.cfg.Org/10) {
		return conflict("other workspaces of the organisation, and what calls may write that run now, leave no room: " +
			"try again later, or remove some")
	}
	return u.s.diskFull(files, 0)
}

// hold keeps the lease until release is called: as long as anything of the run may write.
func (u *Use) hold() (release func(), ok bool) {
	return u.runs.RUnlock, u.runs.TryRLock()
}

// measureEvery is how often a workspace is measured while a call writes to it, and measureShare how
// much longer than measuring took it then waits at least.
const (
	measureEvery = 200 * time.Millisecond
	measureShare = 5
)

// Watch measures the workspace until Close, and ends the context that it returns if there is
// too much in it.
func (u *Use) Watch(ctx context.Context) context.Context {
	if u == nil || u.mounted.ReadOnly {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	quit, stop := context.WithCancel(ctx)
	u.stop = stop
	u.watch.Go(func() { // measuring may take long, or fail
		tick := time.NewTicker(measureEvery)
		defer tick.Stop()
		for quit.Err() == nil {
			if u.checkDisk(); u.disk != nil {
				cancel(u.disk)
				return
			}
			select {
			case <-tick.C:
			case <-quit.Done():
			}
		}
	})
	u.watch.Go(func() {
		defer cancel(nil)
		for wait := measureEvery; ; {
			select {
			case <-time.After(wait):
			case <-quit.Done():
				return
			}
			began := time.Now()
			if _ = u.measure(quit); u.over != nil { // other errors are counted
				cancel(u.over)
				return
			}
			wait = max(measureEvery, measureShare*time.Since(began))
		}
	})
	return ctx
}

// checkDisk notes if the disk is full, or cannot be measured.
func (u *Use) checkDisk() {
	if u.s.diskFull(u.l.home, 0) != nil {
		u.disk = &overError{haft.FailDisk, "the disk of the workspaces is full"}
	}
}

// maxFailures is how often in a row a workspace can fail to be measured before the call is stopped.
const maxFailures = 3

// measure measures the files, and notes if a bound was exceeded, or if that cannot be known for too long.
func (u *Use) measure(ctx context.Context) error {
	files, err := u.l.files()
	if err == nil {
		defer files.Close() // only read
		var used haft.WorkspaceSize
		if used, err = measure(ctx, files, u.limit); errors.As(err, &u.over) || err == nil {
			u.l.w.Used, u.failures = used, 0
			return err
		}
	}
	if u.failures++; u.failures >= maxFailures && ctx.Err() == nil {
		u.over = &overError{haft.FailDisk, "the workspace cannot be measured, so that nobody knows whether it is full"}
	}
	return err
}

// Finish waits until nothing of the run is left, measures the workspace, and says in res what is in
// it: a call that left too much has failed. It gives the lease back.
func (u *Use) Finish(ctx context.Context, res *haft.Result) (err error) {
	if res != nil {
		res.Workspace = nil // no executor says it
	}
	if u == nil {
		return nil
	}
	defer u.Close(ctx)
	u.wait()
	if !u.mounted.ReadOnly {
		err = u.measure(context.WithoutCancel(ctx))
		u.checkDisk()
		if u.over = cmp.Or(u.disk, u.over); u.over != nil {
			err = nil
		}
		err = errors.Join(err, u.settle(ctx))
	}
	if res == nil {
		return err
	}
	w := u.l.w
	res.Workspace = &haft.WorkspaceUse{Name: w.Name, Used: w.Used, Quota: w.Quota, Enforced: w.Enforced}
	if u.over != nil {
		res.Status, res.Value = haft.StatusLimit, nil
		res.Error = &haft.Failure{Kind: u.over.kind, Message: u.over.message, Retry: haft.RetryNever}
	}
	return err
}

// wait ends the watch, and waits until nothing of the run is left.
func (u *Use) wait() {
	u.end.Do(func() {
		if u.stop != nil {
			u.stop()
		}
		u.watch.Wait()
		u.runs.Lock()
	})
}

// settle writes down what is in the workspace, and gives back what was reserved.
func (u *Use) settle(ctx context.Context) error {
	if !u.reserved {
		return nil
	}
	u.reserved = false
	return u.s.update(context.WithoutCancel(ctx), u.l.w)
}

// Close gives the workspace back. It can be called twice.
func (u *Use) Close(ctx context.Context) {
	if u == nil {
		return
	}
	u.wait()
	_ = u.settle(ctx) // nothing ran; if it fails the next sweep does it
	if u.mounted.Dir != nil {
		_ = u.mounted.Dir.Close() // only read
	}
	u.l.release()
}
