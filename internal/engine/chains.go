package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/chain"
	"haft/internal/store"
)

// chains run plans.
type chains struct {
	cfg        *Config
	store      *store.Store
	authority  authority.Rules
	authorizer *authorizer
	calls      *callTable
	dispatcher *dispatcher
	entrance   *entrance
	members    *membership
	operator   *operator
	recorder   *recorder
	recovery   *recovery
	redaction  *redaction

	chainLocks *locks // by chain
	chainWork  *chainWork
}

// Run implements [haft.Planner].
func (ch *chains) Run(ctx context.Context, p haft.Principal, plan haft.Plan) (*haft.Chain, error) {
	if err := ch.authority.May(p, haft.CallsWrite); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // nobody waits for it, and nothing has begun
	}
	program, err := chain.Compile(plan)
	if err != nil {
		return nil, err
	}
	p = ch.authorizer.canonical(ctx, p)
	if err := ch.redaction.checkSteps(ctx, p, plan); err != nil {
		return nil, err
	}
	if plan.Background {
		if err := ch.chainWork.room(p.Org); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	c := &haft.Chain{
		ID: haft.ChainID(newID("ch_")), Principal: p, Turn: newID("turn_"), Plan: plan, Steps: program.Steps(),
		Status: haft.StatusRunning, Created: now, Updated: now,
	}
	if err := ch.saveChain(ctx, ch.members.owner(), c); err != nil {
		if _, lost := ch.store.Chain(context.WithoutCancel(ctx), p.Org, c.ID); lost != nil {
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
	ch.chainWork.push(chainRef{p.Org, c.ID})
	shown, err := ch.shownChain(ctx, *c)
	return &shown, err
}

// Chain implements [haft.Planner].
func (ch *chains) Chain(ctx context.Context, p haft.Principal, id haft.ChainID) (*haft.Chain, error) {
	if err := ch.authority.May(p, haft.CallsRead); err != nil {
		return nil, err
	}
	c, err := ch.openChain(ctx, p.Org, id)
	if err != nil && !errors.Is(err, errSealed) {
		return nil, err
	}
	if err := ch.authority.Authorize(p, haft.CallsRead, authority.Owned("chain", c.Principal)); err != nil {
		return nil, err
	}
	shown, err := ch.shownChain(ctx, *c)
	return &shown, err
}

// saveChain writes down where a chain of owner stands.
func (ch *chains) saveChain(ctx context.Context, owner string, c *haft.Chain) error {
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
func (ch *chains) advance(ctx context.Context, org string, id haft.ChainID) (*haft.Chain, error) {
	unlock, err := ch.chainLocks.take(ctx, org+"\x00"+string(id))
	if err != nil {
		return nil, err
	}
	defer unlock()
	// What is found out during this term is written as of this term: if the process is given
	// up meanwhile, its steps are with others.
	ctx, owner, done := ch.members.during(ctx)
	defer done()
	c, err := ch.openChain(ctx, org, id)
	if errors.Is(err, errSealed) {
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
			ch.dispatcher.forgetChain(id)
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
			ch.dispatcher.forgetChain(id)
			return c, ch.saveChain(context.WithoutCancel(ctx), owner, c)
		}
		if note := ch.operator.stopped.Load(); note != nil && note.leaving || c.Plan.Background &&
			ch.calls.handedOver.Load() {
			return nil, ch.leaveChain(ctx, owner, c)
		}
		calls := make([]haft.Call, len(todo.Ready))
		for i, r := range todo.Ready {
			calls[i] = haft.Call{ID: NewCallID(), Tool: r.Step.Tool, Args: r.Args, Principal: c.Principal, Turn: c.Turn,
				Chain: c.ID}
			*step(c, r.Step.ID) = haft.StepResult{ID: r.Step.ID, State: haft.StepRunning, Call: calls[i].ID}
		}
		if err := ch.saveChain(ctx, owner, c); err != nil {
			return nil, err
		}
		results, err := ch.entrance.Batch(ctx, calls)
		if err != nil {
			return nil, err
		}
		if ch.calls.isClosed() { // steps that have not begun are not recorded, and wait again
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
			if err := Pause(ctx, postponeMost/10); err != nil {
				return nil, err
			}
		}
	}
}

// leaveChain leaves a chain to others, or to the next engine.
func (ch *chains) leaveChain(ctx context.Context, owner string, c *haft.Chain) error {
	return errors.Join(leavesChain(), ch.store.ReleaseChain(ctx, owner, c.ID))
}

func leavesChain() error {
	return &haft.Error{Code: haft.CodeUnavailable, Err: errClosing,
		Message: "this server is shutting down: another one goes on with the chain"}
}

// endWithdrawn ends a chain whose credential is not good any more: its next steps would
// be calls that nobody is allowed to make.
func (ch *chains) endWithdrawn(ctx context.Context, owner string, c *haft.Chain) (done bool, err error) {
	_, _, err = ch.authorizer.principalNow(ctx, c.Principal)
	w, ok := errors.AsType[*withdrawal](err)
	if !ok {
		return false, err
	}
	c.Status = haft.StatusCancelled
	c.Error = &haft.Failure{Kind: haft.FailDenied, Message: w.Error(), Retry: haft.RetryNever}
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
func (ch *chains) settle(ctx context.Context, c *haft.Chain) error {
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.State != haft.StepRunning {
			continue
		}
		r, err := ch.store.Record(ctx, c.Principal.Org, s.Call)
		switch {
		case haft.CodeOf(err) == haft.CodeNotFound:
			ch.dispatcher.forgetUnbegun(s.Call)
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
