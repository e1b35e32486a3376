package script

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// Config says how an Executor works. The zero value is useful.
type Config struct {
	// Hints name the interpreter of a kind, as in [Finder.Find].
	Hints map[haft.Kind]string
	// Defaults replace limits that a request leaves zero; fields that are zero
	// here too are those of [haft.DefaultLimits].
	Defaults haft.Limits
	// Ceilings bound what a request may ask for; zero fields are those of
	// [haft.LimitCeilings].
	Ceilings haft.Limits
	// Cold starts an interpreter for each call and keeps none ready: for a
	// process that makes one call and ends.
	Cold bool
	// Cells bound what is kept ready.
	Cells cell.Config
	// Reuse names tools, as org/name, whose calls follow each other in one
	// process. Each sees what the one before left in memory and files; limits of
	// memory and disk count for all of them together, and that of processor time
	// not at all; processor time and memory of a call are not known; and what a
	// call prints at its very end may be taken for output of the next. A call whose arguments are files
	// has a process of its own.
	Reuse []string
	// Logger gets messages that an operator can act on, such as about an interpreter that
	// does not start. Nil discards.
	Logger *slog.Logger
}

// An Executor runs script tools. It implements [executor.Executor].
//
// Lifecycle: New, Execute as often as needed, Close.
type Executor struct {
	provider sandbox.Provider
	name     string
	finder   *Finder
	cfg      Config
	pool     *cell.Pool
	forks    *templates
	expected expected
	// js has the transformed sources, policies the digests of confinements.
	js       cache[[32]byte, transformed]
	policies cache[confinement, string]
	// recent has, for each kind of cell, the frame of the source of the last call that
	// succeeded in one. An idle cell gets it and compiles it, since the next call is likely
	// to be of the same tool; otherwise the cell gets and compiles another source. Cells
	// are never shared between organisations, so that a tool can only find in its memory a
	// source that its own organisation has stored: only sources with
	// [executor.Request.Stored] are kept. Since the call succeeded, the interpreter
	// survives compiling it.
	recent cache[cell.Key, []byte]
	// badImports and badKeys are the imports that cells do not survive, and the keys of
	// those cells.
	badImports cache[string, bool]
	badKeys    cache[cell.Key, bool]
	logged     atomic.Pointer[cell.StartError] // the last that was logged
}

// The bounds of the caches. A source that is larger than maxRecentHead is not kept.
const (
	maxTransformed = 256
	maxPolicies    = 1000
	maxRecent      = 256
	maxRecentHead  = 16 << 10
	maxBadImports  = 1024
)

// New returns an executor that runs tools in provider, which results call name.
// Its cells end with ctx, at the latest.
func New(ctx context.Context, provider sandbox.Provider, name string, finder *Finder, cfg Config) *Executor {
	cfg.Ceilings = cfg.Ceilings.Or(haft.LimitCeilings())
	cfg.Defaults = cfg.Defaults.Or(haft.DefaultLimits())
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Executor{
		provider: provider, name: name, finder: finder, cfg: cfg,
		pool: cell.New(ctx, cfg.Cells), forks: newTemplates(ctx, provider),
		js:       cache[[32]byte, transformed]{max: maxTransformed},
		policies: cache[confinement, string]{max: maxPolicies}, recent: cache[cell.Key, []byte]{max: maxRecent},
		badImports: cache[string, bool]{max: maxBadImports}, badKeys: cache[cell.Key, bool]{max: maxBadImports},
	}
}

// Close ends everything that is kept ready and everything that runs, and waits
// until it is gone.
func (x *Executor) Close() {
	x.dropLater(x.expected.swap(nil))
	defer x.expected.work.Wait()
	x.pool.Close()
	x.forks.close()
}

// Drop ends what is kept ready for the organisation, or for all if it is empty:
// after a change of its policy.
func (x *Executor) Drop(org string) {
	of := func(k cell.Key) bool { return org == "" || k.Tenant == org }
	x.recent.deleteFunc(func(k cell.Key, _ []byte) bool { return of(k) })
	x.pool.Drop(of)
}

