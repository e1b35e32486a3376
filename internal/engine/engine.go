package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/backlog"
	"haft/internal/callenv"
	"haft/internal/chains"
	"haft/internal/circuit"
	"haft/internal/egress/route"
	"haft/internal/event"
	"haft/internal/filestore"
	"haft/internal/limit"
	"haft/internal/membership"
	"haft/internal/orgconfig"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/workspace"
	"haft/policy"
)

// Config has the settings of an engine. The zero value is useful.
type Config struct {
	// Owner names this process in records, as long as it is not given up by others; empty
	// makes a name up.
	Owner string
	// Backlog is how many background calls of an organisation are accepted that have not
	// ended, and likewise chains; more are refused. 0 means 20,000. BacklogAll is how many
	// of all organisations; 0 means 200,000.
	Backlog, BacklogAll int
	// Policy is the server's; what the store has for it wins. A nil policy and an
	// empty store allow nothing.
	Policy *policy.Policy
	// Names are the argument names that mean secrets.
	Names *secret.Names
	// Personal redacts personal data such as e-mail addresses too.
	Personal bool
	// AuditArgs keeps redacted arguments in the audit; else only their digest.
	AuditArgs bool
	// DigestKey makes digests of arguments and results such that nobody without
	// it can try out guesses; empty means plain digests.
	DigestKey []byte
	// Checkpoint signs what the audit has grown by; nil means that nothing is signed. It
	// is called in the background about each minute, soon after many entries, and when
	// the engine is closed.
	Checkpoint func(ctx context.Context) error
	// Sealer encrypts what has to be kept of calls that have yet to run. Nil
	// keeps it as it is.
	Sealer Sealer
	// Vault keeps the variables of organisations and agents. Nil keeps those of
	// agents in their rows, and none of organisations.
	Vault callenv.Vault
	// Credentials fetches variables for calls that run; nil means from nowhere.
	Credentials Credentials
	// Limits bound how many calls run and wait. Running counts calls that need a
	// processor, until they have run for Patience; 0 means two for each processor,
	// of which one tenant may have all but one. More at once would only make each
	// of them slower, and those of other tenants with them.
	Limits limit.Config
	// Patience is after which time a call counts as one that waits for something
	// and makes room for another; 0 means 50 ms.
	Patience time.Duration
	// Heavy says which tools need a processor; nil means all but built-in tools
	// and those of MCP servers.
	Heavy func(haft.Tool) bool
	// RunsCode says which built-in tools run code of their callers, in the sandbox that is chosen for the call; nil
	// means none. Others are refused where a call names a sandbox.
	RunsCode func(tool string) bool
	// Defaults and Ceilings are limits of runs; zero fields are those of package
	// haft.
	Defaults, Ceilings haft.Limits
	// Sandboxes are those that tools run in, in the order in which they are tried where nobody names one; empty means
	// [haft.SandboxLocal]. Whoever names another one is refused.
	Sandboxes []orgconfig.Place
	// MinIsolation refuses to run scripts with less.
	MinIsolation haft.Level
	// Managers are the roles that may change tools, agents and policies and stop
	// the whole; empty means [haft.RoleAdmin].
	Managers []string
	// Operators is the organisation whose managers stop and resume everything and
	// write the policy of the whole server; empty means [authority.EveryOrg].
	Operators string
	// ApprovalExpires is how long a request waits where policy does not say; 0
	// means 24 hours.
	ApprovalExpires time.Duration
	// Beat is how often this process says that it lives, where others share its
	// store; 0 means 4 seconds. DeadAfter is how long they wait before they take
	// over from one that does not; 0 means 20 seconds.
	Beat, DeadAfter time.Duration
	// Breaker says when a tool counts as broken.
	Breaker circuit.Config
	// BlockFor is how long a caller cannot use a tool after a critical failure;
	// 0 means 15 minutes.
	BlockFor time.Duration
	// Recoveries are asked for another result of a failed call, in order.
	Recoveries []haft.Recovery
	// OnFailure hears of every failure by its severity, for paging a person.
	OnFailure map[haft.Severity]func(context.Context, haft.Record)
	// Egress makes the egress routes of sandboxes. Nil means that there are none, and
	// tools that want a network are refused.
	Egress route.Guard
	// Changed is told that tools, agents or rules of an organisation have changed; ""
	// means of all. It does not block. Nil means that nobody wants to know.
	Changed func(org string)
	// Killed is told that everything of those principals that match was ended. It does not
	// block. Nil means that nothing but calls runs.
	Killed func(reason string, match func(haft.Principal) bool)
	// Recheck returns what the credential of a principal stands for now, and when it
	// ends; zero means never. The error is [haft.CodeUnauthenticated] or
	// [haft.CodeDenied] if it is withdrawn. It is asked when permissions were changed,
	// for calls that were kept, and for sessions that were made, never for each call.
	// Nil means that credentials are good for as long as calls last.
	Recheck func(ctx context.Context, p haft.Principal) (now haft.Principal, ends time.Time, err error)
	// Packages installs what tools need. Nil installs nothing, and a result says so.
	Packages Packages
	// Observe returns who wants to know which hosts a call reaches, and whether also which files and programs it
	// touches, if it is a script: such calls are observed, as are those whose tool asks for it. Nil means nobody.
	Observe func(haft.Call) (asked func(haft.Touched), files bool)
	// Observer watches calls from inside; nil means that nobody does.
	Observer Observer
	// Brief says that this process ends soon, such as a command: it closes calls that
	// nobody runs, and leaves those that wait to a server. Its own calls run.
	Brief bool
	// Started is closed when calls may run that were accepted before. Nil means at once.
	Started <-chan struct{}
	// Logger hears what an operator could act on. Nil discards.
	Logger *slog.Logger
}

