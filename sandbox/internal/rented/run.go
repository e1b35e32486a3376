package rented

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"haft"
	"haft/sandbox"
)

// Times of a run: how long the relay may take to start the command, and to end it when it is killed; and how often it
// hears that we are there.
const (
	startTime = 60 * time.Second
	killTime  = 20 * time.Second
	pingEvery = 15 * time.Second
)

// channelMore is how much a command may send on its channel besides its result, such as reports.
const channelMore = 2 << 20

// A run is one command in a machine.
type run struct {
	p       *Provider
	m       *machine
	spec    sandbox.Spec
	limits  haft.Limits
	channel *net.UnixConn // nil if there is none
	dir     string        // that stands for /work

	in     *sender
	link   *link
	begun  bool // the command may have run
	clean  bool // nothing is left of it in the machine
	start  time.Time
	cancel context.CancelFunc
}

// newRun returns a run that has not begun.
func newRun(p *Provider, m *machine, spec sandbox.Spec, channel *net.UnixConn) *run {
	return &run{p: p, m: m, spec: spec, limits: spec.Limits.Or(haft.DefaultLimits()), channel: channel,
		dir: "/tmp/haft/" + strings.ToLower(rand.Text())}
}

// takeChannel returns a connection that takes the place of a file, which it closes. It is nil for no file.
func takeChannel(f *os.File) (*net.UnixConn, error) {
	if f == nil {
		return nil, nil
	}
	defer f.Close() // the connection has a descriptor of its own
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open the channel: %w", err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(invalid("the channel is not one end of a socket pair"), c.Close())
	}
	return conn, nil
}

