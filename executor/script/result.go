package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"haft"
	"haft/executor"
	"haft/internal/observe"
	"haft/internal/value"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// errWall is the cause of stopping a call that took too long in a process that
// is used again.
var errWall = fmt.Errorf("the wall-clock limit of the call: %w", context.DeadlineExceeded)

// fail makes res a failure.
func fail(res *haft.Result, kind haft.FailureKind, message string, retry haft.Retry) {
	executor.Fail(res, haft.Failure{Kind: kind, Message: message, Retry: retry})
}

// stopped makes res say that the caller's context ended.
func stopped(ctx context.Context, res *haft.Result) {
	executor.Fail(res, executor.Stopped(context.Cause(ctx)))
}

// wasStopped reports whether a run ended because the caller's context did.
func wasStopped(ctx context.Context, exit sandbox.Exit) bool {
	return ctx.Err() != nil && (exit.Cause == sandbox.CauseCancelled ||
		exit.Cause == sandbox.CauseFinished && sandbox.Killed(ctx).Err() != nil)
}

// notStarted makes res say why there is no cell, or returns the error that is
// not the tool's or the interpreter's.
func (r *run) notStarted(ctx context.Context, res *haft.Result, err error) error {
	if ctx.Err() != nil {
		stopped(ctx, res)
		return nil
	}
	if e, ok := errors.AsType[*cell.StartError](err); ok {
		if r.x.logged.Swap(e) != e {
			// What it says may name files of the host, so only the operator gets it.
			r.x.cfg.Logger.WarnContext(ctx, "interpreter does not start", "interpreter", r.rt.Argv[0], "err", e, "said",
				clean(e.Said))
		}
		fail(res, haft.FailRuntime, "the interpreter does not start in its sandbox", haft.RetrySame)
		return nil
	}
	return err
}

// conclude fills in res from the answer, if there is one, and the end of the run.
// A complete answer counts, whatever became of the process afterwards. But one that came
// after the run was stopped, from a handler of SIGTERM, does not.
func (r *run) conclude(ctx context.Context, res *haft.Result, m *reply, err error, exit sandbox.Exit, runErr error) {
	r.ended(res, exit)
	switch {
	case runErr == nil && exit.Cause == sandbox.CauseTimeout:
		r.silent(res, err, exit)
	case wasStopped(ctx, exit):
		stopped(ctx, res)
	case err == nil:
		r.answered(res, m, exit)
	case errors.Is(runErr, sandbox.ErrLost):
		executor.Fail(res, haft.Failure{Kind: haft.FailUnknown, Retry: haft.RetryNever,
			Message: "the sandbox was lost while the tool ran: nobody knows what it has done"})
		res.Status = haft.StatusUnknown
	case runErr != nil:
		fail(res, haft.FailRuntime, "the sandbox could not be kept up", haft.RetrySame)
	case errors.Is(err, errFrame) && (exit.Cause == sandbox.CauseExit || exit.Cause == sandbox.CauseFinished):
		fail(res, haft.FailProtocol, "the tool wrote something to the channel that is not exactly one result",
			haft.RetryNever)
	default:
		r.silent(res, err, exit)
	}
}

// maxCuts bounds the notices about files that are not given back.
const maxCuts = 10

// ended takes over what the sandbox has to say about the run.
func (r *run) ended(res *haft.Result, exit sandbox.Exit) {
	if r.req.Observe != nil && exit.Touched != nil {
		r.req.Observe(observe.Own(*exit.Touched, r.ownPaths(), r.madePaths()))
	}
	res.Usage = exit.Usage
	res.Sandbox.Isolation = exit.Isolation
	res.Truncated.Stdout += exit.DroppedStdout
	res.Truncated.Stderr += exit.DroppedStderr
	if r.req.NoArtifacts {
		return
	}
	res.Artifacts = exit.Artifacts
	res.Truncated.Artifacts = int64(len(exit.ArtifactsCut))
	for _, cut := range exit.ArtifactsCut[:min(maxCuts, len(exit.ArtifactsCut))] {
		res.Notices = append(res.Notices, "file left out: "+cut)
	}
}

