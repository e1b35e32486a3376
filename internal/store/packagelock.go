package store

import (
	"context"
	"time"
	"unicode/utf8"

	"haft/internal/store/stored"
)

// MaxLockBody is how large the text of a lock may be.
const MaxLockBody = 16 << 20

// PackageLock returns a text about locked packages that an organisation keeps, or
// [haft.CodeNotFound].
func (s Tools) PackageLock(ctx context.Context, org, id string) (string, error) {
	body, err := find(ctx, s.db, "lock of packages", scalar[string],
		unlogged("SELECT body FROM locks WHERE org = $1 AND id = $2"), column(org), column(id))
	if err != nil {
		return "", err
	}
	return *body, nil
}

// PutPackageLock keeps a text about locked packages. If there is one of that id it
// stays, unless replace is true. It returns what is kept, so that of several who
// found something all go on with the same.
func (s Tools) PutPackageLock(ctx context.Context, org, id, body string, replace bool, now time.Time) (string, error) {
	switch {
	case org == "":
		return "", invalid("a lock of packages belongs to an organisation")
	case len(body) > MaxLockBody:
		return "", invalid("the lock of packages has %d bytes, %d is the most", len(body), MaxLockBody)
	case !utf8.ValidString(body):
		return "", invalid("the lock of packages is not UTF-8")
	}
	if err := need("the id of the lock", id); err != nil {
		return "", err
	}
	clash := "NOTHING"
	if replace {
		clash = "UPDATE SET body = excluded.body, created = excluded.created"
	}
	if _, err := s.db.exec(ctx, "keep a lock of packages", "INSERT INTO locks (org, id, created, body) VALUES "+
		"($1, $2, $3, $4) ON CONFLICT (org, id) DO "+clash, column(org), column(id),
		stored.Micros(now), body); err != nil {
		return "", err
	}
	return s.PackageLock(ctx, org, id)
}
