// Package chains runs plans: chains of calls, each step of which is a call of its own. The
// state of a chain is in the store, so that whoever owns it can go on after a crash.
package chains

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/chain"
	"haft/internal/pause"
	"haft/internal/secret"
	"haft/internal/store"
)

// Config says what chains need besides the engine that runs their steps.
type Config struct {
	Store     *store.Store
	Authority authority.Rules
	// Most is how many chains of an organisation wait at most.
	Most int
	// Names are the argument names that mean secrets.
	Names *secret.Names
	// Sealer encrypts plans that have yet to run, with the id of the chain as the
	// label. Nil keeps them as they are.
	Sealer interface {
		Seal(plain, label []byte) ([]byte, error)
		Open(sealed, label []byte) ([]byte, error)
	}
	Logger *slog.Logger
}

// A Host is what chains need of the engine that runs their steps.
type Host struct {
	Caller  Caller
	Process Process
	Secrets Secrets
}

// A Caller makes the calls of steps.
type Caller interface {
	Batch(ctx context.Context, calls []haft.Call) ([]*haft.Result, error)
	// Canonical returns a principal whose agent is named by its id.
	Canonical(ctx context.Context, p haft.Principal) haft.Principal
	// Withdrawn says why the credential of p is not good any more, or "".
	Withdrawn(ctx context.Context, p haft.Principal) (why string, err error)
	// ForgetUnbegun forgets that a call has not begun, and ForgetChain how often a chain
	// that has ended was postponed.
	ForgetUnbegun(id haft.CallID)
	ForgetChain(id haft.ChainID)
}

// A Process is the one that has the chains.
type Process interface {
	// Owner is the name under which this process has chains now. During also returns a
	// context that ends when others have given the process up.
	Owner() string
	During(ctx context.Context) (within context.Context, owner string, done func())
	// Go runs work in the background once accepted work may run.
	Go(work func(context.Context)) bool
	// Ending says how far the process is on its way out.
	Ending() Ending
	// Elsewhere reports whether an error says that others have what it is about.
	Elsewhere(ctx context.Context, err error) bool
	// NoteSealed notes that there is no key here for a chain.
	NoteSealed()
}

// Ending says how far a process is on its way out: it refuses new calls, has handed what
// waits over to others, or is being closed.
type Ending struct{ Leaving, HandedOver, Closed bool }

// Secrets knows what is secret in a plan.
type Secrets interface {
	CheckSteps(ctx context.Context, p haft.Principal, plan haft.Plan) error
	CoverOf(ctx context.Context, p haft.Principal) (*secret.Redactor, error)
}

// Chains runs plans. It is safe for concurrent use.
type Chains struct {
	cfg   Config
	store *store.Store
	host  Host
	locks *Locks // by chain
	work  *chainWork
}

// New returns chains that nobody runs yet.
func New(host Host, cfg Config) *Chains {
	ch := &Chains{cfg: cfg, store: cfg.Store, host: host, locks: NewLocks()}
	ch.work = newChainWork(cfg.Most, host.Process.Go, ch.goOn)
	return ch
}

// Push has a chain go on in the background, if id names one.
func (ch *Chains) Push(org string, id haft.ChainID) {
	if id != "" {
		ch.work.push(chainRef{org, id})
	}
}

// Close has nothing more go on.
func (ch *Chains) Close() { ch.work.close() }

var (
	// ErrSealed says that there is no key here that opens what was kept of a call or a
	// chain. Another server may have it.
	ErrSealed = errors.New("no key of this server opens it")
	// ErrClosing is the cause of the end of what runs when the engine is closed.
	ErrClosing = errors.New("the engine is shutting down")
)

// retryStep is when a chain looks again for a step of which only the store knows what
// became, and retryWhenFull when to come back after the backlog was full.
const (
	retryStep     = 200 * time.Millisecond
	retryWhenFull = 5 * time.Second
)

