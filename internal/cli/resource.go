package cli

import (
	"context"
	"iter"

	"haft"
)

// These functions make what the commands list, show and remove of a resource do, from the method
// of the system that has the resource and from the way it is printed.

// ListAll lists the objects of a method that takes no filter.
func ListAll[T any](list func(System, context.Context, haft.Principal) iter.Seq2[T, error], l Listing[T]) Work {
	return func(ctx context.Context, s *Session, _ []string) error {
		return PrintList(s.Profile, list(s.System, ctx, s.Who), l)
	}
}

// ListFiltered lists the objects of a method that takes a filter.
func ListFiltered[T, F any](list func(System, context.Context, haft.Principal, F) iter.Seq2[T, error], filter *F,
	l Listing[T]) Work {
	return func(ctx context.Context, s *Session, _ []string) error {
		return PrintList(s.Profile, list(s.System, ctx, s.Who, *filter), l)
	}
}

// ShowOne shows the object that the argument names.
func ShowOne[ID ~string, T any](get func(System, context.Context, haft.Principal, ID) (*T, error),
	text func(*Session, *T)) Work {
	return func(ctx context.Context, s *Session, args []string) error {
		v, err := get(s.System, ctx, s.Who, ID(args[0]))
		if err != nil {
			return err
		}
		return s.Print(v, func() { text(s, v) })
	}
}

// RemoveOne removes the object that the argument names, whatever its revision.
func RemoveOne[ID ~string](remove func(System, context.Context, haft.Principal, ID, string) error,
	before, after string) Work {
	return func(ctx context.Context, s *Session, args []string) error {
		if err := remove(s.System, ctx, s.Who, ID(args[0]), ""); err != nil {
			return err
		}
		return s.PrintLine(map[string]string{"removed": args[0]}, before+args[0]+after)
	}
}
