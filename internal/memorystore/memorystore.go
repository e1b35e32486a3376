// Package memorystore keeps what agents remember and what is said to them in tables of the store's database: blocks,
// passages, messages and turns.
//
// Each agent has a row of memories, which counts its messages and passages, and their bytes; memory_shares counts those
// of each user. Every transaction that
// adds to the memory of an agent changes that row first, so that these transactions run one after the other. The
// removal of an agent marks its row: from then on nothing is added, and [Store.Purge] removes the rest.
//
// Passages and messages are found by rows of memory_terms: a term of a passage is a word, or the sign # and a tag, and
// one of a message is the sign @, the user, a slash and a word, so that users do not crowd out each other. Ids begin
// with their kind and their time, so that the items of one term are in the order of their times, and a search reads
// the newest ones of each word and no more than a bound.
//
// Passages have vectors too, if there is an [Embedder]: passage_vectors has those of the newest passages of an agent,
// which a search compares one by one.
//
// A list ends when it has as many rows as were asked for, or [maxRead] bytes: who reads all of it goes on until there
// is nothing more.
package memorystore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/store"
)

// The bounds on what comes from outside, besides those of package haft.
const (
	maxPage        = 100       // rows of a list
	maxLabel       = 64        // characters
	maxDescription = 10_000    // characters
	maxTag         = 100       // characters
	maxQuery       = 10_000    // bytes
	maxKey         = 1_000     // bytes of an idempotency key
	maxMessage     = 1 << 20   // bytes of a message with everything in it
	maxTurn        = 256 << 10 // bytes of a turn
	maxMessages    = 128       // that are added at once
	maxBatch       = 16 << 20  // bytes of those
	maxRead        = 8 << 20   // bytes after which a list ends
	memoryShares   = 4         // users who fill the memory of an agent
)

// A Store keeps the memory of agents. It is safe for concurrent use.
type Store struct {
	db       store.Tables
	embedder Embedder // nil if passages are found by their words alone
}

// New returns the memory in a database.
func New(db *store.Store) *Store { return &Store{db: store.TablesOf(db)} }

// counts are those of the row of an agent.
type counts struct{ seq, passages, bytes int64 }

// touch adds to the counts of an agent and returns them, or [haft.CodeNotFound] if the agent is gone, or
// [haft.CodeInvalid] if there is no room for more, which is no conflict: a turn is not lost by it. Nobody else adds to
// the memory of the agent until the transaction ends. The first one locks the row of the agent: who removes that finds
// the memory afterwards.
func touch(ctx context.Context, t store.Tx, org string, agent haft.AgentID, add counts) (counts, error) {
	row := []any{store.Column(string(agent)), store.Column(org), add.seq, add.passages, add.bytes}
	has, err := count(ctx, t, "UPDATE memories SET seq = seq + $3, passages = passages + $4, bytes = bytes + $5 WHERE "+
		"agent = $1 AND org = $2 AND removed = 0 RETURNING seq, passages, bytes", row)
	if err == nil && has == nil {
		_, err = one(ctx, locked{t}, "agent", text[string], query("SELECT id FROM agents WHERE id = ? AND org = ?",
			row[:2]...))
		if err == nil {
			has, err = count(ctx, t, `INSERT INTO memories (agent, org, seq, passages, bytes, removed)
				VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT (agent) DO UPDATE SET seq = memories.seq + excluded.seq,
				passages = memories.passages + excluded.passages, bytes = memories.bytes + excluded.bytes
				WHERE memories.removed = 0 RETURNING seq, passages, bytes`, row)
		}
	}
	switch {
	case err != nil:
		return counts{}, err
	case has == nil:
		return counts{}, missing("agent")
	case add.bytes > 0 && has.bytes > haft.MaxMemoryBytes:
		return counts{}, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the memory of the agent is full: "+
			"its passages and messages have %d bytes, the most there can be: remove passages, or shorten the time for "+
			"which calls and turns are kept", haft.MaxMemoryBytes)}
	}
	return *has, nil
}

// share adds to what a user has of the memory of an agent, or returns [haft.CodeInvalid] if that is too much: one user
// does not fill the memory for all others. What is there already stays. Precondition: the row of the agent is locked.
func share(ctx context.Context, t store.Tx, agent haft.AgentID, user string, bytes int64) error {
	if user == "" || bytes == 0 {
		return nil
	}
	has := int64(0)
	err := t.Each(ctx, func(r store.Scanner) error { return r.Scan(&has) }, `INSERT INTO memory_shares (agent, usr,
		bytes) VALUES ($1, $2, $3) ON CONFLICT (agent, usr) DO UPDATE SET bytes = memory_shares.bytes + excluded.bytes
		RETURNING bytes`, string(agent), user, bytes)
	switch {
	case err != nil:
		return err
	case bytes > 0 && has > haft.MaxMemoryBytes/memoryShares:
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("your messages with the agent, and what it "+
			"remembers for you, have %d bytes, the most for one user: remove passages, or ask a manager to shorten "+
			"the time for which calls and turns are kept", haft.MaxMemoryBytes/memoryShares)}
	case has <= 0:
		_, err = t.Exec(ctx, "DELETE FROM memory_shares WHERE agent = $1 AND usr = $2", string(agent), user)
	}
	return err
}