// isolationOf states the isolation of a run that has not ended.
func (r *run) isolationOf(ctx context.Context, res *haft.Result) {
	if iso, err := r.x.provider.Isolation(ctx); err == nil {
		res.Sandbox.Isolation = iso
	}
}

// stateIsolation makes res say by what the call was confined, if its end does not: by
// nothing where nothing was started.
func (r *run) stateIsolation(ctx context.Context, res *haft.Result) {
	if res.Sandbox.Isolation.Level == "" && res.Timeline.Execute > 0 {
		r.isolationOf(context.WithoutCancel(ctx), res)
	}
	if res.Sandbox.Isolation.Level == "" {
		res.Sandbox = haft.Sandbox{Provider: "none", Isolation: executor.NoIsolation()}
	}
}

// silent makes res say how the process ended, which gave no answer.
func (r *run) silent(res *haft.Result, err error, exit sandbox.Exit) {
	switch exit.Cause {
	case sandbox.CauseTimeout:
		fail(res, haft.FailTimeout, fmt.Sprintf("it ran longer than %s", r.limits.Wall), haft.RetryChanged)
	case sandbox.CauseLimit:
		fail(res, exit.Limit, r.limitText(exit.Limit), haft.RetryChanged)
	case sandbox.CauseBlocked:
		fail(res, haft.FailBlocked, "it made a system call that is forbidden in the sandbox", haft.RetryNever)
	case sandbox.CauseUnmetered: // not FailRuntime, which says that nothing of the tool ran
		fail(res, haft.FailInternal, "what it used could not be measured, and so not limited: it was ended",
			haft.RetryNever)
	case sandbox.CauseSignal:
		fail(res, haft.FailSignal, fmt.Sprintf("its process died of signal %d (%s)", exit.Signal,
			syscall.Signal(exit.Signal)), haft.RetryNever)
	case sandbox.CauseCancelled:
		fail(res, haft.FailCancelled, "the call was stopped", haft.RetrySame)
	case sandbox.CauseExit:
		fail(res, haft.FailExit, fmt.Sprintf("it ended its process with status %d before it gave a value", exit.Code),
			haft.RetryNever)
	default:
		msg := "it closed the channel for its result and went on"
		if !errors.Is(err, io.EOF) {
			msg = "it left the channel for its result in disorder"
		}
		fail(res, haft.FailProtocol, msg, haft.RetryNever)
	}
}

// limitText says which limit was hit, and what it is.
func (r *run) limitText(kind haft.FailureKind) string {
	l := r.limits
	switch kind {
	case haft.FailCPU:
		return fmt.Sprintf("it used more than %s of processor time", l.CPU)
	case haft.FailMemory:
		return "it used more than " + memoryText(l.Memory) + " of memory"
	case haft.FailPIDs:
		return fmt.Sprintf("it started more than %d processes and threads", l.Processes)
	case haft.FailOpenFiles:
		return fmt.Sprintf("it had more than %d files open", l.OpenFiles)
	case haft.FailFileSize:
		return fmt.Sprintf("it wrote a file of more than %d bytes", l.FileSize)
	case haft.FailDisk:
		return fmt.Sprintf("its files have more than %d bytes", l.Disk)
	case haft.FailInodes:
		return fmt.Sprintf("it made more than %d files", l.Inodes)
	case haft.FailResult:
		return fmt.Sprintf("its value is longer than %d bytes; return less, or leave it in a file", l.Result)
	case haft.FailOutput:
		return "it printed too much"
	case haft.FailArtifacts:
		return fmt.Sprintf("it left more than %d files or %d bytes", l.Artifacts, l.ArtBytes)
	}
	return "it used more than it may"
}

