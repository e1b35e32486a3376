package keeper

import (
	"context"
	"errors"

	"haft/internal/secret"
)

// Values decrypts the secrets of a scope, by name. It fails if one of them cannot be read:
// a call never runs with a part of its environment.
func (k *Keeper) Values(ctx context.Context, scope Scope) ([]secret.Named, error) {
	if err := scope.check(); err != nil {
		return nil, err
	}
	rows, err := k.all(ctx, scope)
	if err != nil {
		return nil, err
	}
	values := make([]secret.Named, 0, len(rows))
	for _, r := range rows {
		v, err := k.read(ctx, r)
		for try := 0; errors.Is(err, errUnknownKey) && try < tries; try++ {
			// It was encrypted again after it was listed, and its key is gone.
			if r, err = k.back.Secret(ctx, r.Scope, r.Name); err == nil {
				v, err = k.read(ctx, r)
			}
		}
		if err != nil {
			return nil, err
		}
		b, err := r.binding()
		if err != nil {
			return nil, err
		}
		if err := secret.CheckEnvName(r.Name); err != nil {
			return nil, err
		}
		values = append(values, secret.Named{Name: r.Name, Value: v, Bound: b})
	}
	return values, nil
}