// A Sealer encrypts and decrypts. The label must be the same both times.
type Sealer interface {
	Seal(plain, label []byte) ([]byte, error)
	Open(sealed, label []byte) ([]byte, error)
}

// An Observer watches calls from inside, for spans and measures. It cannot change
// an outcome.
type Observer interface {
	// Begin is told that c came in. The context it returns is used for the rest.
	Begin(ctx context.Context, c haft.Call) (context.Context, Span)
}

// A Span is one call that is being watched.
type Span interface {
	// Tool is told the name of the tool, if it was found. What the caller said need
	// not be one.
	Tool(name string)
	// Stage is told that a stage has ended.
	Stage(name string, took time.Duration)
	// End is told what the caller is told. Either may be nil.
	End(res *haft.Result, err error)
}

// Parts are what an engine is made of. All are needed.
type Parts struct {
	Store    *store.Store
	Registry *registry.Registry
	// Files keeps the files that calls are given and leave. Nil means one with the default bounds.
	Files *filestore.Store
	// Workspaces keeps directories that outlive calls. Nil means that there are none.
	Workspaces *workspace.Store
	// Executors run admitted calls, by the kind of the tool.
	Executors map[haft.Kind]executor.Executor
}

// An Engine runs calls. Package service manages what they are made of. It is safe for concurrent use.
//
// Lifecycle: Open, then anything, then Drain or not, then Close.
type Engine struct {
	cfg   *Config
	store *store.Store
	hub   *event.Hub

	calls       *callTable
	members     *membership.Membership
	digests     *secret.Digester
	redaction   *redaction
	env         *callenv.Builder
	filters     *filters
	egress      *egressPlanner
	seals       *callSealer
	authorizer  *authorizer
	entrance    *entrance
	limiter     *limiter
	runner      *runner
	recorder    *recorder
	pipeline    *pipeline
	approvals   *approvals
	recovery    *recovery
	chains      *chains.Chains
	operator    *operator
	housekeeper *housekeeper
	orgs        *orgconfig.Reader
	permissions *permissions
	dispatcher  *dispatcher
}

var (
	_ haft.Caller   = (*Engine)(nil)
	_ haft.Planner  = (*Engine)(nil)
	_ haft.Operator = (*Engine)(nil)
)

