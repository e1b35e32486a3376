// Package filestore keeps files in tables of the store's database, so that every server of a
// cluster has them, and backups and migrations include them.
//
// A file is a row of files. Its content is in rows of file_parts, which files of one
// organisation with the same digest share: nobody can find out by timing whether another
// organisation has some content. The row of file_quotas counts what an organisation has. Every
// transaction that adds, completes or removes a file changes that row first, which also makes
// these transactions of one organisation run one after the other.
package filestore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"hash"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"haft"
	"haft/internal/store"
)

// partSize is how many bytes a row of file_parts has at most.
const partSize = 1 << 20

// minPart is how many bytes a part has at least, if it is neither the first nor the last: each part is a
// row, and the quota counts bytes.
const minPart = 64 << 10

// uploadTTL is how long a file is kept of which not everything has arrived.
const uploadTTL = time.Hour

// maxName is how many bytes the name of a file has at most.
const maxName = 255

// Config has the bounds of the store. Zero fields have the defaults.
type Config struct {
	// MaxFile bounds one file; 0 means 256 MiB.
	MaxFile int64
	// Quota bounds the files of an organisation together; 0 means 4 GiB. Count bounds their
	// number; 0 means 100,000.
	Quota, Count int64
	// TTL is how long a file is kept at most; 0 means 7 days.
	TTL time.Duration
}

// A Store keeps files. It is safe for concurrent use.
type Store struct {
	db  store.Tables
	cfg Config
	now func() time.Time
	// loaded has a place for each call that has files in memory, see [Store.Load].
	loaded chan struct{}
}

// New returns a store of files in a database.
func New(db *store.Store, cfg Config) *Store {
	set := func(v *int64, value int64) {
		if *v <= 0 {
			*v = value
		}
	}
	set(&cfg.MaxFile, 256<<20)
	set(&cfg.Quota, 4<<30)
	set(&cfg.Count, 100_000)
	set((*int64)(&cfg.TTL), int64(7*24*time.Hour))
	return &Store{db: store.TablesOf(db), cfg: cfg, now: time.Now, loaded: make(chan struct{}, maxLoaded)}
}

// columns are those that scan reads.
const columns = "id, org, usr, agent, call, name, type, size, have, digest, created, expires"

// scan reads a row of files.
func scan(r store.Scanner) (f haft.File, err error) {
	var created, expires int64
	err = r.Scan(&f.ID, &f.Owner.Org, &f.Owner.User, &f.Owner.Agent, &f.Call, &f.Name, &f.ContentType, &f.Size,
		&f.Uploaded, &f.SHA256, &created, &expires)
	f.Created, f.Expires = time.UnixMicro(created).UTC(), time.UnixMicro(expires).UTC()
	return f, err
}

// Add adds a file with the first part of its content. The call is the one that left it, or
// empty.
func (s *Store) Add(ctx context.Context, owner haft.Principal, n haft.NewFile, call haft.CallID,
	first []byte) (*haft.File, error) {
	if err := s.check(n, first); err != nil {
		return nil, err
	}
	now := s.now().UTC().Truncate(time.Microsecond)
	f := haft.File{ID: newID(now), Name: n.Name, ContentType: n.ContentType,
		Size: n.Size, Call: call, Created: now, Expires: now.Add(min(uploadTTL, s.cfg.TTL)),
		Owner: haft.Principal{Org: owner.Org, User: owner.Owner(), Agent: owner.Agent}}
	ttl := s.cfg.TTL
	if n.TTL > 0 {
		ttl = min(ttl, n.TTL.D())
	}
	if f.ContentType == "" {
		f.ContentType = ContentType(f.Name, first)
	}
	err := s.db.Write(ctx, "add a file", func(ctx context.Context, t store.Tx) error {
		if err := s.reserve(ctx, t, f.Owner.Org, f.Size); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, "INSERT INTO files (id, org, usr, agent, call, name, type, size, have, digest, "+
			"content, hash, ttl, created, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, '', $9, NULL, $10, "+
			"$11, $12)",
			string(f.ID), f.Owner.Org, f.Owner.User, f.Owner.Agent, string(f.Call), f.Name, f.ContentType, f.Size,
			string(f.ID), ttl.Microseconds(), f.Created.UnixMicro(), f.Expires.UnixMicro()); err != nil {
			return err
		}
		return s.append(ctx, t, &f, 0, first)
	})
	if err != nil {
		return nil, err
	}
	return &f, nil
}

// newID returns an id that is greater than those of earlier times, and that nobody can guess.
func newID(now time.Time) haft.FileID {
	return haft.FileID(fmt.Sprintf("file_%013x%s", now.UnixMicro(), strings.ToLower(rand.Text())))
}

// check reports what is wrong with a new file.
func (s *Store) check(n haft.NewFile, first []byte) error {
	switch {
	case !validName(n.Name):
		return invalid("/name", fmt.Sprintf("expected a file name of 1 to %d bytes without a slash or a control "+
			"character", maxName))
	case n.Size < 0 || n.Size > s.cfg.MaxFile:
		return invalid("/size", fmt.Sprintf("expected at most %d bytes", s.cfg.MaxFile))
	case n.TTL < 0:
		return invalid("/ttl_ms", "expected a positive number")
	case int64(len(first)) > n.Size:
		return invalid("/size", "expected at least the size of the content that was sent")
	case n.ContentType == "":
		return nil
	}
	if _, _, err := mime.ParseMediaType(n.ContentType); err != nil || len(n.ContentType) > maxName {
		return invalid("/content_type", "expected a media type such as image/png")
	}
	return nil
}

