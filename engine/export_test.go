package engine

import (
	"context"

	"haft"
)

// Stages returns the names of the stages, in order.
func Stages() []string {
	var names []string
	for _, s := range stages() {
		names = append(names, s.name)
	}
	return names
}

// CallWith is Call with something that happens after the call has come in and before
// it is on its way.
func (e *Engine) CallWith(ctx context.Context, c haft.Call, meanwhile func()) (*haft.Result, error) {
	f, _, err := e.arrive(ctx, c)
	if err != nil {
		return nil, err
	}
	meanwhile()
	return e.fly(ctx, f)
}
