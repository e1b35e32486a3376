package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/callenv"
	"haft/internal/chains"
	"haft/internal/filestore"
	"haft/internal/journal"
	"haft/internal/membership"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/workspace"
)

// An entrance takes calls in: it has the stage enter, idempotency keys and acknowledged calls.
type entrance struct {
	cfg         *Config
	store       *store.Store
	registry    *registry.Registry
	files       *filestore.Store
	workspaces  *workspace.Store
	authority   authority.Rules
	journal     *journal.Journal
	authorizer  *authorizer
	calls       *callTable
	digests     *secret.Digester
	dispatcher  *dispatcher
	limiter     *limiter
	members     *membership.Membership
	permissions *permissions
	pipeline    *pipeline
	recorder    *recorder
	redaction   *redaction
	seals       *callSealer
}

// A callSealer encrypts what has to be kept of calls that have yet to run.
type callSealer struct {
	cfg         *Config
	members     *membership.Membership
	permissions *permissions
	redaction   *redaction
}

// The bounds on what a call may carry.
const (
	maxArgs  = 8 << 20
	MaxEnv   = 100
	maxEnvKB = 256 << 10
	maxName  = 256
)

// Call implements [haft.Caller].
func (en *entrance) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	return en.callSince(ctx, c, en.permissions.changes.Load())
}

// callSince is Call for somebody who was known when there were so many changes of
// permissions.
func (en *entrance) callSince(ctx context.Context, c haft.Call, seen int64) (*haft.Result, error) {
	ex, first, err := en.arrive(ctx, c)
	if err != nil {
		return nil, err
	}
	ex.seen = seen
	if first != ex.call.ID {
		return en.await(ctx, ex.call.Principal, first)
	}
	return en.pipeline.runCall(ctx, ex)
}

// arrive enters a call that somebody made. First is the call that has its idempotency
// key: itself, or one that came before.
func (en *entrance) arrive(ctx context.Context, c haft.Call) (ex *execution, first haft.CallID, err error) {
	c.Principal = en.authorizer.canonical(ctx, c.Principal)
	if len(c.Files) > 0 || c.Workspace != nil {
		if err := en.authority.May(c.Principal, haft.CallsWrite); err != nil {
			return nil, "", err
		}
		if c.Files, err = en.files.Bind(ctx, en.authority, c.Principal, c.Files); err != nil {
			return nil, "", err
		}
		if c.Workspace, err = en.workspaces.Bind(ctx, en.authority, c.Principal, c.Workspace); err != nil {
			return nil, "", err
		}
	}
	if ex, err = en.enter(c); err != nil {
		return nil, "", err
	}
	if first, err = en.admit(ctx, ex); err != nil {
		en.journal.Forget(ex.call.ID)
		return nil, "", err
	}
	return ex, first, nil
}

// admit is arrive for an execution that has its id. If it fails, nothing is kept of the execution.
func (en *entrance) admit(ctx context.Context, ex *execution) (first haft.CallID, err error) {
	c := ex.call
	if err := en.unused(ctx, ex); err != nil {
		return "", err
	}
	if c.IdempotencyKey == "" {
		return c.ID, nil
	}
	if err := en.redaction.checkEarly(ctx, ex); err != nil {
		return "", en.pipeline.refuseLabel(ctx, &execution{call: haft.Call{ID: c.ID, Principal: c.Principal},
			env: callenv.Env{Redactor: en.redaction.env.Plain()}}, err)
	}
	return en.claim(ctx, ex)
}

// unused refuses an id that the caller chose and that is taken: a call must not
// write over the record of another.
func (en *entrance) unused(ctx context.Context, ex *execution) error {
	if ex.ours {
		return nil // nobody can guess it
	}
	kept, err := en.store.Calls.Kept(ctx, ex.call.ID)
	if kept {
		err = &haft.Error{Code: haft.CodeConflict, Message: "there is a call with this id"}
	}
	return err
}

// enter opens the record of a call: it has an id, somebody on whose behalf it is
// made, and sizes that can be dealt with. The record is in the store before
// anything runs; a call that is refused is written once, when it leaves.
func (en *entrance) enter(c haft.Call) (*execution, error) {
	if err := en.authority.May(c.Principal, haft.CallsWrite); err != nil {
		return nil, err
	}
	if c.Principal.Org == canaryOrg {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "this organisation is the engine's own"}
	}
	return en.open(c)
}

