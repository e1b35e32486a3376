package engine

import (
	"context"

	"haft"
	"haft/internal/egress/route"
	"haft/policy"
)

// Stages returns the names of the stages, in order.
func Stages() []string {
	var names []string
	for _, s := range stages(nil, nil, nil) {
		names = append(names, s.name)
	}
	return names
}

// CallWith is Call with something that happens after the call has come in and before
// it is on its way.
func (e *Engine) CallWith(ctx context.Context, c haft.Call, meanwhile func()) (*haft.Result, error) {
	ex, _, err := e.entrance.arrive(ctx, c)
	if err != nil {
		return nil, err
	}
	meanwhile()
	return e.pipeline.runCall(ctx, ex)
}

// FreshCalls counts the calls that are remembered to have no events yet.
func (e *Engine) FreshCalls() int {
	return e.recorder.journal.Fresh()
}

// JudgedBy returns which rules a judge follows that was given two, each with the number
// of changes before they were read.
func JudgedBy(first, second int64) (rule string) {
	var j route.Judge
	j.Follow([]policy.Network{{Rule: "first"}}, first)
	j.Follow([]policy.Network{{Rule: "second"}}, second)
	return j.Forbids("a.example", 443)
}

// PostponedCalls counts the calls that could not be taken further and wait in the store.
func (e *Engine) PostponedCalls() int {
	return e.dispatcher.Waiting()
}