// memoryText writes a number of bytes as people give it.
func memoryText(bytes int64) string {
	if bytes >= 1<<20 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB (%d bytes)", bytes>>20, bytes)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// answered fills in res from the one answer of the harness.
func (r *run) answered(res *haft.Result, m *reply, exit sandbox.Exit) {
	if m.Type == typeResult {
		if err := value.Check(m.Value, r.limits.Result); errors.Is(err, value.ErrTooLarge) {
			fail(res, haft.FailResult, haft.MessageOf(err), haft.RetryChanged)
			return
		} else if err != nil {
			fail(res, haft.FailProtocol, "the tool's result is not a value: "+haft.MessageOf(err), haft.RetryNever)
			return
		}
		res.Status, res.Value = haft.StatusSuccess, m.Value
		if m.State != nil && r.req.Changed != nil {
			r.req.Changed(m.State)
		}
		return
	}
	f := &haft.Failure{
		Kind: haft.FailureKind(m.Kind), Retry: haft.RetryChanged, Type: executor.Shorten(clean(m.Error), 256),
		Message:   r.hide(executor.Shorten(clean(m.Message), 8<<10)),
		Traceback: r.hide(executor.Shorten(clean(m.Traceback), 16<<10)),
	}
	r.refine(f, m, exit)
	executor.Fail(res, *f)
}

// refine gives each kind of failure its words. A kind that is not one of the
// harness is the tool's forgery, and an exception.
func (r *run) refine(f *haft.Failure, m *reply, exit sandbox.Exit) {
	switch f.Kind {
	case haft.FailExit:
		f.Retry = haft.RetryNever
		f.Message = fmt.Sprintf("it ended its process with status %d before it gave a value", m.Code&0xFF)
	case haft.FailSource:
		f.Retry = haft.RetryNever
		if m.Line > 0 {
			f.Message = fmt.Sprintf("line %d, column %d: %s", m.Line, m.Column, f.Message)
		}
	case haft.FailMemory:
		f.Message = "it used more than the " + memoryText(r.limits.Memory) + " of memory that it may"
	case haft.FailResult:
		f.Message = r.limitText(haft.FailResult)
	case haft.FailRecursion:
		f.Retry = haft.RetryNever
	case haft.FailValidation:
		f.Misfits = []haft.Misfit{{Pointer: executor.Shorten(clean(m.Pointer), 1<<10), Message: f.Message}}
		if m.Pointer != "" {
			f.Message = fmt.Sprintf("the argument %s does not fit: %s", argumentAt(m.Pointer), f.Message)
		}
	case haft.FailValue:
	default:
		f.Kind = haft.FailException
		if kind := limitOf(syscall.Errno(m.Errno), exit, r.limits); kind != "" {
			f.Kind, f.Message = kind, r.limitText(kind)
		}
		if f.Message == "" {
			f.Message = f.Type
		}
		failed := syscall.Errno(m.Errno) == syscall.ENOENT || syscall.Errno(m.Errno) == syscall.EACCES
		if name := missingProgram(f, r.req.Programs); name != "" && failed {
			f.Message += "; a tool sees only programs that its settings name: add " + name +
				" to its programs, such as with --program " + name
			f.Retry = haft.RetryNever
		}
	}
}

// limitOf returns the limit behind an error of the system that the tool did not
// handle, or "".
func limitOf(errno syscall.Errno, exit sandbox.Exit, limits haft.Limits) haft.FailureKind {
	switch errno {
	case syscall.ENOSPC, syscall.EDQUOT:
		if exit.Usage.Disk < limits.Disk/2 {
			return haft.FailInodes
		}
		return haft.FailDisk
	case syscall.EFBIG:
		return haft.FailFileSize
	case syscall.EMFILE:
		return haft.FailOpenFiles
	case syscall.EAGAIN:
		return haft.FailPIDs
	case syscall.ENOMEM:
		return haft.FailMemory
	}
	return ""
}

// argumentAt names the argument that a JSON pointer is about.
func argumentAt(pointer string) string {
	p := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range p {
		p[i] = strings.ReplaceAll(strings.ReplaceAll(p[i], "~1", "/"), "~0", "~")
	}
	return executor.Shorten(clean(strings.Join(p, ".")), 256)
}

// hide takes the host's directories out of text.
func (r *run) hide(s string) string {
	if r.rt == nil {
		return s
	}
	for _, d := range r.rt.hidden {
		s = strings.ReplaceAll(s, d+"/", "")
	}
	return s
}
