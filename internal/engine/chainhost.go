package engine

import (
	"context"
	"errors"

	"haft"
	"haft/internal/chains"
	"haft/internal/secret"
)

// chainHost is what chains know of the engine.
type chainHost struct{ e *Engine }

// host returns it as chains take it.
func (h chainHost) host() chains.Host { return chains.Host{Caller: h, Process: h, Secrets: h} }

// Batch implements [chains.Caller].
func (h chainHost) Batch(ctx context.Context, calls []haft.Call) ([]*haft.Result, error) {
	return h.e.entrance.Batch(ctx, calls)
}

// Canonical implements [chains.Caller].
func (h chainHost) Canonical(ctx context.Context, p haft.Principal) haft.Principal {
	return h.e.authorizer.canonical(ctx, p)
}

// Withdrawn implements [chains.Caller].
func (h chainHost) Withdrawn(ctx context.Context, p haft.Principal) (why string, err error) {
	_, _, err = h.e.authorizer.principalNow(ctx, p)
	if w, ok := errors.AsType[*withdrawal](err); ok {
		return w.Error(), nil
	}
	return "", err
}

// ForgetUnbegun implements [chains.Caller].
func (h chainHost) ForgetUnbegun(id haft.CallID) { h.e.dispatcher.ForgetUnbegun(id) }

// ForgetChain implements [chains.Caller].
func (h chainHost) ForgetChain(id haft.ChainID) { h.e.dispatcher.ForgetChain(id) }

// Owner implements [chains.Process].
func (h chainHost) Owner() string { return h.e.members.Owner() }

// During implements [chains.Process].
func (h chainHost) During(ctx context.Context) (within context.Context, owner string, done func()) {
	return h.e.members.During(ctx)
}

// Go implements [chains.Process].
func (h chainHost) Go(work func(context.Context)) bool {
	return h.e.calls.Go(func(ctx context.Context) {
		if h.e.calls.awaitStart(ctx) {
			work(ctx)
		}
	})
}

// Ending implements [chains.Process].
func (h chainHost) Ending() chains.Ending {
	note := h.e.operator.stopped.Load()
	return chains.Ending{Leaving: note != nil && note.leaving, HandedOver: h.e.calls.handedOver.Load(),
		Closed: h.e.calls.isClosed()}
}

// Elsewhere implements [chains.Process].
func (h chainHost) Elsewhere(ctx context.Context, err error) bool {
	return h.e.recorder.overtaken(ctx, err)
}

// NoteSealed implements [chains.Process].
func (h chainHost) NoteSealed() { h.e.recovery.noteSealed() }

// CheckSteps implements [chains.Secrets].
func (h chainHost) CheckSteps(ctx context.Context, p haft.Principal, plan haft.Plan) error {
	return h.e.redaction.checkSteps(ctx, p, plan)
}

// CoverOf implements [chains.Secrets].
func (h chainHost) CoverOf(ctx context.Context, p haft.Principal) (*secret.Redactor, error) {
	return h.e.redaction.coverOf(ctx, p)
}
