package store

import (
	"cmp"
	"context"
	"time"

	"haft"
	"haft/internal/store/stored"
)

// PutTool adds a tool, or a version to the tool of that name, and returns the tool
// with that version: Number says which it became. created says that there was no
// such tool, and same that the version is the current one already, or one that
// waits for review: then none is added.
//
// The store gives the number, and the id if there is none. What is not part of a
// version is taken over unless the version has to wait; whether the tool is
// disabled is not.
func (s Tools) PutTool(ctx context.Context, t haft.Tool,
	opts PutOptions) (put haft.Tool, created, same bool, err error) {
	if t.Org == "" {
		return put, false, false, invalid("a tool belongs to an organisation")
	}
	if err := need("the name of the tool", t.Name); err != nil {
		return put, false, false, err
	}
	if t.ID == "" {
		t.ID = haft.ToolID(newID("tool_"))
	}
	if err := need("the id of the tool", string(t.ID)); err != nil {
		return put, false, false, err
	}
	err = s.db.write(ctx, "keep the tool", func(ctx context.Context, tx *tx) error {
		put, created, same = haft.Tool{}, false, false
		old, err := findTool(ctx, tx, t.Org, "t.name = $2", t.Name)
		if err != nil {
			return err
		}
		if err := allowed(old, opts); err != nil {
			return err
		}
		if old == nil {
			put, err = createTool(ctx, tx, t, opts)
			created = true
			return err
		}
		put, same, err = updateTool(ctx, tx, *old, t, opts)
		return err
	})
	if err != nil {
		return haft.Tool{}, false, false, err
	}
	return put, created, same, nil
}

// allowed reports why a tool may not be put over old.
func allowed(old *row, opts PutOptions) error {
	switch {
	case opts.New && old != nil:
		return conflict("there is a tool of that name already")
	case opts.IfDigest != "" && old == nil:
		return conflict("there is no tool of that name yet")
	case opts.IfDigest != "" && old.Version.Digest != opts.IfDigest && old.Revision() != opts.IfDigest:
		return conflict("the tool was changed by somebody else; look again first")
	}
	return nil
}

// createTool keeps the first version of a tool.
func createTool(ctx context.Context, t *tx, tool haft.Tool, opts PutOptions) (haft.Tool, error) {
	now := stamp(tool.Updated, time.Time{})
	if tool.Created.IsZero() {
		tool.Created = now
	}
	tool.Created, tool.Updated, tool.Version.Number = tool.Created.UTC().Truncate(time.Microsecond), now, 1
	kept := row{Tool: tool, newest: 1}
	if !opts.Activate {
		kept.Version = haft.Version{}
	}
	if err := addVersion(ctx, t, tool.ID, tool.Version); err != nil {
		return haft.Tool{}, err
	}
	return tool, keepTool(ctx, t, &kept, tool.Version)
}

// updateTool adds a version to old, if it is a new one.
func updateTool(ctx context.Context, t *tx, old row, tool haft.Tool, opts PutOptions) (haft.Tool, bool, error) {
	put := old.Tool
	newest := old.Version
	if old.newest != old.Version.Number {
		var err error
		if newest, err = versionOf(ctx, t, old.ID, old.newest); err != nil {
			return haft.Tool{}, false, err
		}
	}
	digest := tool.Version.Digest
	same := old.Version.Number != 0 && old.Version.Digest == digest
	if !same && !opts.Activate && newest.Digest == digest && newest.Review.State == haft.ReviewWaiting {
		put.Version = newest
		return put, true, nil
	}
	changed := !stored.Equal(labels{old.Category, old.Tags, nil}, labels{tool.Category, tool.Tags, nil})
	if same && !changed {
		return put, true, nil
	}
	if same || opts.Activate {
		put.Category, put.Tags = tool.Category, tool.Tags
	}
	put.Updated = stamp(tool.Updated, old.Updated)
	kept := row{Tool: put, newest: old.newest}
	if !same {
		kept.newest++
		put.Version = tool.Version
		put.Version.Number = kept.newest
		if err := addVersion(ctx, t, old.ID, put.Version); err != nil {
			return haft.Tool{}, false, err
		}
	}
	shown := put.Version
	if opts.Activate {
		kept.Version = put.Version
	} else if old.Version.Number != 0 {
		shown = old.Version
	}
	return put, same, keepTool(ctx, t, &kept, shown)
}

// SetTool lets change edit a tool with its current version, and keeps category,
// tags, whether it is disabled, the number of the current version and, if change
// touched it, the review of the version with that number. It returns what is kept,
// or [haft.CodeNotFound], or [haft.CodeConflict] if the revision of the tool is not
// the one of the condition.
//
// change must not use the store, and may be called more than once.
func (s Tools) SetTool(ctx context.Context, org string, id haft.ToolID, condition string,
	change func(*haft.Tool) error) (*haft.Tool, error) {
	return s.changeTool(ctx, "change the tool", org, id, condition, func(ctx context.Context, t *tx, next *row) error {
		old := *next
		if err := change(&next.Tool); err != nil {
			return err
		}
		review := next.Version.Review
		next.ID, next.Org, next.Name, next.Created = old.ID, old.Org, old.Name, old.Created
		if stored.Equal(review, old.Version.Review) {
			return nil
		}
		return setReview(ctx, t, id, next.Version.Number, review)
	})
}

// SetReview keeps what was said to a version, and makes it current if activate is
// true, on the same condition as [Tools.SetTool]. It returns the tool with its
// current version.
func (s Tools) SetReview(ctx context.Context, org string, id haft.ToolID, condition string, number int, r haft.Review,
	activate bool) (*haft.Tool, error) {
	return s.changeTool(ctx, "keep the review", org, id, condition, func(ctx context.Context, t *tx, next *row) error {
		if activate {
			next.Version.Number = number
		}
		return setReview(ctx, t, id, number, r)
	})
}

// changeTool lets change edit the row of a tool, keeps it, and returns the tool with its
// current version.
func (s Tools) changeTool(ctx context.Context, doing, org string, id haft.ToolID, condition string,
	change func(context.Context, *tx, *row) error) (*haft.Tool, error) {
	var kept *row
	err := s.db.write(ctx, doing, func(ctx context.Context, t *tx) error {
		next, err := lockTool(ctx, t, org, id, condition)
		if err != nil {
			return err
		}
		before := next.Updated
		if err := change(ctx, t, next); err != nil {
			return err
		}
		next.Updated = stamp(time.Time{}, before)
		shown, err := versionOf(ctx, t, id, cmp.Or(next.Version.Number, next.newest))
		if err != nil {
			return err
		}
		if next.Version.Number != 0 {
			next.Version = shown
		} else {
			next.Version = haft.Version{}
		}
		kept = next
		return keepTool(ctx, t, next, shown)
	})
	if err != nil {
		return nil, err
	}
	return &kept.Tool, nil
}
