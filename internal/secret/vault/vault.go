// Package vault stores the secrets of organisations and agents, encrypted under a master
// key, and exchanges them for access tokens. It implements [callenv.Vault] and
// [engine.Sealer].
package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/internal/callenv"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/store"
)

// maxStored bounds the scopes whose values are held ready.
const maxStored = 4096

// A Vault keeps secrets in the store. It implements [service.Vault] and
// [engine.Sealer]. The master key is asked for when it is needed first: where
// nothing is stored, there need be none.
type Vault struct {
	store  *store.Store
	cfg    Config
	logger *slog.Logger

	opening sync.Mutex // held while the keeper is opened or replaced; before mu
	master  masterKey  // guarded by opening

	mu     sync.RWMutex
	keeper *keeper.Keeper // nil until it is needed
	marks  map[string]int64
	stored map[place]stored

	nothing *callenv.Stored // is stored where nothing is
}

// A place identifies cached values.
type place struct {
	org   string
	agent haft.AgentID
}

// stored are cached values, with the mark of the organisation when they were read.
type stored struct {
	mark   int64
	values *callenv.Stored
}

// Config says where the master key is. The zero value is for a store in memory.
type Config struct {
	// MasterKey is the master key: 32 random bytes, or those in base64 or hexadecimal.
	// Nil means that of MasterKeyFile, else what MasterKeyCommand prints, which has
	// Environ, else master.key in Data, which is made when it is needed first.
	MasterKey        []byte
	MasterKeyFile    string
	MasterKeyCommand string
	Environ          []string
	// Data is the data directory; "" means that there is none.
	Data string
	// Serving says that other servers may share the store and write at any time.
	Serving bool
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

// Open opens the secrets of a store, and encrypts those that are stored as plain text. If
// something is encrypted, the master key must fit.
func Open(ctx context.Context, s *store.Store, cfg Config) (*Vault, error) {
	v := &Vault{store: s, cfg: cfg, logger: cfg.Logger, marks: map[string]int64{}, stored: map[place]stored{},
		nothing: &callenv.Stored{}}
	if v.logger == nil {
		v.logger = slog.New(slog.DiscardHandler)
	}
	has, err := keeper.Kept(ctx, s.Secrets)
	if err != nil {
		return nil, err
	}
	// One of several servers may make the keys at any time, and the others could then not
	// read its calls. So each server needs the master key to start.
	if has || cfg.Serving && s.Shared() {
		if _, err := v.open(ctx); err != nil {
			return nil, err
		}
	}
	if err := v.sealAll(ctx); err != nil {
		return nil, fmt.Errorf("encrypt what is stored in the clear: %w", err)
	}
	return v, nil
}

// current returns the keeper, or nil if it is not open yet.
func (v *Vault) current() *keeper.Keeper {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.keeper
}

// open returns the keeper, and opens it first if necessary.
func (v *Vault) open(ctx context.Context) (*keeper.Keeper, error) {
	if k := v.current(); k != nil {
		return k, nil
	}
	v.opening.Lock()
	defer v.opening.Unlock()
	if k := v.current(); k != nil {
		return k, nil
	}
	has, err := keeper.Kept(ctx, v.store.Secrets)
	if err != nil {
		return nil, err
	}
	found, err := v.findMaster(ctx, has)
	if err != nil {
		return nil, err
	}
	m, err := keeper.NewMaster(found.key)
	if err != nil {
		return nil, err
	}
	k, err := keeper.Open(ctx, v.store.Secrets, m)
	if err != nil {
		return nil, fmt.Errorf("open the stored secrets: %w", err)
	}
	v.master = found
	v.use(k)
	return k, nil
}

// use replaces the keeper.
func (v *Vault) use(k *keeper.Keeper) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keeper = k
}

// longest is the maximum length of organisation and agent together.
const longest = 240

// scope is the scope of the secrets of an agent, or of the organisation.
func scope(org string, agent haft.AgentID) keeper.Scope {
	if agent == "" {
		return keeper.Scope{Org: org, Kind: keeper.KindOrg}
	}
	return keeper.Scope{Org: org, Kind: keeper.KindAgent, ID: string(agent)}
}

