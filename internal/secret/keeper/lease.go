package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"

	"haft/internal/secret"
)

// A Layer is a part of the environment of a call: the secrets of a scope, or
// values that are given. Later layers win.
type Layer struct {
	scope *Scope
	given []secret.Named
}

// Stored is the layer of what is stored in a scope.
func Stored(scope Scope) Layer { return Layer{scope: &scope} }

// Given is a layer of values that are not stored: those of a webhook, or of a
// call.
func Given(values []secret.Named) Layer { return Layer{given: values} }

// A Lease holds the values that one call may use. It does not change when they are
// replaced: a running call keeps what it was given.
type Lease struct {
	values map[string]secret.Value
	all    []secret.Named
}

// Lease returns the values of layers, low to high: organisation, webhook, agent,
// call. It fails if one of them cannot be read: a call never runs with a part of
// its environment.
func (k *Keeper) Lease(ctx context.Context, layers ...Layer) (*Lease, error) {
	l := &Lease{values: map[string]secret.Value{}}
	for _, layer := range layers {
		given := layer.given
		if layer.scope != nil {
			if err := layer.scope.check(); err != nil {
				return nil, err
			}
			rows, err := k.all(ctx, *layer.scope)
			if err != nil {
				return nil, err
			}
			given = make([]secret.Named, 0, len(rows))
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
				given = append(given, secret.Named{Name: r.Name, Value: v, Bound: b})
			}
		}
		for _, n := range given {
			if err := secret.CheckEnvName(n.Name); err != nil {
				return nil, err
			}
			l.values[n.Name] = n.Value
			l.all = append(l.all, n)
		}
	}
	return l, nil
}

// Names returns the names of the values, in order.
func (l *Lease) Names() []string { return slices.Sorted(maps.Keys(l.values)) }

// Value returns the value of a name, and whether there is one.
func (l *Lease) Value(name string) (secret.Value, bool) {
	v, ok := l.values[name]
	return v, ok
}

// Values returns every value with its name, also those that a later layer
// replaced: none of them may be seen.
func (l *Lease) Values() []secret.Named { return slices.Clone(l.all) }

// Redactor returns what removes the values of the lease, and what else cfg says.
func (l *Lease) Redactor(cfg secret.Config) *secret.Redactor {
	cfg.Values = slices.Concat(cfg.Values, l.all)
	return secret.NewRedactor(cfg)
}