// IdleCells returns how many sandboxes are ready for the organisation.
func (x *Executor) IdleCells(org string) int {
	return x.pool.Count(func(k cell.Key) bool { return k.Tenant == org })
}

// Limits returns the limits that hold for a request.
func (x *Executor) Limits(req haft.Limits) haft.Limits {
	return req.Or(x.cfg.Defaults).Within(x.cfg.Ceilings)
}

// Execute implements [executor.Executor].
func (x *Executor) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	return x.execute(ctx, req, nil)
}

// execute runs req, in the prepared cell if p is not nil.
func (x *Executor) execute(ctx context.Context, req executor.Request, p *preparation) (*haft.Result, error) {
	began := time.Now()
	if err := check(req); err != nil {
		return nil, err
	}
	r := &run{x: x, req: req, limits: x.Limits(req.Limits), ahead: p}
	res := &haft.Result{Call: req.Call, Tool: req.Tool, Digest: req.Digest, Value: json.RawMessage("null")}
	res.Sandbox.Provider = x.name
	r.stdout = output{limit: r.limits.Stdout, pass: req.Stdout}
	r.stderr = output{limit: r.limits.Stderr, pass: req.Stderr}
	r.reports.pass = req.Progress
	err := r.do(ctx, res)
	r.reports.close()
	if err != nil {
		return nil, err
	}
	r.stdout.finish()
	r.stderr.finish()
	r.stateIsolation(ctx, res)
	r.advise(res)
	res.Truncated.Stdout += r.stdout.over()
	res.Truncated.Stderr += r.stderr.over()
	res.Stdout = r.stdout.text(res.Truncated.Stdout > 0)
	res.Stderr = r.stderr.text(res.Truncated.Stderr > 0)
	res.Timeline.Total = haft.Millis(time.Since(began))
	return res, nil
}

// Bounds on a request, checked before anything is started.
const (
	maxSource = 1 << 20
	maxArgs   = 16 << 20
	maxFiles  = 256
	// maxNesting is less than what the readers of JSON in all interpreters take.
	maxNesting = 200
)

// check reports what is wrong with a request, as an error with
// [haft.CodeInvalid].
func check(req executor.Request) error {
	switch {
	case len(req.Source) > maxSource:
		return invalid("the source is %d bytes large, %d is the most", len(req.Source), maxSource)
	case len(req.Args) > maxArgs:
		return invalid("the arguments are %d bytes large, %d is the most", len(req.Args), maxArgs)
	case len(req.Args) > 0 && !json.Valid(req.Args):
		return invalid("the arguments are not JSON")
	case len(req.Args) > 0 && bytes.TrimSpace(req.Args)[0] != '{':
		return invalid("the arguments are not an object")
	case executor.JSONDepth(req.Args) > maxNesting:
		return invalid("the arguments nest more than %d deep", maxNesting)
	case len(req.Files)+len(req.Modules) > maxFiles:
		return invalid("there are %d files, %d is the most", len(req.Files)+len(req.Modules), maxFiles)
	}
	if err := (sandbox.Spec{Argv: []string{"/"}, Files: allFiles(req), Network: req.Network,
		ServeEgress: req.ServeEgress}).Check(); err != nil {
		return err
	}
	if err := checkShadows(req); err != nil {
		return err
	}
	for _, name := range req.Programs {
		if !HasSystemProgram(name) {
			return invalid("the tool needs the program %.64s, and the host has none of that name in %s", name,
				DefaultPath)
		}
	}
	if err := checkCA(req); err != nil {
		return err
	}
	if err := checkLayers(req.Layers); err != nil {
		return err
	}
	return checkEnv(req.Env)
}

// A run is one running call.
type run struct {
	x              *Executor
	req            executor.Request
	limits         haft.Limits
	rt             *Runtime
	ahead          *preparation // nil if nothing was prepared
	stdout, stderr output
	reports        reports
	key            cell.Key // of the cell
	sourceFrame    []byte   // in Python
	session        bool     // it makes a session, whose code may listen on ports
}