// mark returns a number that changes with every change of the organisation's secrets. If no
// other process writes, it does not ask the store.
func (v *Vault) mark(ctx context.Context, org string) (int64, error) {
	if v.store.Shared() {
		return v.store.Secrets.SecretMark(ctx, org)
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.marks[org], nil
}

// Changed invalidates the cached secrets of an organisation.
func (v *Vault) Changed(org string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.marks[org]++
}

// Stored implements [service.Vault].
func (v *Vault) Stored(ctx context.Context, org string, agent haft.AgentID) (*callenv.Stored, error) {
	if len(org)+len(agent) > longest {
		return v.nothing, nil
	}
	mark, err := v.mark(ctx, org) // before reading: what changes meanwhile is read again
	if err != nil {
		return nil, err
	}
	if v.store.Shared() && mark == 0 || !v.store.Shared() && v.current() == nil {
		return v.nothing, nil
	}
	at := place{org, agent}
	v.mu.RLock()
	have, ok := v.stored[at]
	v.mu.RUnlock()
	if ok && have.mark == mark {
		return have.values, nil
	}
	values, err := v.read(ctx, at)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.stored) >= maxStored {
		clear(v.stored)
	}
	v.stored[at] = stored{mark, values}
	return values, nil
}

// read decrypts the secrets for calls.
func (v *Vault) read(ctx context.Context, at place) (*callenv.Stored, error) {
	k, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	values := &callenv.Stored{}
	if values.Org, err = k.Values(ctx, scope(at.org, "")); err != nil {
		return nil, err
	}
	if at.agent != "" {
		if values.Agent, err = k.Values(ctx, scope(at.org, at.agent)); err != nil {
			return nil, err
		}
	}
	for _, v := range slices.Concat(values.Org, values.Agent) {
		if v.Bound == nil || v.Bound.OAuth == nil {
			continue
		}
		client, refresh := v.Bound.OAuth.Parts(v.Value)
		for _, part := range []secret.Value{client, refresh} {
			if !part.IsZero() && !part.Equal(v.Value) {
				values.Hidden = append(values.Hidden, secret.Named{Name: v.Name, Value: part})
			}
		}
	}
	return values, nil
}

// List implements [service.Vault]. It needs no key.
func (v *Vault) List(ctx context.Context, org string, agent haft.AgentID) ([]secret.Info, error) {
	var infos []secret.Info
	s := scope(org, agent)
	for after := (keeper.Row{}); ; {
		list, err := v.store.Secrets.Secrets(ctx, &s, after, 0)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			after = r
			bound, err := secret.DecodeBinding(r.Bound)
			if err != nil {
				return nil, fmt.Errorf("read the binding of the secret %s: %w", r.Name, err)
			}
			infos = append(infos, secret.Info{Name: r.Name, Fingerprint: r.Fingerprint, Bound: bound,
				Created: r.Created, Updated: r.Updated})
		}
		if len(list) < store.MaxPage {
			return infos, nil
		}
	}
}

// Put implements [service.Vault].
func (v *Vault) Put(ctx context.Context, org string, agent haft.AgentID, name string, value secret.Value,
	b *secret.Binding) error {
	k, err := v.open(ctx)
	if err != nil {
		return err
	}
	s, to := scope(org, agent), b
	if b == nil {
		have, err := v.store.Secrets.Secret(ctx, s, name)
		if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
			return err
		}
		if to, err = secret.DecodeBinding(have.Bound); err != nil {
			return fmt.Errorf("read the binding of the secret %s: %w", name, err)
		}
	}
	if err := checkBinding(name, value, to); err != nil {
		return err
	}
	defer v.Changed(org) // also if it failed: that may be after it was written
	return k.PutBound(ctx, s, name, value, b)
}

// Remove implements [service.Vault]. It needs no key.
func (v *Vault) Remove(ctx context.Context, org string, agent haft.AgentID, name string) error {
	s := scope(org, agent)
	defer v.Changed(org)
	return v.store.Secrets.RemoveSecret(ctx, s, name)
}

// keyTime bounds reading the keys to open or make a box, which has no context.
const keyTime = 10 * time.Second

// Seal implements [engine.Sealer].
func (v *Vault) Seal(plain, label []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), masterTime+keyTime) //nolint:forbidigo // see keyTime
	defer cancel()
	k, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	return k.Box(plain, label)
}

// Open implements [engine.Sealer].
func (v *Vault) Open(box, label []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), masterTime+keyTime) //nolint:forbidigo // see keyTime
	defer cancel()
	k, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	return k.Unbox(ctx, box, label)
}

// sealAll encrypts secrets that are stored as plain text: by an older Haft, or by an import.
// It may be stopped at any moment; the next start continues.
func (v *Vault) sealAll(ctx context.Context) error {
	due, err := v.store.Settings.Setting(ctx, store.ScrubDue)
	if err != nil {
		return err
	}
	n := 0
	for _, step := range []func(context.Context) (int, error){v.sealAgents, v.sealSecrets, v.sealCalls} {
		done, err := step(ctx)
		if n += done; err != nil {
			return err
		}
	}
	if n == 0 && due == "" {
		return nil
	}
	if n > 0 {
		v.logger.Info("secrets that were stored in the clear are encrypted now", "count", n)
	}
	if err := v.store.Scrub(ctx); err != nil {
		return err
	}
	return v.store.Settings.PutSetting(ctx, store.ScrubDue, "")
}