// count runs a statement that returns the counts of a row, or nil if there is no such row.
func count(ctx context.Context, t store.Tx, statement string, args []any) (has *counts, err error) {
	err = t.Each(ctx, func(r store.Scanner) error {
		has = &counts{}
		return r.Scan(&has.seq, &has.passages, &has.bytes)
	}, statement, args...)
	return has, err
}

// A source answers queries: the store, or a transaction that locks the rows.
type source interface {
	each(ctx context.Context, scan func(store.Scanner) error, q store.Query) error
}

func (s *Store) each(ctx context.Context, scan func(store.Scanner) error, q store.Query) error {
	if err := s.db.Select(ctx, scan, q); err != nil {
		return fmt.Errorf("read the memory of agents: %w", err)
	}
	return nil
}

// A locked source locks the rows that it reads until its transaction ends.
type locked struct{ store.Tx }

func (l locked) each(ctx context.Context, scan func(store.Scanner) error, q store.Query) error {
	return l.Lock(ctx, scan, q)
}

// query is a text, in which each ? stands for the next of args.
func query(text string, args ...any) store.Query { return store.NewQuery(text, args...) }

// A counter is a row that counts the bytes that are read of it.
type counter struct {
	store.Scanner
	bytes int
}

// Scan implements [store.Scanner].
func (c *counter) Scan(dest ...any) error {
	err := c.Scanner.Scan(dest...)
	for _, d := range dest {
		switch d := d.(type) {
		case *string:
			c.bytes += len(*d)
		case *[]byte:
			c.bytes += len(*d)
		}
	}
	return err
}

// errFull ends a list that has enough bytes.
var errFull = errors.New("the list is full")

// some reads rows of a query until they have [maxRead] bytes; cut says that there are perhaps more.
func some[T any](ctx context.Context, from source, scan func(store.Scanner) (T, error), q store.Query) (all []T,
	cut bool, err error) {
	c := &counter{}
	err = from.each(ctx, func(r store.Scanner) error {
		c.Scanner = r
		v, err := scan(c)
		if all = append(all, v); err == nil && c.bytes >= maxRead {
			err = errFull
		}
		return err
	}, q)
	if errors.Is(err, errFull) {
		return all, true, nil
	}
	return all, false, err
}

// list is some for who goes on behind the last row, or knows that the rows are small.
func list[T any](ctx context.Context, from source, scan func(store.Scanner) (T, error), q store.Query) ([]T, error) {
	all, _, err := some(ctx, from, scan, q)
	return all, err
}

// one reads the first row of a query, or returns [haft.CodeNotFound]; what names it.
func one[T any](ctx context.Context, from source, what string, scan func(store.Scanner) (T, error),
	q store.Query) (*T, error) {
	all, err := list(ctx, from, scan, q)
	if err == nil && len(all) == 0 {
		err = missing(what)
	}
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// write runs f in a transaction, perhaps more than once, and returns what f did, or nothing with an error.
func write[T any](ctx context.Context, s *Store, doing string,
	f func(context.Context, store.Tx) (T, error)) (v T, err error) {
	err = s.db.Write(ctx, doing, func(ctx context.Context, t store.Tx) (err error) {
		v, err = f(ctx, t)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return v, nil
}

// text scans a column of text.
func text[T ~string](r store.Scanner) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// newID returns an id that is greater than those of earlier times, and that nobody can guess.
func newID(prefix string, at time.Time) string {
	return idTime(prefix, at) + strings.ToLower(rand.Text())
}

// idTime returns what is less than all ids of a time, and greater than those before.
func idTime(prefix string, at time.Time) string {
	return fmt.Sprintf("%s%013x", prefix, max(0, min(at.UnixMicro(), 1<<52-1)))
}

// now is the time as it is kept.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// fromMicros reads a time; 0 is none.
func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// page returns how many rows to read.
func page(limit int) int {
	if limit <= 0 || limit > maxPage {
		return maxPage
	}
	return limit
}

// checkText reports why a text from outside cannot be kept. A text that is far too long is not even read.
func checkText(pointer, text string, most int) error {
	if len(text) > most*utf8.UTFMax {
		return invalid(pointer, fmt.Sprintf("expected at most %d characters, found %d bytes", most, len(text)))
	}
	if n := utf8.RuneCountInString(text); n > most {
		return invalid(pointer, fmt.Sprintf("expected at most %d characters, found %d", most, n))
	}
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return invalid(pointer, "expected UTF-8 text without NUL characters")
	}
	return nil
}

func invalid(pointer, message string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message,
		Misfits: []haft.Misfit{{Pointer: pointer, Message: message}}}
}

func missing(what string) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such " + what}
}

func conflict(message string) error { return &haft.Error{Code: haft.CodeConflict, Message: message} }
