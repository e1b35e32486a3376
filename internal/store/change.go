package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Where the counter of changes is among the settings: that of all, and the value that
// it had when an organisation was last changed.
const (
	changeCounter = "permissions"
	changePrefix  = "permissions:"
)

// MarkChange counts a change of what somebody in an organisation may do, so that other
// processes that share the store find it; "" means all organisations. The counter's row
// is locked until the change is committed, so that a higher number is never seen before
// a lower one.
func (s Settings) MarkChange(ctx context.Context, org string) error {
	return s.db.write(ctx, "count a change of permissions", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, "INSERT INTO settings (name, value) VALUES ($1, '1') ON CONFLICT (name) DO UPDATE "+
			"SET value = CAST(CAST(settings.value AS BIGINT) + 1 AS TEXT)", changeCounter); err != nil {
			return err
		}
		_, err := t.exec(ctx, "INSERT INTO settings (name, value) SELECT $1, value FROM settings WHERE name = $2 ON "+
			"CONFLICT (name) DO UPDATE SET value = excluded.value", changePrefix+column(org), changeCounter)
		return err
	})
}

// Changes returns the counter of changes, and the organisations that were changed after
// it had the given value. If nothing was, that takes one read of one row.
func (s Settings) Changes(ctx context.Context, after int64) (now int64, orgs []string, err error) {
	text, err := s.Setting(ctx, changeCounter)
	if err != nil {
		return after, nil, err
	}
	if text != "" {
		if now, err = strconv.ParseInt(text, 10, 64); err != nil {
			return after, nil, fmt.Errorf("read the counter of changes: %w", err)
		}
	}
	if now == after {
		return now, nil, nil
	}
	marks, err := list(ctx, s.db, "list changes of permissions", scanPair[string, string],
		unlogged("SELECT name, value FROM settings WHERE substr(name, 1, $1) = $2"), len(changePrefix), changePrefix)
	if err != nil {
		return after, nil, err
	}
	for _, mark := range marks {
		if at, err := strconv.ParseInt(mark.b, 10, 64); err == nil && at <= after {
			continue
		}
		org := strings.TrimPrefix(mark.a, changePrefix)
		if !plain(org) {
			org = "" // its name is not kept as it is: it may be any
		}
		orgs = append(orgs, org)
	}
	return now, orgs, nil
}