// do runs the command. The machine is the caller's to release.
func (r *run) do(ctx context.Context) (sandbox.Exit, error) {
	if err := r.p.sendLayers(ctx, r.m, r.spec); err != nil {
		return sandbox.Exit{}, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r.cancel = cancel
	s, err := r.startRelay(ctx, life)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer s.Close()
	r.link = newLink(r, s)
	r.in = newSender(life, s.Send, r.link.unsent)
	go r.link.read()
	defer r.link.close()
	if err := r.open(ctx); err != nil {
		return sandbox.Exit{}, err
	}
	exit, err := r.follow(ctx)
	if err != nil {
		return sandbox.Exit{}, err
	}
	if r.spec.Ended != nil {
		r.spec.Ended(exit)
	}
	select {
	case <-r.link.over:
		r.clean = r.link.whole && r.link.end.Clean
	case <-time.After(killTime):
	}
	return exit, nil
}

// startRelay starts the relay. It lives as long as life, and ctx ends waiting for it.
func (r *run) startRelay(ctx, life context.Context) (Process, error) {
	timer := time.AfterFunc(startTime, r.cancel)
	unwatch := context.AfterFunc(ctx, r.cancel)
	s, err := r.m.Start(life, []string{"/bin/sh", "-c",
		`for p in /usr/bin/python3 /usr/local/bin/python3; do [ -x $p ] && exec $p -I -S -c "$0"; done; exec python3 -I -S -c "$0"`,
		relaySource})
	inTime, wanted := timer.Stop(), unwatch()
	if err == nil && inTime && wanted {
		return s, nil
	}
	if err == nil {
		s.Close()
	}
	switch {
	case !wanted:
		return nil, fmt.Errorf("start a command at %s: %w", r.p.cfg.Name, ctx.Err())
	case !inTime:
		return nil, unavailable("a sandbox of " + r.p.cfg.Name + " does not start commands")
	}
	return nil, err
}

// open starts the command.
func (r *run) open(ctx context.Context) error {
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	spec, err := json.Marshal(r.message())
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	r.begun = true
	r.in.post('s', spec)
	if r.spec.Collect && r.spec.Given == nil {
		r.postGiven()
	}
	select {
	case <-r.link.started:
		r.start = time.Now()
		return nil
	case <-r.link.ended:
		return r.lost()
	case <-timer.C:
		return &haft.Error{Code: haft.CodeUnavailable, Err: sandbox.ErrLost,
			Message: "the relay in a sandbox of " + r.p.cfg.Name + " does not say that it has started the command"}
	case <-ctx.Done():
		return fmt.Errorf("start a command at %s: %w", r.p.cfg.Name, ctx.Err())
	}
}

// lost says why the relay ended without an end of the command.
func (r *run) lost() error {
	err := r.link.err
	if setup, ok := errors.AsType[*sandbox.SetupError](err); ok {
		r.begun = false
		return setup
	}
	if !r.begun {
		return &haft.Error{Code: haft.CodeUnavailable, Err: err,
			Message: "a sandbox of " + r.p.cfg.Name + " does not run commands: it needs Python 3"}
	}
	return &haft.Error{Code: haft.CodeUnavailable, Err: errors.Join(sandbox.ErrLost, err),
		Message: "the sandbox of " + r.p.cfg.Name + " was lost while the command ran: nobody knows what it has done"}
}

// message is the command for the relay.
func (r *run) message() map[string]any {
	argv, env := r.spec.WorkAt(r.dir)
	for i, kv := range env {
		if kv == "TMPDIR=/tmp" { // which the next run would see
			env[i] = "TMPDIR=" + r.dir + "/.tmp"
		}
	}
	files := []map[string]any{}
	for _, f := range r.spec.Files {
		mode := f.Mode.Perm()
		if mode == 0 {
			mode = 0o644
		}
		files = append(files, map[string]any{"name": f.Name, "mode": int(mode), "data": f.Data})
	}
	cpu := int64((r.limits.CPU.D() + time.Second - 1) / time.Second)
	channel := int64(0) // what may come on it
	if r.channel != nil {
		channel = r.limits.Result + channelMore
	}
	both := func(n int64) [2]int64 { return [2]int64{n, n} }
	return map[string]any{
		"argv": argv, "env": env, "dir": r.dir, "files": files, "layers": layersOf(r.spec), "collect": r.spec.Collect,
		"stdin": r.spec.Stdin != nil, "channel": channel, "stdout": r.limits.Stdout, "stderr": r.limits.Stderr,
		"artifacts": r.limits.Artifacts, "artifact_bytes": r.limits.ArtBytes,
		"limits": map[string]any{"CPU": [2]int64{cpu, cpu + 1}, "DATA": both(r.limits.Memory),
			"NOFILE": both(int64(r.limits.OpenFiles)), "FSIZE": both(r.limits.FileSize), "CORE": both(0)},
	}
}

// postGiven sends the names of the files that are not given back.
func (r *run) postGiven() {
	names := r.spec.GivenFiles()
	if names == nil {
		names = []string{}
	}
	raw, _ := json.Marshal(names) // strings always encode
	r.in.post('g', raw)
}

// follow waits for the end of the command, and ends it at its limits.
func (r *run) follow(ctx context.Context) (sandbox.Exit, error) {
	if r.spec.Metered != nil {
		r.spec.Metered(func() time.Duration { return 0 })
	}
	r.link.feed(r.spec.Stdin, r.channel)
	cause, clock := r.watch(ctx)
	if r.link.err != nil {
		return sandbox.Exit{}, r.lost()
	}
	wall := time.Since(clock)
	r.link.finish()
	end := r.link.end
	exit := sandbox.Exit{Cause: cause, Started: r.start, Isolation: r.p.isolation(),
		Artifacts: r.link.artifacts, ArtifactsCut: r.link.cuts,
		DroppedStdout: r.link.out['o'].dropped(end.Stdout), DroppedStderr: r.link.out['e'].dropped(end.Stderr)}
	exit.Usage = haft.Usage{Wall: haft.Millis(wall), CPU: haft.Millis(end.cpu()), MaxRSS: max(0, end.Memory),
		Stdout: r.link.out['o'].written + exit.DroppedStdout, Stderr: r.link.out['e'].written + exit.DroppedStderr}
	r.explain(&exit, syscall.WaitStatus(end.Status))
	return exit, nil
}

// explain adds how the command ended.
func (r *run) explain(exit *sandbox.Exit, status syscall.WaitStatus) {
	if status.Signaled() {
		exit.Signal = int(status.Signal())
	}
	switch {
	case exit.Cause != "":
	case r.link.end.Flood:
		exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailOutput
	case exit.Signal == 0:
		exit.Cause, exit.Code = sandbox.CauseExit, status.ExitStatus()
	case exit.Signal == int(syscall.SIGXCPU), exit.Signal == int(syscall.SIGKILL) && exit.Usage.CPU >= r.limits.CPU:
		exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailCPU
	case exit.Signal == int(syscall.SIGXFSZ):
		exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailFileSize
	default:
		exit.Cause = sandbox.CauseSignal
	}
}

// watch waits for the end of the command, and ends it at its limits. It returns the cause, or "" if the command ended
// by itself, and when the clock began.
func (r *run) watch(ctx context.Context) (sandbox.Cause, time.Time) {
	clock, begin, prepared := r.start, r.spec.Begin, r.spec.Prepared
	timer, ping := time.NewTimer(r.limits.Wall.D()), time.NewTicker(pingEvery)
	defer timer.Stop()
	defer ping.Stop()
	if begin != nil {
		timer.Stop()
	}
	for {
		select {
		case <-r.link.ended:
			return "", clock
		case <-r.link.asked:
			r.postGiven()
		case <-ping.C:
			r.in.post('p', nil)
			r.prolong(ctx)
		case <-begin:
			begin, clock = nil, time.Now()
			r.in.post('b', nil)
			timer.Reset(r.limits.Wall.D())
		case <-prepared:
			if prepared = nil; r.spec.Idle != nil {
				r.spec.Idle() // what runs in the machine cannot be seen
			}
		case <-r.spec.Finish:
			r.kill()
			return sandbox.CauseFinished, clock
		case <-timer.C:
			r.terminate(ctx)
			return sandbox.CauseTimeout, clock
		case <-ctx.Done():
			r.terminate(ctx)
			return sandbox.CauseCancelled, clock
		}
	}
}

// prolong lets the machine live on, while the command runs. If that fails, the next time counts.
func (r *run) prolong(ctx context.Context) {
	if err := r.m.Last(context.WithoutCancel(ctx), 0); err != nil {
		r.p.cfg.Logger.WarnContext(ctx, "the time of a rented sandbox could not be extended", "server", r.p.cfg.Name,
			"sandbox", r.m.ID(), "err", err)
	}
}

// terminate asks the command to end, and kills it after the grace time.
func (r *run) terminate(ctx context.Context) {
	r.in.post('t', nil)
	timer := time.NewTimer(r.limits.Grace.D())
	defer timer.Stop()
	for cancelled := ctx.Done(); ; {
		select {
		case <-r.link.ended:
			return
		case <-r.link.asked:
			r.postGiven()
			continue
		case <-cancelled:
			if cancelled = nil; !errors.Is(context.Cause(ctx), sandbox.ErrNoGrace) {
				continue
			}
		case <-timer.C:
		case <-r.spec.Finish:
		}
		r.kill()
		return
	}
}

// kill ends the command, and the machine if the relay does not do it.
func (r *run) kill() {
	if r.spec.Collect && r.spec.Given != nil {
		r.postGiven()
	}
	r.in.post('k', nil)
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	for {
		select {
		case <-r.link.ended:
			return
		case <-r.link.asked:
			r.postGiven()
		case <-timer.C:
			r.link.fail(errors.New("the relay does not end the command"))
		}
	}
}
