package cli

import (
	"context"
	"errors"
	"iter"

	"haft"
	"haft/internal/exit"
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

// SomeRequest refuses a command line without a request for approval.
func SomeRequest(args []string) error {
	if len(args) == 0 {
		return exit.Misuse(errors.New("name the request: see what waits with haft approvals"))
	}
	return nil
}

// ForEach does the same for each argument, and ends with the first failure after all of them.
func ForEach(do Work) Work {
	return func(ctx context.Context, s *Session, args []string) error {
		if len(args) > 1 && s.JSON {
			return exit.Misuse(errors.New("--json prints one document: answer one request at a time"))
		}
		var first error
		for _, arg := range args {
			err := do(ctx, s, []string{arg})
			if first == nil {
				first = err
			} else if err != nil {
				Report(s.Err, err)
			}
		}
		return first
	}
}
