package engine

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/callenv"
	"haft/internal/filestore"
	"haft/internal/pause"
	"haft/internal/store"
	"haft/internal/workspace"
)

// claim takes the idempotency key for an execution. It returns the call that has it:
// this one, or an earlier one with the same tool and arguments. The key belongs to
// the owner of the call and to its agent: nobody else's call is ever found by it.
// What the earlier call gave is told to who may make the call now, and to nobody
// else: f.refused says why not, and then f itself goes on, to be refused like any.
func (en *entrance) claim(ctx context.Context, ex *execution) (haft.CallID, error) {
	p, c := ex.call.Principal, ex.call
	if p.Owner() == "" {
		return "", &haft.Error{Code: haft.CodeInvalid,
			Message: "an idempotency key belongs to somebody: the call has neither a user nor a credential"}
	}
	digest := en.digests.Binds(c.Tool+"\x00"+c.Digest+filestore.Digest(c.Files)+workspace.Digest(c.Workspace)+
		callenv.Place(c), c.Args)
	for began := time.Now(); ; {
		winner, same, err := en.store.Calls.Claim(ctx, p.Org, p.Owner(), p.Agent, c.IdempotencyKey, digest, c.ID,
			time.Now())
		if err != nil {
			return "", err
		}
		key := &store.Key{Org: p.Org, Scope: p.Owner(), Agent: p.Agent, Name: c.IdempotencyKey, Call: winner}
		if winner == c.ID {
			ex.claimed = key
			return winner, nil
		}
		if ex.refused = en.repeatable(ctx, ex, winner); ex.refused != nil {
			return c.ID, nil
		}
		if !same {
			return "", &haft.Error{Code: haft.CodeConflict, Message: "the idempotency key was used for another call"}
		}
		if en.calls.executionOf(winner) == nil {
			_, err = en.store.Calls.Record(ctx, p.Org, winner)
		}
		if err == nil || haft.CodeOf(err) != haft.CodeNotFound {
			en.journal.Forget(c.ID)
			return winner, err
		}
		// It may just be about to be recorded, here or by another process. If it takes too
		// long the key is taken from it, and then it cannot begin.
		if time.Since(began) < claimWait {
			err = pause.For(ctx, claimWait/100)
		} else {
			err = en.store.Calls.ReleaseUnkept(ctx, *key)
		}
		if err != nil {
			return "", err
		}
	}
}

// claimWait is how long a call has that claimed an idempotency key until it is recorded,
// if another one wants the key.
const claimWait = 2 * time.Second

// keysHeld are the keys that the call must still have when it is recorded first.
func (ex *execution) keysHeld() []store.Key {
	if ex.claimed == nil || ex.accepted {
		return nil
	}
	return []store.Key{*ex.claimed}
}

// chosen is the id of the call if somebody chose it, and nothing was written of the call yet.
func (ex *execution) chosen() []haft.CallID {
	if ex.ours || ex.begun {
		return nil
	}
	return []haft.CallID{ex.call.ID}
}

// repeatable takes a call that was made before through the stages that decide who
// may make it, and returns why it may not be made now.
func (en *entrance) repeatable(ctx context.Context, ex *execution, first haft.CallID) error {
	probe := *ex
	probe.call.ID = first // so that the agent's tool rules do not count it as another one
	defer func() {
		ex.env.LearnSecrets(probe.env)
		probe.release()
	}()
	for _, s := range en.pipeline.deciding() {
		if err := s.run(ctx, &probe); err != nil {
			ex.tool, ex.rules, ex.decision = probe.tool, probe.rules, probe.decision
			return err
		}
	}
	return nil
}

// sameKey reports whether two calls have one idempotency key.
func sameKey(a, b haft.Call) bool {
	p, q := a.Principal, b.Principal
	return a.IdempotencyKey == b.IdempotencyKey && p.Org == q.Org && p.Owner() == q.Owner() && p.Agent == q.Agent
}

// unclaim gives the key of an execution back.
func (en *entrance) unclaim(ctx context.Context, ex *execution) {
	if ex.call.IdempotencyKey == "" {
		return
	}
	p := ex.call.Principal
	if err := en.store.Calls.Release(ctx, p.Org, p.Owner(), p.Agent, ex.call.IdempotencyKey, ex.call.ID); err != nil {
		en.redaction.logOf(ex).Warn("an idempotency key cannot be given back", "call", ex.call.ID, "error", err)
	}
}

// executionOf returns the execution of a call in this process, or nil.
func (t *callTable) executionOf(id haft.CallID) *execution {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.executions[id]
}

// await waits for the end of another call, or until it waits for a person. The
// caller has found out that p may have its result.
func (en *entrance) await(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if ex := en.calls.executionOf(id); ex != nil && ex.asked.Principal.Org == p.Org {
			select {
			case <-ex.done:
				if ex.result != nil {
					res := *ex.result
					return &res, nil
				}
				if !en.recorder.overtaken(ctx, ex.err) && !errors.Is(ex.err, errPostponed) {
					return nil, ex.err
				}
				// Its record says what becomes of it.
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		r, err := en.store.Calls.Record(ctx, p.Org, id)
		if err != nil {
			return nil, err
		}
		if r.Result != nil && (r.Status.Final() || r.Status == haft.StatusPending) {
			return r.Result, nil
		}
		if err := pause.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}
