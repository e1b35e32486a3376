// Package workspace keeps named directories that outlive calls.
//
// A workspace is a row of workspaces, and a directory below the data directory of one machine, its home:
//
//	workspaces/DATABASE/HOME/lock  is locked by those who use the files, see lease
//	workspaces/DATABASE/HOME/t-…   is a tree: the files that tools see
//	workspaces/DATABASE/trash-…    is being removed
//
// The row says which tree has the files. A tree is made as a whole and written to the disk before a row
// names it, and is removed after no row does. So a crash leaves trees that no row names, and nothing else;
// [Store.Sweep] removes them. DATABASE is the id of the database with the rows, so that no other database
// that is used with the directory takes a home for a leftover.
//
// A snapshot is a workspace with an @ in its name that nobody writes to. Snapshots, forks and restores are
// one copy of a tree in either direction.
package workspace

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/store"
)

// Config has the bounds of a store. Zero fields have the defaults.
type Config struct {
	// Dir is the directory of all workspaces. It is made when the first one is added; empty means
	// that there can be none.
	Dir string
	// Quota is what a workspace may have at most; 0 means 1 GiB and 100,000 files.
	Quota haft.WorkspaceSize
	// Org bounds the bytes of an organisation in all workspaces and snapshots; 0 means 10 GiB.
	Org int64
	// Count bounds the workspaces and snapshots of an organisation together; 0 means 1,000.
	Count int
	// Wait is how long something waits for those who use a workspace; 0 means 30 seconds.
	Wait time.Duration
	// Reserve is how many bytes of the disk calls leave free, since a file that a tool has open and
	// removed cannot be measured; 0 means 1 GiB, or a twentieth of the disk if that is less.
	Reserve int64
	// InSession returns what the session was made with that the arguments of a call of p name: its workspace, its
	// packages, and the sandbox that was named. Nil means that there are no sessions.
	InSession func(p haft.Principal, args json.RawMessage) (*haft.CallWorkspace, haft.Requirements, string)
	// Changes is how often the workspaces of an organisation can be changed in a minute, without calls; 0
	// means 1,000.
	Changes int
}

// A Store keeps workspaces. It is safe for concurrent use.
type Store struct {
	db  store.Tables
	cfg Config

	mu   sync.Mutex
	root *os.Root       // nil until it is needed
	path string         // of root
	done map[string]int // changes of this minute by organisation
	from time.Time      // when the minute began

	holding places           // one, for hold
	held    map[string]int64 // bytes of copies that have no row yet, by organisation
	copies  places
	looks   places
}

// How many trees are copied at a time, which bounds how far they get beyond what the disk has; and how many are
// listed or compared at a time, which bounds the memory for their names.
const (
	maxCopies = 2
	maxLooks  = 4
)

// places are where work is done, each by one at a time.
type places chan struct{}

// enter waits for a place as long as ctx lasts. Leave it.
func (p places) enter(ctx context.Context) (leave func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// New returns a store of workspaces. It touches nothing yet.
func New(db *store.Store, cfg Config) *Store {
	cfg.Quota = within(cfg.Quota, haft.WorkspaceSize{Bytes: 1 << 30, Inodes: 100_000}, false)
	if cfg.Org <= 0 {
		cfg.Org = 10 << 30
	}
	if cfg.Count <= 0 {
		cfg.Count = 1000
	}
	if cfg.Changes <= 0 {
		cfg.Changes = 1000
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 30 * time.Second
	}
	return &Store{db: store.TablesOf(db), cfg: cfg, held: map[string]int64{}, holding: make(places, 1),
		copies: make(places, maxCopies), looks: make(places, maxLooks)}
}

// within returns size with the fields of other where it has none, and if bounded, where those are less.
func within(size, other haft.WorkspaceSize, bounded bool) haft.WorkspaceSize {
	if size.Bytes <= 0 || bounded && size.Bytes > other.Bytes {
		size.Bytes = other.Bytes
	}
	if size.Inodes <= 0 || bounded && size.Inodes > other.Inodes {
		size.Inodes = other.Inodes
	}
	return size
}

// errNoDir says that there can be no workspaces.
var errNoDir = &haft.Error{Code: haft.CodeUnavailable, Message: "there are no workspaces without a data directory"}

// open opens the directory of all workspaces of the database, and makes it if make is set.
func (s *Store) open(ctx context.Context, make bool) (*os.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		return s.root, nil
	}
	if s.cfg.Dir == "" {
		return nil, errNoDir
	}
	id, err := s.id(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.cfg.Dir, id)
	if make {
		// A sandbox without mounts needs a way to what it may see; see [sandbox.Spec.Owner].
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("make the directory of workspaces: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, homeError(err)
	}
	s.root, s.path = root, dir
	return root, nil
}

// id returns the id of the database, which the first who asks chooses.
func (s *Store) id(ctx context.Context) (id string, err error) {
	scan := func(r store.Scanner) error { return r.Scan(&id) }
	const read = "SELECT id FROM workspace_store"
	if err := s.each(ctx, scan, read); err != nil || id != "" {
		return id, err
	}
	err = s.db.Write(ctx, "name the store of workspaces", func(ctx context.Context, t store.Tx) error {
		if _, err := t.Exec(ctx, "INSERT INTO workspace_store (one, id) VALUES (1, $1) ON CONFLICT (one) DO NOTHING",
			"db-"+strings.ToLower(rand.Text())); err != nil {
			return err
		}
		return t.Each(ctx, scan, read)
	})
	return id, err
}

// admit counts a change of the workspaces of an organisation, and refuses one too many.
func (s *Store) admit(org string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := time.Minute - time.Since(s.from); wait > 0 && s.done[org] >= s.cfg.Changes {
		return &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(wait),
			Message: fmt.Sprintf("the workspaces of the organisation were changed %d times in a minute", s.cfg.Changes)}
	} else if wait <= 0 || s.done == nil {
		s.done, s.from = map[string]int{}, time.Now()
	}
	s.done[org]++
	return nil
}

// Close closes the directory of all workspaces.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// homeError is for a directory that cannot be opened.
func homeError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &haft.Error{Code: haft.CodeUnavailable, Err: err, Message: "the files of the workspace are not in the " +
			"data directory of this machine"}
	}
	return fmt.Errorf("open the directory of a workspace: %w", err)
}

// now is the time as it is kept.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func invalid(pointer, message string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message,
		Misfits: []haft.Misfit{{Pointer: pointer, Message: message}}}
}

func missing(what string) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such " + what}
}

func conflict(message string) error { return &haft.Error{Code: haft.CodeConflict, Message: message} }
