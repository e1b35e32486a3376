package backend

import (
	"context"
	"iter"

	"haft"
)

// SessionsOf returns the sessions of a system.
func SessionsOf(s System) haft.Sessions {
	if r, ok := s.(*Remote); ok {
		return r.Client.Sessions
	}
	return s.(*Local).API.Sessions
}

// EachSession returns the sessions of a system.
func EachSession(s System, ctx context.Context, p haft.Principal) iter.Seq2[haft.Session, error] {
	return func(yield func(haft.Session, error) bool) {
		list, err := SessionsOf(s).Sessions(ctx, p)
		if err != nil {
			yield(haft.Session{}, err)
			return
		}
		for _, x := range list {
			if !yield(x, nil) {
				return
			}
		}
	}
}