// do runs the call and fills in res. An error means that there is no result.
func (r *run) do(ctx context.Context, res *haft.Result) error {
	if r.ahead != nil {
		asked := time.Now()
		if c := r.ahead.takeReady(ctx, r); c != nil {
			r.took(res, asked, c)
			r.talk(ctx, res, c, goFrame(), false)
			return nil
		}
	}
	if line, ok := notUTF8(r.req.Source); ok {
		fail(res, haft.FailSource, fmt.Sprintf("line %d of the source is not UTF-8", line), haft.RetryNever)
		return nil
	}
	rt, err := r.x.finder.Find(ctx, r.req.Kind, r.x.cfg.Hints[r.req.Kind])
	if ctx.Err() != nil {
		stopped(ctx, res)
		return nil
	}
	if err != nil {
		if haft.CodeOf(err) == haft.CodeInvalid {
			return err
		}
		fail(res, haft.FailRuntime, haft.MessageOf(err), haft.RetryNever)
		return nil
	}
	r.rt = rt
	if r.req.Kind == haft.KindBash {
		return r.bash(ctx, res)
	}
	msg, failure := r.message()
	if failure != nil {
		executor.Fail(res, *failure)
		return nil
	}
	payload, err := json.Marshal(msg)
	if err != nil {
		return fmt.Errorf("encode the call: %w", err)
	}
	var head []byte
	if r.req.Kind == haft.KindPython {
		if head, err = r.head(); err != nil {
			return err
		}
	}
	if n := len(head) + len(payload); n > maxCall {
		return invalid("source, arguments and files are %d bytes large together, %d is the most", n, maxCall)
	}
	c, sent, err := r.take(ctx, res, head)
	if err != nil {
		return r.notStarted(ctx, res, err)
	}
	payload = frame(nil, payload)
	if head != nil && !sent {
		payload = append(frame(nil, head), payload...)
	}
	r.talk(ctx, res, c, payload, msg.Reuse)
	return nil
}

// notUTF8 returns the first line of s that is not UTF-8.
func notUTF8(s string) (line int, bad bool) {
	for i, r := range s {
		if r == '\uFFFD' && !strings.HasPrefix(s[i:], "\uFFFD") {
			return 1 + strings.Count(s[:i], "\n"), true
		}
	}
	return 0, false
}

// message returns the frame that asks for the call.
func (r *run) message() (*call, *haft.Failure) {
	req := r.req
	m := &call{
		Type: typeCall, Function: req.Function, Args: req.Args,
		Pass: req.Pass, FileArgs: req.FileArgs, Inject: req.Inject, Env: egressEnv(req),
		Path: r.paths(), Limit: r.limits.Result, Reuse: r.reuse(), Invoke: req.Others != nil,
		Any:     string(req.Returns) == "{}",
		Letta:   req.Letta,
		Workdir: r.workdir(),
	}
	if len(m.Args) == 0 {
		m.Args = json.RawMessage("{}")
	}
	for _, f := range allFiles(req) {
		m.Files = append(m.Files, file{Name: f.Name, Mode: uint32(f.Mode.Perm()), Data: f.Data})
	}
	if len(req.CA) > 0 {
		m.Files = append(m.Files, file{Name: caFile, Data: req.CA, After: systemRoots(), Trust: true})
	}
	switch req.Kind {
	case haft.KindPython:
		m.File, m.Modules = fileName(req, ".py"), pythonModules(req.Modules)
	default:
		m.Source = trimBOM(req.Source)
		m.File = fileName(req, map[haft.Kind]string{haft.KindTypeScript: ".ts"}[req.Kind])
		if failure := r.x.toCommonJS(m, req.Kind); failure != nil {
			return nil, failure
		}
		m.Scripts = r.x.nodeModules(req.Modules)
	}
	return m, nil
}

// trimBOM returns a source without the mark that some editors put before it.
func trimBOM(source string) string { return strings.TrimPrefix(source, "\ufeff") }

// fileName is what tracebacks call the source.
func fileName(req executor.Request, ext string) string {
	if ext == "" {
		ext = ".js"
	}
	name := strings.Map(func(c rune) rune {
		if c == '/' || c == '\\' || c < ' ' || c == '"' {
			return '_'
		}
		return c
	}, cmp.Or(req.File, req.Tool))
	if name == "" {
		name = "tool"
	}
	return strings.TrimSuffix(name, ext) + ext
}

