package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// Config says what a keeper works with. Store, Signer and Dir are needed.
type Config struct {
	Store  *store.Store
	Signer *audit.Signer
	// Keys are trusted besides that of Signer: those of other servers of the database,
	// and earlier ones of this server.
	Keys audit.Keys
	// Dir is the data directory, where the file of the heads is.
	Dir string
	// Sink gets a copy of every checkpoint, outside of this machine if it can be; nil
	// means that there is none.
	Sink Sink
	// Logger gets what an operator could act on. Nil discards.
	Logger *slog.Logger
}

// A Keeper signs the audit log of a database. It is safe for concurrent use.
//
// Lifecycle: Open, then anything, then Close. Close does not sign.
type Keeper struct {
	cfg  Config
	keys audit.Keys

	mu     sync.Mutex
	tip    audit.Tip
	marks  map[string]audit.Mark // by organisation
	opened bool                  // the entries that Open found were looked at; later ones are written by servers
	warned map[string]bool       // keys that are not trusted, and that the log has named
	failed error                 // why the last signing failed
	stale  bool                  // the file of the heads is behind the database

	out *outbox // nil without a sink
}

// pageSize is how many organisations are signed in one transaction.
const pageSize = 200

// Open reads what was signed last and demands that the database has it: if not, the error
// wraps a [*Mismatch], and nothing was changed. This and [Keeper.Sign] are the only places
// that add chained checkpoints, and both go through continues.
//
// It looks at one entry of each organisation, at what was signed since the file was written,
// and at entries that are not signed yet: not at the whole log.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	k := newKeeper(cfg)
	heads, err := ReadHeads(cfg.Dir, k.keys)
	if err != nil {
		return nil, err
	}
	if heads == nil {
		err = k.begin(ctx)
		for try := 1; raced(err) && try < tries; try++ {
			k.tip, k.marks = audit.Tip{}, make(map[string]audit.Mark)
			err = k.begin(ctx) // after another server that is new to the database too
		}
	} else {
		k.load(*heads)
		if err = k.continues(ctx, nil); err == nil {
			err = k.absorb(ctx)
		}
		if err == nil {
			err = k.eachGrown(ctx, func(u store.Unsigned) error { return k.linked(ctx, u) })
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look at what was signed of the audit log: %w", err)
	}
	k.opened = true
	if cfg.Sink != nil {
		if k.out, err = openOutbox(ctx, k, cfg.Sink); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func newKeeper(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{cfg: cfg, keys: audit.MakeKeys(cfg.Signer.Public()), marks: make(map[string]audit.Mark),
		warned: make(map[string]bool)}
	maps.Copy(k.keys, cfg.Keys)
	return k
}

// load takes in what a file of heads says.
func (k *Keeper) load(h audit.Heads) {
	k.tip = h.Tip
	for _, m := range h.Marks {
		k.marks[m.Org] = m
	}
}

// Keys returns the keys that are trusted.
func (k *Keeper) Keys() audit.Keys { return k.keys }

// Err returns why the last signing failed, or nil.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// SinkStats returns how many checkpoints the sink has yet to get, and why it does not.
func (k *Keeper) SinkStats() (pending int64, err error) {
	if k.out == nil {
		return 0, nil
	}
	return k.out.stats()
}

// Close gives the sink a few seconds to take what is left. What it does not take is sent
// by the next process.
func (k *Keeper) Close() error {
	if k.out == nil {
		return nil
	}
	return k.out.close()
}

// tries is how often a keeper begins again because another server was faster, for some
// seconds in all. Each time, that server has signed, so the servers together never stand still.
const tries = 64

// Sign signs every chain that has grown, and writes the file of the heads. It signs
// nothing if the database does not continue what was signed last.
func (k *Keeper) Sign(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Servers that sign at the same time wait for different times.
	apart := haft.Backoff{Tries: haft.MaxTries, Initial: haft.Millis(2 * time.Millisecond),
		Max: haft.Millis(200 * time.Millisecond)}
	err := k.sign(ctx)
	for try := 1; raced(err) && try < tries; try++ {
		wait, _ := apart.Wait(min(try, haft.MaxTries-1), rand.Float64())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("sign the audit log: %w", context.Cause(ctx))
		}
		err = k.sign(ctx) // after what the other server has signed
	}
	if err == nil {
		err = k.writeHeads()
	}
	if ctx.Err() == nil {
		k.failed = err
	}
	if k.out != nil {
		k.out.wake()
	}
	if err != nil {
		return fmt.Errorf("sign the audit log: %w", err)
	}
	return nil
}

// sign is Sign without the file. Precondition: mu is held.
func (k *Keeper) sign(ctx context.Context) error {
	if err := k.absorb(ctx); err != nil {
		return err
	}
	return k.pagesGrown(ctx, k.signPage)
}

// pagesGrown gives the chains that have entries without a signature to work.
func (k *Keeper) pagesGrown(ctx context.Context, work func(context.Context, []store.Unsigned) error) error {
	for after := ""; ; {
		grown, next, err := k.cfg.Store.Audit.UnsignedChains(ctx, after, pageSize)
		if err != nil {
			return err
		}
		if err := work(ctx, grown); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

// eachGrown is pagesGrown, one by one.
func (k *Keeper) eachGrown(ctx context.Context, work func(store.Unsigned) error) error {
	return k.pagesGrown(ctx, func(_ context.Context, grown []store.Unsigned) error {
		for _, u := range grown {
			if err := work(u); err != nil {
				return err
			}
		}
		return nil
	})
}

// signPage signs some chains, if each of them continues what was signed of it.
func (k *Keeper) signPage(ctx context.Context, grown []store.Unsigned) error {
	if len(grown) == 0 {
		return nil
	}
	if err := k.continues(ctx, grown); err != nil {
		return err
	}
	now := time.Now()
	tip := k.tip
	list := make([]audit.Checkpoint, 0, len(grown))
	for _, u := range grown {
		c := k.cfg.Signer.SignAfter(u.Head, k.marks[u.Head.Org], tip, now)
		list, tip = append(list, c), c.Tip()
	}
	if err := k.cfg.Store.Audit.AddCheckpoints(ctx, k.tip.Serial, list); err != nil {
		return err
	}
	for _, c := range list {
		k.marks[c.Org] = c.Mark()
	}
	k.tip, k.stale = tip, true
	return nil
}

// writeHeads writes the file, if something was signed since it was written.
func (k *Keeper) writeHeads() error {
	if !k.stale {
		return nil
	}
	data, err := k.cfg.Signer.SignHeads(k.tip, slices.Collect(maps.Values(k.marks)), time.Now()).Encode()
	if err == nil {
		err = writeFile(k.cfg.Dir, HeadFile, data)
	}
	if err != nil {
		return err
	}
	k.stale = false
	return nil
}

// absorb reads the checkpoints that other servers signed, and those that this one signed
// before a crash. A trusted key must have signed each, and each must follow the one before
// and fit its entry.
func (k *Keeper) absorb(ctx context.Context) error {
	for {
		list, err := k.cfg.Store.Audit.ChainedFrom(ctx, k.tip.Serial, store.MaxPage)
		if err != nil {
			return err
		}
		more := len(list) == store.MaxPage
		if k.tip.Serial > 0 {
			if len(list) == 0 || list[0].Tip() != k.tip {
				return k.mismatch(ctx, nil)
			}
			list = list[1:]
		}
		if len(list) == 0 {
			return nil
		}
		has, err := hasEntries(ctx, k.cfg.Store, list)
		if err != nil {
			return err
		}
		for _, c := range list {
			if err := k.take(c, has[c.Head()]); err != nil {
				return err
			}
		}
		if k.stale = true; !more {
			return nil
		}
	}
}

// take takes in one checkpoint that another process signed.
func (k *Keeper) take(c audit.Checkpoint, fits bool) error {
	if err := k.trusted(c); err != nil {
		return err
	}
	if !fits || !c.Follows(k.marks[c.Org], k.tip) {
		return unfit(c, notSigned)
	}
	k.marks[c.Org], k.tip = c.Mark(), c.Tip()
	return nil
}

// trusted reports, as a [*Mismatch], that no trusted key signed a checkpoint of the database.
// An attacker who can write to the database can write checkpoints but cannot sign them, so
// this check comes first.
func (k *Keeper) trusted(c audit.Checkpoint) error {
	switch c.Check(k.keys) {
	case "":
		return nil
	case audit.UnknownKey:
		m := &Mismatch{Serial: c.Place.Serial, Damaged: fmt.Sprintf(
			"checkpoint %d of the audit log is signed with a key that is not trusted: %.16q", c.Place.Serial, c.Key)}
		return &haft.Error{Code: haft.CodeConflict, Err: m, Message: m.Damaged +
			". If it is the key of another server of this database, or a former one, add its public key (haft audit " +
			"key) to audit.keys " +
			"in the data directory and start again. Else somebody wrote to the database: put back the right one"}
	}
	return unfit(c, notSigned)
}

// notSigned says why a checkpoint is not believed.
const notSigned = "is not what was signed, or does not fit the entries"

// unfit says that a checkpoint in the database cannot be believed.
func unfit(c audit.Checkpoint, why string) error {
	return damaged(c.Place.Serial, "checkpoint %d of the audit log, of entry %d of organisation %q, %s", c.Place.Serial,
		c.Seq, c.Org, why)
}

// raced reports whether err says that another server was faster.
func raced(err error) bool { return haft.CodeOf(err) == haft.CodeConflict && !Mismatched(err) }

// mismatched reports whether err says that the database is not what was signed.
func Mismatched(err error) bool {
	_, ok := errors.AsType[*Mismatch](err)
	return ok
}
