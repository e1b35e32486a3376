package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/event"
	"haft/internal/limit"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/store"
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
	Vault Vault
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
	// Defaults and Ceilings are limits of runs; zero fields are those of package
	// haft.
	Defaults, Ceilings haft.Limits
	// Sandboxes are the types of sandboxes that tools run in, the first where nobody
	// says; empty means [haft.SandboxLocal]. Whoever names another one is refused.
	Sandboxes []haft.SandboxType
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
	Breaker BreakerConfig
	// BlockFor is how long a caller cannot use a tool after a critical failure;
	// 0 means 15 minutes.
	BlockFor time.Duration
	// Recoveries are asked for another result of a failed call, in order.
	Recoveries []Recovery
	// OnFailure hears of every failure by its severity, for paging a person.
	OnFailure map[haft.Severity]func(context.Context, haft.Record)
	// Gate makes the ways out of sandboxes. Nil means that there are none, and
	// tools that want a network are refused.
	Egress EgressGuard
	// Changed is told that tools, agents or rules of an organisation have changed; ""
	// means of all. It does not block. Nil means that nobody wants to know.
	Changed func(org string)
	// Recheck returns what the credential of a principal stands for now, and when it
	// ends; zero means never. The error is [haft.CodeUnauthenticated] or
	// [haft.CodeDenied] if it is withdrawn. It is asked when permissions were changed,
	// and for calls that were kept, never for each call. Nil means that credentials are
	// good for as long as calls last.
	Recheck func(ctx context.Context, p haft.Principal) (now haft.Principal, ends time.Time, err error)
	// Packages installs what tools need. Nil installs nothing, and a result says so.
	Packages Packages
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

// A Recovery is a way out of failures of some kinds.
type Recovery struct {
	// Tool and Kind say of which failures; empty means of all.
	Tool string
	Kind haft.FailureKind
	// Recover returns another result, or nil to leave it.
	Recover func(ctx context.Context, c haft.Call, failed *haft.Result) *haft.Result
}

// Parts are what an engine is made of. All are needed.
type Parts struct {
	Store    *store.Store
	Registry *registry.Registry
	// Executors run admitted calls, by the kind of the tool.
	Executors map[haft.Kind]executor.Executor
}

