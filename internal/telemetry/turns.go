package telemetry

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"haft"
	"haft/internal/model"
)

// turnUsage is what the requests to models below a span of invoke_agent took. The context has it.
type turnUsage struct {
	mu       sync.Mutex
	used     model.Usage
	provider string // of the last one
}

// turnUsageKey is the key of a [*turnUsage] in a context.
type turnUsageKey struct{}

// add adds what a request took, and returns the sum, and the provider of the last request.
func (u *turnUsage) add(used model.Usage, provider string) (model.Usage, string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.provider = cmp.Or(provider, u.provider)
	u.used = model.Usage{Input: u.used.Input + used.Input, Output: u.used.Output + used.Output,
		Cached: u.used.Cached + used.Cached}
	return u.used, u.provider
}

// ObserveTurn begins a span of what a turn of an agent does: invoke_agent for the turn, or chat for one request to its
// model. Calls that are made within the context are spans below it. The function that it returns ends the span. A turn
// has the sum of the tokens of its requests, and the reason of its end as its error if that is one. No text of the
// conversation is in a span.
func (t *Telemetry) ObserveTurn(ctx context.Context, operation, provider string, turn haft.Turn) (context.Context,
	func(model.Usage, string, error)) {
	name, kind := operation, trace.SpanKindInternal
	if operation == "chat" {
		name, kind = "chat "+turn.Model, trace.SpanKindClient
	}
	sum, ok := ctx.Value(turnUsageKey{}).(*turnUsage)
	if operation != "chat" || !ok {
		sum = &turnUsage{}
		ctx = context.WithValue(ctx, turnUsageKey{}, sum)
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.agent.id", string(turn.Agent)),
		attribute.String("gen_ai.conversation.id", t.conversationID(turn)),
		attribute.String("gen_ai.request.model", turn.Model),
		attribute.String("haft.turn", string(turn.ID)), attribute.String("haft.org", turn.Principal.Org)))
	return ctx, func(used model.Usage, stop string, err error) {
		defer span.End()
		if operation == "chat" {
			sum.add(used, provider)
		} else if used == (model.Usage{}) {
			used, provider = sum.add(used, provider)
		}
		if provider != "" {
			span.SetAttributes(attribute.String("gen_ai.provider.name", provider))
		}
		if used != (model.Usage{}) {
			span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", used.Input),
				attribute.Int("gen_ai.usage.output_tokens", used.Output),
				attribute.Int("gen_ai.usage.cache_read.input_tokens", used.Cached))
		}
		if stop != "" {
			span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{stop}))
		}
		if kind := errorType(ctx, stop, err); kind != "" {
			span.SetAttributes(attribute.String("error.type", kind))
			span.SetStatus(codes.Error, kind)
		}
	}
}

// SetKey sets the key with which conversations are named in spans. Until then it is one of this process alone.
func (t *Telemetry) SetKey(key []byte) { t.key.Store(&key) }

// conversationID is that of the conversation of one sender with an agent. It does not say who the sender is: without
// the key nobody can try names.
func (t *Telemetry) conversationID(turn haft.Turn) string {
	mac := hmac.New(sha256.New, *t.key.Load())
	_, _ = mac.Write([]byte("conversation\x00" + turn.Principal.Org + "\x00" + turn.Principal.Owner())) // never fails
	return string(turn.Agent) + "-" + hex.EncodeToString(mac.Sum(nil)[:8])
}

// errorType is why a span failed, from closed lists; empty if it did not.
func errorType(ctx context.Context, stop string, err error) string {
	f, ok := errors.AsType[*model.Fault](err)
	switch {
	case ok:
		return string(f.Kind)
	case err != nil && ctx.Err() != nil:
		return string(haft.StopCancelled)
	case err != nil:
		return string(haft.CodeOf(err))
	}
	switch haft.StopReason(stop) {
	case haft.StopModel, haft.StopLoop, haft.StopInternal:
		return stop
	}
	return ""
}
