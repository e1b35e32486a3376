package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/limit"
	"haft/internal/store/stored"
)

// Limits returns the states that are kept of keys, in no order.
func (s Limits) Limits(ctx context.Context, keys []string) (all []limit.State, err error) {
	err = chunks(keys, func(part []string) error {
		byColumn := make(map[string]string, len(part))
		for _, key := range part {
			byColumn[column(key)] = key
		}
		q := build("SELECT name, tokens, used, at FROM limits WHERE name IN ")
		q.in(columns(part))
		found, err := list(ctx, s.db, "read limits", func(r scanner) (l limit.State, err error) {
			var at int64
			err = r.Scan(&l.Key, &l.Tokens, &l.Used, &at)
			l.Key, l.At = byColumn[l.Key], stored.Time(at)
			return l, err
		}, q.logged())
		all = append(all, found...)
		return err
	})
	return all, err
}

// PruneLimits forgets states from before a time, and returns how many. The time
// must be so long ago that a limit without a state is the same.
func (s Limits) PruneLimits(ctx context.Context, before time.Time) (int, error) {
	return s.db.prune(ctx, "DELETE FROM limits WHERE name IN (SELECT name FROM limits WHERE at < $1 LIMIT $2)",
		stored.Micros(before))
}

// Cached returns a value that was kept and has not expired.
func (s Cache) Cached(ctx context.Context, org, key string, now time.Time) (json.RawMessage, bool, error) {
	text, err := first(ctx, s.db, "read a cached value", scalar[string],
		unlogged("SELECT value FROM cached WHERE org = $1 AND name = $2 AND expires > $3"), column(org), column(key),
		stored.Micros(now))
	if err != nil || text == nil {
		return nil, false, err
	}
	return json.RawMessage(*text), true, nil
}

// PutCached keeps a value until it expires. One that is expired already is not
// kept.
func (s Cache) PutCached(ctx context.Context, org, key string, raw json.RawMessage, now, expires time.Time) error {
	switch {
	case len(raw) > MaxCached:
		return invalid("the value has %d bytes, %d is the most that is cached", len(raw), MaxCached)
	case !json.Valid(raw):
		return invalid("the value to cache is not JSON")
	case !utf8.Valid(raw):
		return invalid("the value to cache is not UTF-8")
	case !expires.After(now):
		return nil
	}
	_, err := s.db.exec(ctx, "cache a value", "INSERT INTO cached (org, name, value, expires) VALUES ($1, $2, $3, $4) "+
		"ON CONFLICT (org, name) DO UPDATE SET value = excluded.value, expires = excluded.expires",
		column(org), column(key), string(raw), stored.Micros(expires))
	return err
}

// PruneCached forgets values that have expired, and returns how many.
func (s Cache) PruneCached(ctx context.Context, now time.Time) (int, error) {
	return s.db.prune(ctx, "DELETE FROM cached WHERE (org, name) IN (SELECT org, name FROM cached WHERE expires <= $1 "+
		"ORDER BY expires LIMIT $2)", stored.Micros(now))
}

const chainByID unlogged = "SELECT doc FROM chains WHERE id = $1 AND org = $2"

// Chain returns a chain, or [haft.CodeNotFound].
func (s Chains) Chain(ctx context.Context, org string, id haft.ChainID) (*haft.Chain, error) {
	return find(ctx, s.db, "chain", doc[haft.Chain], chainByID, column(string(id)), column(org))
}

// OpenChains lists chains that are not final, oldest first.
func (s Chains) OpenChains(ctx context.Context, limit int) ([]haft.Chain, error) {
	return list(ctx, s.db, "list open chains", doc[haft.Chain],
		unlogged("SELECT doc FROM chains WHERE final = 0 ORDER BY created, id LIMIT $1"), page(limit))
}

// document reports that text which must stay as it is cannot be kept.
func document(what, text string) error {
	switch {
	case len(text) > MaxText:
		return invalid("%s has %d bytes, %d is the most", what, len(text), MaxText)
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return invalid("%s is not text", what)
	}
	return nil
}

// Setting returns a setting, or "" if there is none.
func (s Settings) Setting(ctx context.Context, key string) (string, error) {
	return value[string](ctx, s.db, "read a setting", unlogged("SELECT value FROM settings WHERE name = $1"),
		column(key))
}

// PutSetting keeps a setting.
func (s Settings) PutSetting(ctx context.Context, key, value string) error {
	if err := document("the setting", value); err != nil {
		return err
	}
	_, err := s.db.exec(ctx, "keep a setting", "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) "+
		"DO UPDATE SET value = excluded.value", column(key), value)
	return err
}