// validName reports whether a name is one part of a path that every program can show.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && name != "." && name != ".." && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsControl(r) })
}

// baseName makes a valid name of the path of an artifact.
func baseName(name string) string {
	if name = path.Base(name); !validName(name) {
		return "artifact"
	}
	return name
}

// Append adds the part of a file's content that begins at an offset.
func (s *Store) Append(ctx context.Context, f haft.File, offset int64, part []byte) (*haft.File, error) {
	err := s.db.Write(ctx, "append to a file", func(ctx context.Context, t store.Tx) error {
		// The quota's row orders this transaction against others of the organisation.
		if err := s.change(ctx, t, f.Owner.Org, 0, 0); err != nil {
			return err
		}
		return s.append(ctx, t, &f, offset, part)
	})
	if err != nil {
		return nil, err
	}
	return &f, nil
}

// append writes a part of f and brings f up to date. With the last part the file is complete.
func (s *Store) append(ctx context.Context, t store.Tx, f *haft.File, offset int64, part []byte) error {
	var state []byte
	found := false
	err := t.Each(ctx, func(r store.Scanner) error {
		found = true
		return r.Scan(&f.Uploaded, &f.SHA256, &state)
	}, "SELECT have, digest, hash FROM files WHERE id = $1", string(f.ID))
	switch {
	case err != nil:
		return err
	case !found:
		return missing()
	case f.SHA256 != "" || offset != f.Uploaded:
		return &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf("the file has %d of %d bytes: send the part "+
			"that begins there", f.Uploaded, f.Size)}
	case int64(len(part)) > f.Size-f.Uploaded:
		return invalid("", fmt.Sprintf("the part is larger than the rest of the file, which is %d bytes",
			f.Size-f.Uploaded))
	}
	if len(part) < minPart && offset > 0 && offset+int64(len(part)) < f.Size {
		return invalid("", fmt.Sprintf("a part in the middle of a file must have at least %d bytes", minPart))
	}
	sum, err := restore(state)
	if err != nil {
		return err
	}
	_, _ = sum.Write(part) // a hash returns no error
	for rest := part; len(rest) > 0; {
		data := rest[:min(len(rest), partSize)]
		rest = rest[len(data):]
		if _, err := t.Exec(ctx, "INSERT INTO file_parts (content, at, data) VALUES ($1, $2, $3)", string(f.ID),
			f.Uploaded, data); err != nil {
			return err
		}
		f.Uploaded += int64(len(data))
	}
	if f.Uploaded == f.Size {
		return s.complete(ctx, t, f, hex.EncodeToString(sum.Sum(nil)))
	}
	if state, err = sum.(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
		return fmt.Errorf("keep the state of the digest: %w", err)
	}
	_, err = t.Exec(ctx, "UPDATE files SET have = $1, hash = $2 WHERE id = $3", f.Uploaded, state, string(f.ID))
	return err
}

// restore returns a digest with the state of an earlier one.
func restore(state []byte) (hash.Hash, error) {
	sum := sha256.New()
	if len(state) == 0 {
		return sum, nil
	}
	if err := sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		return nil, fmt.Errorf("read the state of the digest: %w", err)
	}
	return sum, nil
}

// complete sets the digest of f. If the organisation has the same content already, f shares it.
func (s *Store) complete(ctx context.Context, t store.Tx, f *haft.File, digest string) error {
	content := string(f.ID)
	err := t.Each(ctx, func(r store.Scanner) error { return r.Scan(&content) },
		"SELECT content FROM files WHERE org = $1 AND digest = $2 AND size = $3 LIMIT 1", f.Owner.Org, digest, f.Size)
	if err != nil {
		return err
	}
	if content != string(f.ID) {
		if _, err := t.Exec(ctx, "DELETE FROM file_parts WHERE content = $1", string(f.ID)); err != nil {
			return err
		}
	}
	if _, err = t.Exec(ctx, "UPDATE files SET have = size, digest = $1, content = $2, hash = NULL, "+
		"expires = created + ttl WHERE id = $3", digest, content, string(f.ID)); err != nil {
		return err
	}
	return t.Each(ctx, func(r store.Scanner) (err error) { *f, err = scan(r); return err }, "SELECT "+columns+
		" FROM files WHERE id = $1", string(f.ID))
}

// ContentType returns what content looks like. The name decides between kinds of text only.
// The types that a browser runs are never returned.
func ContentType(name string, first []byte) string {
	sniffed := http.DetectContentType(first)
	if !strings.HasPrefix(sniffed, "text/") {
		return sniffed
	}
	if known := map[string]string{".json": "application/json", ".csv": "text/csv; charset=utf-8",
		".md": "text/markdown; charset=utf-8"}[path.Ext(name)]; known != "" {
		return known
	}
	return "text/plain; charset=utf-8"
}

func invalid(pointer, message string) error {
	e := &haft.Error{Code: haft.CodeInvalid, Message: message}
	if pointer != "" {
		e.Misfits = []haft.Misfit{{Pointer: pointer, Message: message}}
	}
	return e
}

func missing() error { return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such file"} }
