package main

import (
	"context"
	"iter"

	"haft"
)

// These functions make what the commands list, show and remove of a resource do, from the method
// of the system that has the resource and from the way it is printed.

// listAll lists the objects of a method that takes no filter.
func listAll[T any](list func(system, context.Context, haft.Principal) iter.Seq2[T, error], l listing[T]) work {
	return func(ctx context.Context, s *session, _ []string) error {
		return printList(s.profile, list(s.system, ctx, s.p), l)
	}
}

// listFiltered lists the objects of a method that takes a filter.
func listFiltered[T, F any](list func(system, context.Context, haft.Principal, F) iter.Seq2[T, error], filter *F,
	l listing[T]) work {
	return func(ctx context.Context, s *session, _ []string) error {
		return printList(s.profile, list(s.system, ctx, s.p, *filter), l)
	}
}

// showOne shows the object that the argument names.
func showOne[ID ~string, T any](get func(system, context.Context, haft.Principal, ID) (*T, error),
	text func(*session, *T)) work {
	return func(ctx context.Context, s *session, args []string) error {
		v, err := get(s.system, ctx, s.p, ID(args[0]))
		if err != nil {
			return err
		}
		return s.print(v, func() { text(s, v) })
	}
}

// removeOne removes the object that the argument names, whatever its revision.
func removeOne[ID ~string](remove func(system, context.Context, haft.Principal, ID, string) error,
	before, after string) work {
	return func(ctx context.Context, s *session, args []string) error {
		if err := remove(s.system, ctx, s.p, ID(args[0]), ""); err != nil {
			return err
		}
		return s.printLine(map[string]string{"removed": args[0]}, before+args[0]+after)
	}
}