// open is enter for whoever it is.
func (en *entrance) open(c haft.Call) (*execution, error) {
	if err := checkCall(c); err != nil {
		return nil, err
	}
	ours := c.ID == ""
	switch {
	case ours:
		c.ID = haft.NewCallID()
	case en.calls.executionOf(c.ID) != nil: // of whichever organisation
		return nil, errIDRuns()
	}
	now := time.Now()
	ex := &execution{call: c, arrival: arrival{ours: ours, sure: ours || c.Chain == "", began: now,
		seen: en.permissions.changes.Load()},
		tracking: tracking{done: make(chan struct{})}}
	ex.rec = haft.Record{Status: haft.StatusRunning, Owner: en.members.Owner(), Created: now}
	ex.rec.Call, ex.rec.Redacted = en.redaction.kept(c)
	ex.env = en.redaction.env.New(c.Env)
	en.journal.Begin(c.ID)
	return ex, nil
}

// checkCall bounds what a call carries.
func checkCall(c haft.Call) error {
	wrong := func(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
	size := 0
	for k, v := range c.Env {
		size += len(k) + len(v)
	}
	switch {
	case c.Tool == "" || len(c.Tool) > maxName:
		return wrong("a call names a tool")
	case len(c.ID) > maxName || strings.ContainsFunc(string(c.ID), func(r rune) bool { return r <= ' ' || r > '~' }):
		return wrong("the id of a call is made of printable characters")
	case len(c.Args) > maxArgs:
		return wrong(fmt.Sprintf("the arguments have %d bytes, %d is the most", len(c.Args), maxArgs))
	case len(c.IdempotencyKey) > maxName || len(c.Turn) > maxName || len(c.Trace) > maxName || len(c.Digest) > maxName:
		return wrong(fmt.Sprintf("keys, turns, traces and digests have at most %d characters", maxName))
	case len(c.Env) > MaxEnv || size > maxEnvKB:
		return wrong(fmt.Sprintf("the environment of a call has at most %d variables and %d bytes", MaxEnv, maxEnvKB))
	}
	return nil
}

// A sealed is what is kept of a call that has yet to run.
type sealed struct {
	Args  json.RawMessage   `json:"args,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Files []haft.CallFile   `json:"files,omitempty"`
	Async bool              `json:"async,omitempty"`
	// Free says that no request for approval is asked for before it runs. Calls that were
	// kept by an older haft do not say it.
	Free bool `json:"free,omitempty"`
}

// seal returns what has to be kept so that f can run later.
func (k *callSealer) seal(ex *execution) (json.RawMessage, error) {
	raw, err := json.Marshal(sealed{Args: ex.call.Args, Env: ex.call.Env, Files: ex.call.Files, Async: ex.async,
		Free: ex.approval == nil})
	if err != nil {
		return nil, fmt.Errorf("seal the call: %w", err)
	}
	if k.cfg.Sealer == nil {
		return raw, nil
	}
	box, err := k.cfg.Sealer.Seal(raw, []byte(ex.call.ID))
	if err != nil {
		return nil, fmt.Errorf("seal the call: %w", err)
	}
	return json.Marshal(box)
}

// unseal makes an execution of a record that has yet to run.
func (k *callSealer) unseal(r *haft.Record) (*execution, error) {
	if r.Status.Final() {
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the call has ended already"}
	}
	raw := []byte(r.Sealed)
	// One that is no text was kept before there was a Sealer.
	if bytes.HasPrefix(raw, []byte(`"`)) {
		if k.cfg.Sealer == nil {
			return nil, fmt.Errorf("open the sealed call %s: %w", r.Call.ID, chains.ErrSealed)
		}
		var box []byte
		if err := json.Unmarshal(raw, &box); err != nil {
			return nil, fmt.Errorf("open the sealed call %s: %w", r.Call.ID, err)
		}
		var err error
		if raw, err = k.cfg.Sealer.Open(box, []byte(r.Call.ID)); err != nil {
			return nil, fmt.Errorf("open the sealed call %s: %w: %w", r.Call.ID, chains.ErrSealed, err)
		}
	}
	var s sealed
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("read the sealed call %s: %w", r.Call.ID, err)
	}
	c := r.Call
	c.Args, c.Env, c.Files = s.Args, s.Env, s.Files
	ex := k.taken(c, *r)
	ex.free, ex.rec.Owner = s.Free, k.members.Owner()
	return ex, nil
}

// taken makes an execution of a call that was kept: nobody waits for it, and its credential
// has to be looked at again.
func (k *callSealer) taken(c haft.Call, rec haft.Record) *execution {
	return &execution{call: c, rec: rec, env: k.redaction.env.New(c.Env),
		arrival: arrival{async: true, accepted: true, confirm: true, began: time.Now(),
			seen: k.permissions.changes.Load()},
		tracking: tracking{done: make(chan struct{})}}
}
