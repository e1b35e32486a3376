package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"haft"
	"haft/internal/model"
)

// ObserveTurn begins a span of what a turn of an agent does: invoke_agent for the turn, or chat for one request to its
// model. Calls that are made within the context are spans below it. The function that it returns ends the span. No text
// of the conversation is in it.
func (t *Telemetry) ObserveTurn(ctx context.Context, operation string, turn haft.Turn) (context.Context,
	func(model.Usage, string, error)) {
	name, kind := operation, trace.SpanKindInternal
	if operation == "chat" {
		name, kind = "chat "+turn.Model, trace.SpanKindClient
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.agent.id", string(turn.Agent)),
		attribute.String("gen_ai.conversation.id", string(turn.Agent)),
		attribute.String("gen_ai.request.model", turn.Model),
		attribute.String("haft.turn", string(turn.ID)), attribute.String("haft.org", turn.Principal.Org)))
	return ctx, func(used model.Usage, stop string, err error) {
		defer span.End()
		if used != (model.Usage{}) {
			span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", used.Input),
				attribute.Int("gen_ai.usage.output_tokens", used.Output),
				attribute.Int("gen_ai.usage.cache_read.input_tokens", used.Cached))
		}
		if stop != "" {
			span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{stop}))
		}
		if err != nil {
			span.SetAttributes(attribute.String("error.type", string(haft.CodeOf(err))))
			span.SetStatus(codes.Error, string(haft.CodeOf(err)))
		}
	}
}