// An Engine runs calls. Package service manages what they are made of. It is safe for concurrent use.
//
// Lifecycle: Open, then anything, then Drain or not, then Close.
type Engine struct {
	cfg       Config
	store     *store.Store
	registry  *registry.Registry
	executors map[haft.Kind]executor.Executor

	journal *journal
	hub     *event.Hub
	limits  *limit.Limiter   // rates and quotas of all, and the queue of what is heavy
	light   *limit.Limiter   // the queue of the rest
	plain   *secret.Redactor // for calls without secrets of their own
	macs    sync.Pool        // of *digester
	breaker *breakers
	blocks  *blocks
	turns   *locks // by turn of an agent
	chains  *locks // by chain
	// dispatcher and chainWork take accepted calls and chains further.
	dispatcher *dispatcher
	chainWork  *chainWork
	term       atomic.Pointer[term] // the name of this process, and what ends with it
	peers      peers                // of keepAlive
	hurried    chan struct{}        // has keepAlive look now
	handedOver atomic.Bool          // others take further what is accepted
	adoptAfter atomic.Int64         // when what belongs to nobody may be adopted again, see noteSealed
	rules      policies
	screens    chan struct{} // a place for each costly run of filters

	permissions permissions
	changes     atomic.Int64 // of permissions, that this process knows of

	authority authority.Rules

	sandboxes configs

	stopped atomic.Pointer[stopNote] // nil while calls are taken

	mu         sync.Mutex
	executions map[haft.CallID]*execution // what is on its way in this process
	// recording are calls that have ended and whose end the store has yet to take.
	recording map[haft.CallID]bool
	closed    bool

	launched   atomic.Int64   // ends of calls that are still to be recorded
	inFlight   sync.WaitGroup // every execution
	background sync.WaitGroup // every goroutine of the engine
	ctx        context.Context
	cancel     context.CancelCauseFunc
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
	cfg = cfg.filled()
	e := &Engine{
		cfg: cfg, store: parts.Store, registry: parts.Registry, executors: parts.Executors,
		breaker: newBreakers(cfg.Breaker), blocks: newBlocks(cfg.BlockFor), turns: newLocks(), chains: newLocks(),
		executions: make(map[haft.CallID]*execution), recording: make(map[haft.CallID]bool),
		screens:   make(chan struct{}, max(1, runtime.NumCPU()/2)),
		authority: authority.Rules{Managers: cfg.Managers, Operators: cfg.Operators},
	}
	e.permissions = permissions{reviews: map[string]bool{}, parked: map[string]haft.Principal{},
		ends: map[string]time.Time{}, turns: make(chan struct{}, reviewsAtOnce), run: e.reviewOrg}
	e.plain = secret.NewRedactor(secret.Config{Formats: true, Personal: cfg.Personal})
	e.ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	e.dispatcher = newDispatcher(cfg.Backlog, cfg.BacklogAll, cfg.Limits.Queue)
	e.chainWork = newChainWork(cfg.Backlog, e.Go, func(ctx context.Context, c chainRef) {
		if e.awaitStart(ctx) {
			e.goOn(ctx, c)
		}
	})
	e.hurried = make(chan struct{}, 1)
	e.journal = newJournal(parts.Store, e.owner)
	e.hub = event.New(event.Config{Log: e.journal, Logger: cfg.Logger})
	e.limits, e.light = limit.New(cfg.heavyLimits(e.loadLimits)),
		limit.New(limit.Config{Running: lightRunning, PerTenant: lightRunning * 3 / 4, Queue: cfg.Limits.Queue})
	if err := e.readStop(ctx); err != nil {
		return nil, err
	}
	if err := e.recover(ctx); err != nil {
		return nil, fmt.Errorf("close what was left open: %w", err)
	}
	e.Go(e.dispatch)
	e.Go(e.housekeep)
	e.Go(e.watchPermissions)
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
	if c.Owner == "" {
		c.Owner = newID("p_")
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

// Go runs work in a goroutine that Close waits for. It reports whether the
// engine still takes work.
func (e *Engine) Go(work func(context.Context)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.background.Go(func() { work(e.ctx) })
	return true
}

// isClosed reports whether the engine is being closed.
func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// awaitStart waits until accepted calls may run, and reports whether they may.
func (e *Engine) awaitStart(ctx context.Context) bool {
	if e.cfg.Started == nil {
		return true
	}
	select {
	case <-e.cfg.Started:
		return true
	case <-ctx.Done():
		return false
	}
}

// Drain refuses new calls and waits until those that run have ended, or ctx has.
func (e *Engine) Drain(ctx context.Context) error {
	e.stopped.Store(&stopNote{Reason: "this server is shutting down", leaving: true})
	e.HandOver(ctx)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if e.Running() == 0 && e.launched.Load() == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d calls to end: %w", e.Running(), context.Cause(ctx))
		}
	}
}

// HandOver leaves accepted calls that have not begun to others at once, or to the next
// engine, and accepts no more. What runs goes on.
func (e *Engine) HandOver(ctx context.Context) {
	e.handedOver.Store(true)
	e.dispatcher.close()
	e.chainWork.close()
	e.mu.Lock()
	for _, ex := range e.executions {
		if ex.accepted && ex.phase == phaseWaits {
			ex.phase = phaseLeft
			ex.cancel(errClosing)
		}
	}
	e.mu.Unlock()
	if err := e.store.ReleaseCalls(ctx, e.owner(), nil); err != nil {
		e.cfg.Logger.Warn("calls that wait cannot be left to others yet", "error", err)
	}
}

// Running returns how many calls are on their way in this process.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.executions)
}

// errClosing is the cause of the end of what runs when the engine is closed.
var errClosing = errors.New("the engine is shutting down")

// Close ends what still runs, waits until it is gone, and signs the audit. Calls
// that are queued or wait for a person go on with the next engine. The store is
// the caller's.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	for _, ex := range e.executions {
		ex.cancel(errClosing)
	}
	e.mu.Unlock()
	e.dispatcher.close()
	e.chainWork.close()
	e.cancel(errClosing)
	e.inFlight.Wait() // their ends are recorded
	e.background.Wait()
	e.hub.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), 10*time.Second)
	defer cancel()
	return errors.Join(e.checkpoint(ctx), e.store.Leave(ctx, e.owner()))
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
	return Stats{Running: e.Running(), Events: e.hub.Stats(), Limits: e.limits.Stats(), Light: e.light.Stats()}
}