// willSeal records that the files must be scrubbed later, and returns the keeper.
func (v *Vault) willSeal(ctx context.Context) (*keeper.Keeper, error) {
	if err := v.store.Settings.PutSetting(ctx, store.ScrubDue, "1"); err != nil {
		return nil, err
	}
	return v.open(ctx)
}

// sealAgents moves the variables of agents from their rows to the vault.
func (v *Vault) sealAgents(ctx context.Context) (n int, err error) {
	for after := haft.AgentID(""); ; {
		list, err := v.store.Agents.AgentsWithEnv(ctx, after, 0)
		if err != nil || len(list) == 0 {
			return n, err
		}
		for _, a := range list {
			after = a.ID
			if len(a.Env) == 0 {
				continue
			}
			if _, err := v.willSeal(ctx); err != nil {
				return n, err
			}
			moved, err := v.sealAgent(ctx, a)
			if err != nil {
				return n, err
			}
			n += moved
		}
	}
}

// sealAgent moves the variables of one agent. Values that the vault has already are newer.
func (v *Vault) sealAgent(ctx context.Context, a haft.Agent) (int, error) {
	have, err := v.List(ctx, a.Org, a.ID)
	if err != nil {
		return 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if slices.ContainsFunc(have, func(i secret.Info) bool { return i.Name == name }) || a.Env[name] == "" {
			continue
		}
		switch err := v.Put(ctx, a.Org, a.ID, name, secret.New(a.Env[name]), nil); haft.CodeOf(err) {
		case "":
		case haft.CodeInvalid:
			v.logger.Warn("a variable of an agent cannot be encrypted and stays as it is: remove it", "org", a.Org,
				"agent", a.Name, "variable", name, "error", err)
			return 0, nil
		default:
			return 0, err
		}
	}
	if _, err := v.store.Agents.DropAgentEnv(ctx, a); err != nil {
		return 0, err
	}
	return len(a.Env), nil
}

// sealSecrets encrypts rows that have the plain value.
func (v *Vault) sealSecrets(ctx context.Context) (int, error) {
	some, err := v.store.Secrets.HasPlainSecrets(ctx)
	if err != nil || !some {
		return 0, err
	}
	k, err := v.willSeal(ctx)
	if err != nil {
		return 0, err
	}
	return k.Seal(ctx)
}

// sealCalls encrypts the stored data of calls that have not run yet.
func (v *Vault) sealCalls(ctx context.Context) (int, error) {
	return v.eachCall(ctx, func(c store.SealedCall) (json.RawMessage, error) {
		if !bytes.HasPrefix(c.Sealed, []byte("{")) {
			return nil, nil
		}
		k, err := v.willSeal(ctx)
		if err != nil {
			return nil, err
		}
		return boxed(k, c.Sealed, c.ID)
	})
}

// resealCalls encrypts the data of calls again that is not under the newest key.
func (v *Vault) resealCalls(ctx context.Context, k *keeper.Keeper) (int, error) {
	return v.eachCall(ctx, func(c store.SealedCall) (json.RawMessage, error) {
		var box []byte
		if err := json.Unmarshal(c.Sealed, &box); err != nil {
			return nil, nil // none of ours
		}
		if !k.Stale(box) {
			return nil, nil
		}
		plain, err := k.Unbox(ctx, box, []byte(c.ID))
		if err != nil {
			return nil, fmt.Errorf("open the sealed call %s: %w", c.ID, err)
		}
		return boxed(k, plain, c.ID)
	})
}

// boxed returns the encrypted data of a call, as the engine stores it.
func boxed(k *keeper.Keeper, plain []byte, id haft.CallID) (json.RawMessage, error) {
	box, err := k.Box(plain, []byte(id))
	if err != nil {
		return nil, err
	}
	return json.Marshal(box)
}

// eachCall replaces the stored data of open calls by what next returns, if that is not nil,
// and counts the replacements.
func (v *Vault) eachCall(ctx context.Context, next func(store.SealedCall) (json.RawMessage, error)) (n int, err error) {
	const page = 100 // they may be large
	for after := haft.CallID(""); ; {
		list, err := v.store.Calls.SealedCalls(ctx, after, page)
		if err != nil {
			return n, err
		}
		for _, c := range list {
			after = c.ID
			raw, err := next(c)
			if err != nil {
				return n, err
			}
			if raw == nil {
				continue
			}
			replaced, err := v.store.Calls.Reseal(ctx, c, raw)
			if err != nil {
				return n, err
			}
			if replaced {
				n++
			}
		}
		if len(list) < page {
			return n, nil
		}
	}
}