// Open puts an engine together, closes what a crash left open and goes on with
// what waits.
func Open(ctx context.Context, parts Parts, cfg Config) (*Engine, error) {
	if parts.Store == nil || parts.Registry == nil {
		return nil, errors.New("an engine needs a store and a registry")
	}
	if parts.Files == nil {
		parts.Files = filestore.New(parts.Store, filestore.Config{})
	}
	cfg = cfg.filled()
	e := &Engine{
		cfg: &cfg, store: parts.Store, calls: new(callTable), digests: secret.NewDigester(cfg.DigestKey),
		env: callenv.New(cfg.Vault, cfg.Names, cfg.Personal), redaction: new(redaction), filters: new(filters),
		egress: new(egressPlanner),
		seals:  new(callSealer), authorizer: new(authorizer), entrance: new(entrance), limiter: new(limiter),
		runner: new(runner), recorder: new(recorder), pipeline: new(pipeline), approvals: new(approvals),
		recovery: new(recovery), operator: new(operator), housekeeper: new(housekeeper), permissions: new(permissions),
		orgs: orgconfig.New(orgconfig.Config{Policies: parts.Store.Policies,
			Sandboxes: parts.Store.Sandboxes, Shared: parts.Store.Shared(), Policy: cfg.Policy,
			Fixed: map[string]string{canaryOrg: canaryRules}, Places: cfg.Sandboxes, RunsCode: cfg.RunsCode}),
		dispatcher: &dispatcher{Calls: backlog.New(cfg.Backlog, cfg.BacklogAll, cfg.Limits.Queue)},
	}
	e.wire(ctx, parts)
	if err := e.operator.readStop(ctx); err != nil {
		return nil, err
	}
	if err := e.members.Join(ctx, cfg.Owner); err != nil {
		return nil, fmt.Errorf("register this server: %w", err)
	}
	if err := e.recovery.recover(ctx); err != nil { // others would take it for alive as long as the process lives
		return nil, errors.Join(fmt.Errorf("close what was left open: %w", err), e.Close())
	}
	e.calls.Go(e.dispatcher.dispatch)
	e.calls.Go(e.housekeeper.housekeep)
	e.calls.Go(e.permissions.watchPermissions)
	return e, nil
}

// lightRunning is how many calls run at once that need no processor of their own.
const lightRunning = 4096

// heavyLimits are the limits of calls that need a processor.
func (c Config) heavyLimits(load func(context.Context, []string) ([]limit.State, error)) limit.Config {
	l := c.Limits
	l.Load = load
	if l.Running <= 0 {
		l.Running = max(4, 2*runtime.NumCPU())
	}
	if l.PerTenant <= 0 {
		l.PerTenant = max(1, l.Running-1)
	}
	return l
}

// heavy says whether a tool needs a processor of its own.
func heavy(t haft.Tool) bool {
	return t.Version.Kind != haft.KindBuiltin && t.Version.Kind != haft.KindMCP
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	if c.Killed == nil {
		c.Killed = func(string, func(haft.Principal) bool) {}
	}
	if c.Owner == "" {
		c.Owner = membership.NewName()
	}
	if c.Names == nil {
		c.Names = secret.NewNames(nil)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Operators == "" {
		c.Operators = authority.EveryOrg
	}
	if c.ApprovalExpires == 0 {
		c.ApprovalExpires = 24 * time.Hour
	}
	if c.Patience == 0 {
		c.Patience = 50 * time.Millisecond
	}
	if c.Heavy == nil {
		c.Heavy = heavy
	}
	if c.Beat == 0 {
		c.Beat = 4 * time.Second
	}
	if c.DeadAfter == 0 {
		c.DeadAfter = 20 * time.Second
	}
	if c.Backlog == 0 {
		c.Backlog = 20_000
	}
	if c.BacklogAll == 0 {
		c.BacklogAll = 200_000
	}
	if c.BlockFor == 0 {
		c.BlockFor = 15 * time.Minute
	}
	c.Defaults = c.Defaults.Or(haft.DefaultLimits())
	c.Ceilings = c.Ceilings.Or(haft.LimitCeilings())
	return c
}

// Drain refuses new calls and waits until those that run have ended, or ctx has.
func (e *Engine) Drain(ctx context.Context) error {
	e.operator.stopped.Store(&stopNote{Reason: "this server is shutting down", leaving: true})
	e.HandOver(ctx)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if e.calls.Running() == 0 && e.calls.launched.Load() == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d calls to end: %w", e.calls.Running(), context.Cause(ctx))
		}
	}
}

