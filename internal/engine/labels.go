package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"haft"
	"haft/internal/secret"
)

// errLabel is wrapped by the refusal of a call that is named by a secret.
var errLabel = fmt.Errorf("a label holds a secret")

// label is a name that a caller chose.
type label struct{ what, text string }

// labels returns the names of a call that its caller chose, and by which it is kept and
// found again. Those cannot be redacted. The name of the tool is not among them: it is
// that of a tool, or it is redacted.
func (ex *execution) labels() []label {
	c := ex.call
	all := []label{
		{"idempotency_key", c.IdempotencyKey}, {"turn", c.Turn}, {"trace", c.Trace}, {"digest", c.Digest},
		{"sandbox", c.Sandbox}, {"parent", string(c.Parent)},
	}
	if !ex.ours {
		all = append(all, label{"id", string(c.ID)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		all = append(all, label{"env", name})
	}
	return all
}

// checkLabels refuses a call one of whose labels holds a stored secret or a secret of
// its own environment, in whatever form the redactor would find it. It is asked before
// anything of the call is kept. Values that are no secrets by their name and short do
// not count: a turn may have the word production in it.
func (rd *redaction) checkLabels(ex *execution, stored *Stored) error {
	if stored == nil && len(ex.call.Env) == 0 {
		return nil // there is no secret
	}
	var known *secret.Redactor
	if stored != nil {
		known = stored.secretive(rd)
	}
	for _, l := range ex.labels() {
		if l.text != "" && (known.ContainsValue(l.text) || rd.showsEnv(ex.call.Env, l)) {
			return &haft.Error{Code: haft.CodeInvalid, Err: errLabel,
				Message: "the " + l.what + " of the call holds a secret, and would be kept in the clear: choose " +
					"another"}
		}
	}
	return nil
}

// showsEnv reports whether a label holds a secret of the call's own environment.
func (rd *redaction) showsEnv(env map[string]string, l label) bool {
	for name, text := range env {
		if len(text) >= secret.MinValue && rd.secretive(name, text) && strings.Contains(l.text, text) {
			return true
		}
	}
	return false
}

// checkEarly is checkLabels for a call whose key is about to be kept, before its agent
// is known.
func (rd *redaction) checkEarly(ctx context.Context, ex *execution) error {
	stored, err := rd.storedFor(ctx, ex.call.Principal)
	if err != nil {
		return err
	}
	return rd.checkLabels(ex, stored)
}

// storedFor returns what is stored for calls of a principal, or nil without a vault.
func (rd *redaction) storedFor(ctx context.Context, p haft.Principal) (*Stored, error) {
	if rd.cfg.Vault == nil {
		return nil, nil
	}
	var agent haft.AgentID
	if p.Agent != "" {
		if a, err := rd.store.Agent(ctx, p.Org, p.Agent); err == nil {
			agent = a.ID
		}
	}
	stored, err := rd.cfg.Vault.Stored(ctx, p.Org, agent)
	if err != nil {
		return nil, fmt.Errorf("read the stored environment: %w", err)
	}
	return stored, nil
}

// coverOf returns what removes the secrets of a principal's calls, for what is told of
// none of them.
func (rd *redaction) coverOf(ctx context.Context, p haft.Principal) (*secret.Redactor, error) {
	stored, err := rd.storedFor(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case stored == nil:
		return rd.plain, nil
	}
	return stored.cover(rd.cfg.Personal), nil
}

// refuseLabel ends a call that is named by a secret. It has no record, since that
// would be found by its name; the audit says that it was refused.
func (pl *pipeline) refuseLabel(ctx context.Context, ex *execution, err error) error {
	pl.journal.Forget(ex.call.ID)
	pl.entrance.unclaim(ctx, ex)
	pl.recorder.endTrace(ex, nil, err)
	body := map[string]any{"reason": haft.MessageOf(err)}
	if logged := pl.permissions.Log(ctx, ex.named().Principal, ex.named().Principal.Org, "call.refused",
		body); logged != nil {
		return logged
	}
	return err
}

// secretive returns what finds the stored values that are secrets by their name or
// their length. It is made once.
func (s *Stored) secretive(rd *redaction) *secret.Redactor {
	s.strictOnce.Do(func() {
		var values []secret.Named
		for _, v := range slices.Concat(s.Org, s.Agent, s.Hidden) {
			if rd.secretive(v.Name, v.Value.Reveal()) {
				values = append(values, v)
			}
		}
		s.strict = secret.NewRedactor(secret.Config{Values: values})
	})
	return s.strict
}

// cleanBody redacts the body of an entry of the audit that is about no call.
func (rd *redaction) cleanBody(ctx context.Context, org string, raw []byte) []byte {
	raw, _ = rd.strictOf(ctx, org).JSON(raw)
	return raw
}

// strictOf returns what finds the stored secrets of an organisation, or nil if there
// are none, or if they cannot be read: what is done to manage a server that has lost
// its key must still be written down.
func (rd *redaction) strictOf(ctx context.Context, org string) *secret.Redactor {
	if rd.cfg.Vault == nil || org == "" {
		return nil
	}
	stored, err := rd.cfg.Vault.Stored(ctx, org, "")
	if err != nil {
		return nil
	}
	return stored.secretive(rd)
}

// checkSteps refuses a plan one of whose steps is named by a stored secret: its id is
// kept, and is how others refer to it.
func (rd *redaction) checkSteps(ctx context.Context, p haft.Principal, plan haft.Plan) error {
	stored, err := rd.storedFor(ctx, p)
	if err != nil || stored == nil {
		return err
	}
	known := stored.secretive(rd)
	for i, s := range plan.Steps {
		if known.ContainsValue(s.ID) {
			return &haft.Error{Code: haft.CodeInvalid, Err: errLabel,
				Message: fmt.Sprintf("the id of step %d holds a secret, and would be kept in the clear: choose another",
					i+1)}
		}
	}
	return nil
}