// reuse reports whether the operator chose one process for all calls of the tool.
func (r *run) reuse() bool {
	if r.req.Letta && strings.Contains(r.req.Source, "client") {
		return false // its client is made once for a process, with the key of one call
	}
	// Files that are arguments cannot be written to, so not a second time either.
	return !r.x.cfg.Cold && r.req.Workspace == nil && r.req.Observe == nil && len(r.req.FileArgs) == 0 &&
		slices.Contains(r.x.cfg.Reuse, r.req.Org+"/"+r.req.Tool)
}

// take gets a cell for the call. It reports whether the cell has got head.
func (r *run) take(ctx context.Context, res *haft.Result, head []byte) (c *cell.Cell, sent bool, err error) {
	asked := time.Now()
	plan := r.plan()
	r.key, r.sourceFrame = plan.Key, head
	if r.ahead != nil {
		c = r.ahead.take(ctx, plan.Key, head)
		sent = c != nil && r.ahead.sent
	}
	if c == nil {
		c = r.x.takeExpected(ctx, plan.Key)
	}
	if c == nil {
		c, err = r.x.pool.Take(ctx, plan)
	}
	if err != nil && ctx.Err() == nil && r.x.badKeys.has(plan.Key) {
		// The imports failed. The tool does them itself.
		c, err = r.x.pool.Take(ctx, r.plan())
	}
	r.took(res, asked, c)
	return c, sent, err
}

// took notes how long it took to get a cell, and which.
func (r *run) took(res *haft.Result, asked time.Time, c *cell.Cell) {
	res.Timeline.Setup = haft.Millis(time.Since(asked))
	switch {
	case r.x.cfg.Cold:
		res.Timeline.Cell = "cold"
	case c != nil && c.Hit:
		res.Timeline.Cell = "hit"
	default:
		res.Timeline.Cell = "miss"
	}
}

// plan says how the cells of this call are made.
func (r *run) plan() cell.Plan {
	spec := sandbox.Spec{
		Tenant: r.req.Org,
		Argv:   append(append([]string{}, r.rt.Argv...), r.start()...), Env: baseEnv(r.req.Network), Mounts: r.mounts(),
		Collect: true, Limits: r.limits, Network: r.req.Network, Need: r.req.Need, Terminals: r.req.Terminals,
		Observe: r.req.Observe != nil, Loopback: r.session,
	}
	spec = r.withWorkspace(spec)
	if r.reuse() {
		// One process serves many calls, so time is measured here, call by call, and nobody
		// knows whose files it has.
		spec.Collect = false
		spec.Limits.Wall, spec.Limits.CPU = r.x.cfg.Ceilings.Wall, r.x.cfg.Ceilings.CPU
	}
	plan := cell.Plan{
		Key:  cell.Key{Tenant: r.req.Org, Environment: r.rt.Digest + r.extrasDigest(), Policy: r.x.policyOf(spec)},
		Run:  r.x.provider.Run,
		Spec: spec,
		Boot: func(conn *sandbox.Pipe) error { return boot(conn, r.rt.code) },
	}
	if r.reuse() {
		plan.Reuse, plan.Key.Tool = true, r.req.Tool
		if len(r.req.Modules) > 0 { // an interpreter imports a module only once
			plan.Key.Tool += "@" + r.req.Digest
		}
	}
	if r.req.Workspace != nil {
		plan.Key.Environment += "+workspace" // its cells have a mount that no other call may meet
	} else if !r.x.cfg.Cold {
		if plan.Warm, plan.Spoilt = r.warmer(&plan.Key); spec.Observe {
			plan.Warm, plan.Spoilt = nil, nil // a warm cell has its filter already, and has imported what is to be seen
			plan.Key.Environment += "+observed"
		}
		if run := r.x.forks.runner(r.rt, spec, plan.Key.Policy+r.extrasDigest(), r.req.Layers); run != nil {
			plan.Run = run
			plan.Boot = func(conn *sandbox.Pipe) error { return boot(conn, nil) } // the template has it
		}
	}
	plan.Run = r.holdWorkspace(holding(r.req.Layers, plan.Run))
	return plan
}

