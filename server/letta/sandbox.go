package letta

import (
	"context"
	"time"

	"haft"
)

// A Variable is one that is stored for all calls of an organisation. Its value is
// not among what can be known of it.
type Variable struct {
	Name             string
	Created, Updated time.Time
}

// Variables keeps those of organisations.
type Variables interface {
	Variables(ctx context.Context, p haft.Principal) ([]Variable, error)
	// PutVariable stores a value in the place of the one that is there.
	PutVariable(ctx context.Context, p haft.Principal, name, value string) error
	RemoveVariable(ctx context.Context, p haft.Principal, name string) error
}
