package followup

import (
	"context"
	"sync/atomic"
)

// MaxCalls is how many calls are made after one call has failed, together with those after their failures.
const MaxCalls = 4

// budgetKey is that of the budget in a context.
type budgetKey struct{}

// WithBudget gives ctx a budget of [MaxCalls] calls, unless the call is itself one that counts against a budget.
func WithBudget(ctx context.Context) context.Context {
	if _, ok := ctx.Value(budgetKey{}).(*atomic.Int32); ok {
		return ctx
	}
	return context.WithValue(ctx, budgetKey{}, new(atomic.Int32))
}

// Spend counts a call, and reports whether it may be made.
func Spend(ctx context.Context) bool {
	spent, ok := ctx.Value(budgetKey{}).(*atomic.Int32)
	return ok && spent.Add(1) <= MaxCalls
}