// start returns the arguments that make the interpreter run the harness.
func (r *run) start() []string {
	if r.rt.Kind == haft.KindPython {
		return []string{"-c", r.rt.harness}
	}
	if r.req.Network == sandbox.NetworkEgress {
		return []string{"-e", r.rt.harness + "(" + nodeEgress + ")"}
	}
	return []string{"-e", r.rt.harness + "()"}
}

// A confinement holds the comparable fields of a spec that confine a run.
type confinement struct {
	limits  haft.Limits
	network sandbox.Network
	level   haft.Level
	tty     bool
	ports   bool
}

// policyOf returns the digest of everything that confines a run. Every call needs one,
// and there are few.
func (x *Executor) policyOf(spec sandbox.Spec) string {
	if len(spec.Need.Controls) > 0 {
		return policyDigest(spec)
	}
	key := confinement{spec.Limits, spec.Network, spec.Need.Level, spec.Terminals, spec.Loopback}
	digest, ok := x.policies.get(key)
	if !ok {
		digest = policyDigest(spec)
		x.policies.put(key, digest)
	}
	return digest
}

// policyDigest computes the digest of everything that confines a run.
func policyDigest(spec sandbox.Spec) string {
	// Values of these types always encode.
	b, _ := json.Marshal(struct {
		Limits    haft.Limits
		Network   sandbox.Network
		Need      sandbox.Need
		Terminals bool
		Loopback  bool
	}{spec.Limits, spec.Network, spec.Need, spec.Terminals, spec.Loopback})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// partOf returns a duration that the tool's process reported, in milliseconds. It could be
// any number, so that it is bounded by the duration that the host has measured.
func partOf(reported float64, whole haft.Millis) haft.Millis {
	if !(reported > 0) {
		return 0
	}
	return haft.Millis(min(reported, float64(whole.D())/float64(time.Millisecond)) * float64(time.Millisecond))
}

// talk sends the frames of the call, waits for the answer and the end, and fills in res.
func (r *run) talk(ctx context.Context, res *haft.Result, c *cell.Cell, payload []byte, reuse bool) {
	if reuse {
		timed, cancel := context.WithTimeoutCause(ctx, r.limits.Wall.D(), errWall)
		defer cancel()
		ctx = timed
	}
	defer c.StopWith(ctx)()
	c.ServeEgress(r.req.ServeEgress)
	c.Give(givenFiles(r.req))
	c.Begin(&r.stdout, &r.stderr)
	began := time.Now()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-c.Ended():
			// A descendant may hold the channel open: what is in it has a moment
			// to arrive. If setting the deadline fails, reading fails too.
			_ = c.Conn.SetReadDeadline(time.Now().Add(drain))
		case <-done:
		}
	}()
	m, err := r.exchange(ctx, c, payload, reuse)
	took := haft.Millis(time.Since(began))
	res.Timeline.Execute = took
	if err == nil && len(m.Times) == 3 {
		res.Timeline.Serialise = partOf(m.Times[2], res.Timeline.Execute)
		res.Timeline.Execute -= res.Timeline.Serialise
	}
	if err == nil && reuse && ctx.Err() == nil {
		r.answered(res, m, sandbox.Exit{})
		res.Usage = haft.Usage{Wall: took}
		r.isolationOf(ctx, res)
		settle(&r.stdout, &r.stderr)
		c.Release(true)
		return
	}
	if errors.Is(err, io.EOF) {
		// It is about to end, unless the tool closed the channel and runs on.
		select {
		case <-c.Ended():
		case <-time.After(dying):
		}
	}
	c.Release(false)
	<-c.Ended()
	exit, runErr := c.Exit()
	if reuse { // what the process used was for all of its calls
		exit.Usage = haft.Usage{Wall: took, Disk: exit.Usage.Disk}
	}
	r.conclude(ctx, res, m, err, exit, runErr)
	if n := len(r.sourceFrame); err == nil && m.Type == typeResult && n > 0 && n <= maxRecentHead && r.req.Stored {
		r.x.recent.put(r.key, r.sourceFrame)
	}
}