// Run implements [haft.Planner].
func (ch *Chains) Run(ctx context.Context, p haft.Principal, plan haft.Plan) (*haft.Chain, error) {
	if err := ch.cfg.Authority.May(p, haft.CallsWrite); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // nobody waits for it, and nothing has begun
	}
	program, err := chain.Compile(plan)
	if err != nil {
		return nil, err
	}
	p = ch.host.Caller.Canonical(ctx, p)
	if err := ch.host.Secrets.CheckSteps(ctx, p, plan); err != nil {
		return nil, err
	}
	if plan.Background {
		if err := ch.work.refuseIfFull(p.Org); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	c := &haft.Chain{
		ID: haft.ChainID("ch_" + rand.Text()), Principal: p, Turn: "turn_" + rand.Text(), Plan: plan,
		Steps:  program.Steps(),
		Status: haft.StatusRunning, Created: now, Updated: now,
	}
	if err := ch.saveChain(ctx, ch.host.Process.Owner(), c); err != nil {
		if _, lost := ch.store.Chains.Chain(context.WithoutCancel(ctx), p.Org, c.ID); lost != nil {
			return nil, err
		} // else only the answer got lost
	}
	if !plan.Background {
		done, err := ch.advance(ctx, p.Org, c.ID)
		if err != nil {
			return nil, err
		}
		shown, err := ch.shownChain(ctx, *done)
		return &shown, err
	}
	ch.work.push(chainRef{p.Org, c.ID})
	shown, err := ch.shownChain(ctx, *c)
	return &shown, err
}

// Chain implements [haft.Planner].
func (ch *Chains) Chain(ctx context.Context, p haft.Principal, id haft.ChainID) (*haft.Chain, error) {
	if err := ch.cfg.Authority.May(p, haft.CallsRead); err != nil {
		return nil, err
	}
	c, err := ch.openChain(ctx, p.Org, id)
	if err != nil && !errors.Is(err, ErrSealed) {
		return nil, err
	}
	if err := ch.cfg.Authority.Authorize(p, haft.CallsRead, authority.Owned("chain", c.Principal)); err != nil {
		return nil, err
	}
	shown, err := ch.shownChain(ctx, *c)
	return &shown, err
}

// saveChain writes down where a chain of owner stands.
func (ch *Chains) saveChain(ctx context.Context, owner string, c *haft.Chain) error {
	c.Updated = time.Now()
	row, err := ch.keptChain(ctx, *c)
	if err != nil {
		return err
	}
	return ch.store.Commit(ctx, store.Batch{Owner: owner, Chains: []haft.Chain{row}})
}