// Owner names this process in the store now.
func (e *Engine) Owner() string { return e.members.Owner() }

// HandOver leaves accepted calls that have not begun to others at once, or to the next
// engine, and accepts no more. What runs goes on.
func (e *Engine) HandOver(ctx context.Context) {
	e.calls.handedOver.Store(true)
	e.dispatcher.Close()
	e.chains.Close()
	e.calls.mu.Lock()
	for _, ex := range e.calls.executions {
		if ex.accepted && ex.phase == phaseWaits {
			ex.phase = phaseLeft
			ex.cancel(chains.ErrClosing)
		}
	}
	e.calls.mu.Unlock()
	if err := e.store.Calls.ReleaseCalls(ctx, e.members.Owner(), nil); err != nil {
		e.cfg.Logger.Warn("calls that wait cannot be left to others yet", "error", err)
	}
}

// Close ends what still runs, waits until it is gone, and signs the audit. Calls
// that are queued or wait for a person go on with the next engine. The store is
// the caller's.
func (e *Engine) Close() error {
	e.calls.mu.Lock()
	if e.calls.closed {
		e.calls.mu.Unlock()
		return nil
	}
	e.calls.closed = true
	for _, ex := range e.calls.executions {
		ex.cancel(chains.ErrClosing)
	}
	e.calls.mu.Unlock()
	e.dispatcher.Close()
	e.chains.Close()
	e.calls.cancel(chains.ErrClosing)
	e.calls.inFlight.Wait() // their ends are recorded
	e.calls.background.Wait()
	e.hub.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.calls.ctx), 10*time.Second)
	defer cancel()
	return errors.Join(e.housekeeper.checkpoint(ctx), e.store.Processes.Leave(ctx, e.members.Owner()))
}

// Stats are counts for metrics and people.
type Stats struct {
	Running int // calls on their way
	Events  event.Stats
	Limits  limit.Stats // of calls that need a processor
	Light   limit.Stats // of the others
	// Unsigned says that the audit log could not be signed, and Pending how many
	// checkpoints an external sink has yet to get, which is failing or not. The engine
	// does not know: whoever put it together does.
	Unsigned, SinkFailing bool
	SinkPending           int64
}

// Stats returns the counts of now.
func (e *Engine) Stats() Stats {
	return Stats{Running: e.calls.Running(), Events: e.hub.Stats(), Limits: e.limiter.limits.Stats(),
		Light: e.limiter.light.Stats()}
}

// The methods below are those of the parts.

// Call implements [haft.Caller].
func (e *Engine) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	return e.entrance.Call(ctx, c)
}

// Submit implements [haft.Caller].
func (e *Engine) Submit(ctx context.Context, c haft.Call) (*haft.Record, error) {
	return e.entrance.Submit(ctx, c)
}

// Cancel implements [haft.Caller].
func (e *Engine) Cancel(ctx context.Context, p haft.Principal, id haft.CallID) error {
	return e.operator.Cancel(ctx, p, id)
}

// Batch implements [haft.Planner].
func (e *Engine) Batch(ctx context.Context, calls []haft.Call) ([]*haft.Result, error) {
	return e.entrance.Batch(ctx, calls)
}

// Run implements [haft.Planner].
func (e *Engine) Run(ctx context.Context, p haft.Principal, plan haft.Plan) (*haft.Chain, error) {
	return e.chains.Run(ctx, p, plan)
}

// Chain implements [haft.Planner].
func (e *Engine) Chain(ctx context.Context, p haft.Principal, id haft.ChainID) (*haft.Chain, error) {
	return e.chains.Chain(ctx, p, id)
}

// CancelAll implements [haft.Operator].
func (e *Engine) CancelAll(ctx context.Context, p, of haft.Principal) (int, error) {
	return e.operator.CancelAll(ctx, p, of)
}

// Stop implements [haft.Operator].
func (e *Engine) Stop(ctx context.Context, p haft.Principal, reason string, kill bool) error {
	return e.operator.Stop(ctx, p, reason, kill)
}

