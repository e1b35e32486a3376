package registry

import (
	"context"
	"crypto/rand"
	"fmt"

	"haft"
)

// newID makes the id of a tool. It holds a character that no name has, so that
// nothing can be called like another tool's id.
func newID() haft.ToolID { return haft.ToolID("tool." + rand.Text()[:haft.RandomID]) }

// own returns the tool of that name or id that p's organisation may change.
func (r *Registry) own(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	t, err := r.Tool(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	if t.Org == "" {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "built-in tools cannot be changed"}
	}
	return t, nil
}

// Set changes the state of a tool outside of its versions, or answers a review as [Registry.Answer] does.
func (r *Registry) Set(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (*haft.Tool, error) {
	if s.Review != nil {
		t, _, err := r.Answer(ctx, p, ref, s)
		return t, err
	}
	if err := checkState(s); err != nil {
		return nil, err
	}
	defer r.writes.lock(p.Org)()
	t, err := r.own(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	defer r.cache.forget(p.Org, t.ID, t.Name)
	if s.Version != nil {
		v, err := r.store.Tools.Version(ctx, p.Org, t.ID, *s.Version)
		if err != nil {
			return nil, fmt.Errorf("read a version: %w", err)
		}
		if err := runnable(*v); err != nil {
			return nil, err
		}
	}
	set, err := r.store.Tools.SetTool(ctx, p.Org, t.ID, s.If, func(t *haft.Tool) error {
		if s.Disabled != nil {
			t.Disabled = *s.Disabled
		}
		if s.Category != nil {
			t.Category = *s.Category
		}
		if s.Tags != nil {
			t.Tags = once(*s.Tags)
		}
		if s.Metadata != nil {
			t.Metadata = *s.Metadata
		}
		if s.Version != nil {
			t.Version.Number = *s.Version
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("change the tool: %w", err)
	}
	return set, nil
}

// checkState checks a change of the state of a tool.
func checkState(s haft.ToolState) error {
	var c checker
	if s.Category != nil {
		c.label("/category", *s.Category, true)
	}
	if s.Tags != nil {
		c.tags("/tags", *s.Tags)
	}
	if s.Metadata != nil {
		c.metadata("/metadata", *s.Metadata)
	}
	if s.Review != nil && (s.Metadata != nil || s.Disabled != nil || s.Category != nil || s.Tags != nil) {
		c.fail("/review", "a review is answered by itself")
	}
	return c.err("the tool cannot be changed")
}

// Answer answers a review, of the version that s names or else of the newest one that waits. It also
// reports whether the person who accepted the version is the one who registered it.
func (r *Registry) Answer(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (_ *haft.Tool, self bool,
	err error) {
	if err := checkState(s); err != nil {
		return nil, false, err
	}
	defer r.writes.lock(p.Org)()
	t, err := r.own(ctx, p, ref)
	if err != nil {
		return nil, false, err
	}
	defer r.cache.forget(p.Org, t.ID, t.Name)
	return r.answer(ctx, p, t, s)
}

// answer accepts or refuses a version that waits. One that is accepted becomes
// current unless a newer one is. Precondition: writes is held.
func (r *Registry) answer(ctx context.Context, p haft.Principal, t *haft.Tool, s haft.ToolState) (_ *haft.Tool,
	self bool, err error) {
	v, err := r.waiting(ctx, t, s.Version)
	if err != nil {
		return nil, false, err
	}
	by := person(p)
	self = s.Review.Approve && (by == "" || by == v.Author || v.Author == "")
	if self && !r.cfg.SelfReview(ctx, p) {
		return nil, false, &haft.Error{Code: haft.CodeDenied,
			Message: "a version is not accepted by the one who registered it: somebody else has to, " +
				"unless the policy of the server names that person in solo"}
	}
	if len(s.Review.Reason) > MaxDescription {
		return nil, false, &haft.Error{Code: haft.CodeInvalid, Message: "the reason is too long"}
	}
	review := v.Review
	review.By, review.Reason, review.At, review.State = by, s.Review.Reason, now(), haft.ReviewRefused
	if s.Review.Approve {
		review.State = haft.ReviewPassed
	}
	set, err := r.store.Tools.SetReview(ctx, p.Org, t.ID, s.If, v.Number, review,
		s.Review.Approve && v.Number > t.Version.Number)
	if err != nil {
		return nil, false, fmt.Errorf("answer the review: %w", err)
	}
	return set, self, nil
}

// waiting returns the version of that number, or the newest that waits.
func (r *Registry) waiting(ctx context.Context, t *haft.Tool, number *int) (*haft.Version, error) {
	if number != nil {
		v, err := r.store.Tools.Version(ctx, t.Org, t.ID, *number)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read a version: %w", err)
		case v.Review.State != haft.ReviewWaiting:
			return nil, &haft.Error{Code: haft.CodeConflict, Message: "the version does not wait for review"}
		}
		return v, nil
	}
	for v, err := range r.versions(ctx, t) {
		if err != nil {
			return nil, err
		}
		if v.Review.State == haft.ReviewWaiting {
			return &v, nil
		}
	}
	return nil, &haft.Error{Code: haft.CodeConflict, Message: "no version of the tool waits for review"}
}

// Remove removes a tool with its versions, if it is of that revision; empty means
// any.
func (r *Registry) Remove(ctx context.Context, p haft.Principal, ref, revision string) error {
	defer r.writes.lock(p.Org)()
	t, err := r.own(ctx, p, ref)
	if err != nil {
		return err
	}
	defer r.cache.forget(p.Org, t.ID, t.Name)
	if err := r.store.Tools.RemoveTool(ctx, p.Org, t.ID, revision); err != nil {
		return fmt.Errorf("remove the tool: %w", err)
	}
	return nil
}