// advance takes a chain as far as it goes. Every step has the id of its call
// written down before the call is made, so that after a crash nobody has to guess
// whether it was.
func (ch *Chains) advance(ctx context.Context, org string, id haft.ChainID) (*haft.Chain, error) {
	unlock, err := ch.locks.Take(ctx, org+"\x00"+string(id))
	if err != nil {
		return nil, err
	}
	defer unlock()
	// What is found out during this term is written as of this term: if the process is given
	// up meanwhile, its steps are with others.
	ctx, owner, done := ch.host.Process.During(ctx)
	defer done()
	c, err := ch.openChain(ctx, org, id)
	if errors.Is(err, ErrSealed) {
		return nil, errors.Join(err, ch.leaveSealedChain(ctx, owner, c))
	}
	if err != nil {
		return nil, err
	}
	program, err := chain.Compile(c.Plan)
	if err != nil {
		return nil, err
	}
	for {
		if c.Status.Final() {
			ch.host.Caller.ForgetChain(id)
			return c, nil
		}
		if done, err := ch.endWithdrawn(ctx, owner, c); done || err != nil {
			return c, err
		}
		if err := ch.settle(ctx, c); err != nil {
			return nil, err
		}
		todo, err := program.Next(*c)
		if err != nil {
			return nil, err
		}
		for _, s := range todo.Skipped {
			*step(c, s.ID) = s
		}
		c.Status, c.Error = todo.Status, todo.Failure
		if todo.Done || len(todo.Ready) == 0 {
			ch.host.Caller.ForgetChain(id)
			return c, ch.saveChain(context.WithoutCancel(ctx), owner, c)
		}
		if end := ch.host.Process.Ending(); end.Leaving || c.Plan.Background && end.HandedOver {
			return nil, ch.leaveChain(ctx, owner, c)
		}
		calls := make([]haft.Call, len(todo.Ready))
		for i, r := range todo.Ready {
			calls[i] = haft.Call{ID: haft.NewCallID(), Tool: r.Step.Tool, Args: r.Args,
				Principal: c.Principal,
				Turn:      c.Turn, Chain: c.ID, Workspace: c.Plan.Workspace}
			*step(c, r.Step.ID) = haft.StepResult{ID: r.Step.ID, State: haft.StepRunning, Call: calls[i].ID}
		}
		if err := ch.saveChain(ctx, owner, c); err != nil {
			return nil, err
		}
		results, err := ch.host.Caller.Batch(ctx, calls)
		if err != nil {
			return nil, err
		}
		if ch.host.Process.Ending().Closed { // steps that have not begun are not recorded, and wait again
			return nil, leavesChain()
		}
		for i, r := range todo.Ready {
			s := step(c, r.Step.ID)
			if s.Result = results[i]; s.Result != nil && s.Result.Status.Final() {
				s.State = haft.StepDone
			}
		}
		if err := ch.saveChain(context.WithoutCancel(ctx), owner, c); err != nil {
			return nil, err
		}
		if slices.Contains(results, nil) { // the store says later what became of those
			if err := pause.For(ctx, retryStep); err != nil {
				return nil, err
			}
		}
	}
}

// leaveChain leaves a chain to others, or to the next engine.
func (ch *Chains) leaveChain(ctx context.Context, owner string, c *haft.Chain) error {
	return errors.Join(leavesChain(), ch.store.Chains.ReleaseChain(ctx, owner, c.ID))
}

func leavesChain() error {
	return &haft.Error{Code: haft.CodeUnavailable, Err: ErrClosing,
		Message: "this server is shutting down: another one goes on with the chain"}
}

// endWithdrawn ends a chain whose credential is not good any more: its next steps would
// be calls that nobody is allowed to make.
func (ch *Chains) endWithdrawn(ctx context.Context, owner string, c *haft.Chain) (done bool, _ error) {
	why, err := ch.host.Caller.Withdrawn(ctx, c.Principal)
	if why == "" {
		return false, err
	}
	c.Status = haft.StatusCancelled
	c.Error = &haft.Failure{Kind: haft.FailDenied, Message: why, Retry: haft.RetryNever}
	return true, ch.saveChain(context.WithoutCancel(ctx), owner, c)
}

// step returns the state of a step.
func step(c *haft.Chain, id string) *haft.StepResult {
	for i := range c.Steps {
		if c.Steps[i].ID == id {
			return &c.Steps[i]
		}
	}
	return &haft.StepResult{} // a compiled plan has no other
}

// settle learns what became of steps that were running when the chain was last
// looked at. A call that was never recorded never ran, and its step waits again.
func (ch *Chains) settle(ctx context.Context, c *haft.Chain) error {
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.State != haft.StepRunning {
			continue
		}
		r, err := ch.store.Calls.Record(ctx, c.Principal.Org, s.Call)
		switch {
		case haft.CodeOf(err) == haft.CodeNotFound:
			ch.host.Caller.ForgetUnbegun(s.Call)
			*s = haft.StepResult{ID: s.ID, State: haft.StepWaiting}
		case err != nil:
			return err
		default:
			if s.Result = r.Result; r.Status.Final() {
				s.State = haft.StepDone
			} else {
				open := &haft.Result{Call: s.Call, Tool: r.Call.Tool, Status: r.Status, Value: json.RawMessage("null")}
				if r.Result != nil {
					open.Approval = r.Result.Approval
				}
				s.Result = open
			}
		}
	}
	return nil
}