// Resume implements [haft.Operator].
func (e *Engine) Resume(ctx context.Context, p haft.Principal) error {
	return e.operator.Resume(ctx, p)
}

// Stopped returns why calls are refused, and whether they are.
func (e *Engine) Stopped() (string, bool) { return e.operator.Stopped() }

// Wait returns the result of a call when it has ended, or when it waits for a
// person, or what is known when ctx ends.
func (e *Engine) Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	return e.entrance.Wait(ctx, p, id)
}

// Seen returns the record of a call, if one of the actions lets p have it. What p
// may not see is not there.
func (e *Engine) Seen(ctx context.Context, p haft.Principal, id haft.CallID,
	actions ...haft.Action) (*haft.Record, error) {
	return e.entrance.Seen(ctx, p, id, actions...)
}

// Canary makes a real call through the whole pipeline, to see whether this process
// can do its work. The tool must be a built-in one.
func (e *Engine) Canary(ctx context.Context, tool string, args json.RawMessage) (*haft.Result, error) {
	return e.entrance.Canary(ctx, tool, args)
}

// Answerable reports whether p could answer a request for approval.
func (e *Engine) Answerable(ctx context.Context, p haft.Principal, a haft.Approval) bool {
	return e.approvals.Answerable(ctx, p, a)
}

// Answer writes what p says to a request that p may see, and has its call go on or ends it.
func (e *Engine) Answer(ctx context.Context, p haft.Principal, a *haft.Approval,
	answer haft.Answer) (*haft.Approval, error) {
	return e.approvals.Answer(ctx, p, a, answer)
}

// Explain says what would be decided about a call, and why.
func (e *Engine) Explain(ctx context.Context, c haft.Call) (policy.Decision, error) {
	var err error
	if c.Workspace, err = e.entrance.workspaces.Bind(ctx, e.entrance.authority, c.Principal, c.Workspace); err != nil {
		return policy.Decision{}, err
	}
	return e.authorizer.Explain(ctx, c)
}

// StillAllowed returns [haft.CodeDenied] if a call that was made with a workspace could not be made now. Other errors
// say nothing about that. Approvals that were given stay good.
func (e *Engine) StillAllowed(ctx context.Context, c haft.Call) error {
	au, err := e.authorizer, error(nil)
	if c.Principal, _, err = au.principalNow(ctx, c.Principal); err == nil {
		c.Workspace, err = workspace.Rebind(ctx, au.workspaces, au.authority, c)
	}
	if err == nil {
		err = au.stillAllowed(ctx, running{call: c, final: true})
	}
	if isWithdrawn(err) {
		return &haft.Error{Code: haft.CodeDenied, Message: err.Error()}
	}
	return err
}

// Rules returns the policy that holds in an organisation now.
func (e *Engine) Rules(ctx context.Context, org string) (*policy.Policy, error) {
	return e.orgs.Policy(ctx, org)
}

// Orgs returns what organisations have configured.
func (e *Engine) Orgs() *orgconfig.Reader { return e.orgs }

// CheckSandbox reports why nothing can run in the sandbox that somebody names.
func (e *Engine) CheckSandbox(name, pointer string) error {
	return e.orgs.CheckSandbox(name, pointer)
}

// ServerHosts returns the hosts that an MCP server can reach.
func (e *Engine) ServerHosts(s haft.MCPServer) ([]string, error) { return e.egress.plan.ServerHosts(s) }

// Log writes an entry of the audit that is not about a call, and has the calls of an
// organisation, or of all if it is empty, decided again.
func (e *Engine) Log(ctx context.Context, p haft.Principal, org, kind string, body any) error {
	return e.permissions.Log(ctx, p, org, kind, body)
}

// AnnounceChange has what is kept in memory of an organisation read again, here and elsewhere.
func (e *Engine) AnnounceChange(ctx context.Context, org string) error {
	return e.permissions.AnnounceChange(ctx, org)
}

// Go runs work in the background until the engine is closed. It reports whether the
// engine still takes work.
func (e *Engine) Go(work func(context.Context)) bool { return e.calls.Go(work) }

// Running returns how many calls are on their way in this process.
func (e *Engine) Running() int { return e.calls.Running() }
