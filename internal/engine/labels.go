package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"haft"
	"haft/internal/callenv"
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
	for _, f := range c.Files {
		all = append(all, label{"path of a file", f.Path}, label{"id of a file", string(f.ID)})
	}
	return all
}

// checkLabels refuses a call one of whose labels holds a secret. It is asked before
// anything of the call is kept. Values that are no secrets by their name and short do
// not count: a turn may have the word production in it.
func checkLabels(ex *execution, holdsSecret func(text string) bool) error {
	if holdsSecret == nil {
		return nil
	}
	for _, l := range ex.labels() {
		if l.text != "" && holdsSecret(l.text) {
			return &haft.Error{Code: haft.CodeInvalid, Err: errLabel,
				Message: "the " + l.what + " of the call holds a secret, and would be kept in the clear: choose " +
					"another"}
		}
	}
	return nil
}

// checkEarly is checkLabels for a call whose key is about to be kept, before its agent
// is known.
func (rd *redaction) checkEarly(ctx context.Context, ex *execution) error {
	stored, err := rd.storedFor(ctx, ex.call.Principal)
	if err != nil {
		return err
	}
	return checkLabels(ex, rd.env.Holds(stored, ex.call.Env))
}

// storedFor returns what is stored for calls of a principal, or nil without a vault.
func (rd *redaction) storedFor(ctx context.Context, p haft.Principal) (*callenv.Stored, error) {
	if rd.cfg.Vault == nil {
		return nil, nil
	}
	var agent haft.AgentID
	if p.Agent != "" {
		if a, err := rd.store.Agents.Agent(ctx, p.Org, p.Agent); err == nil {
			agent = a.ID
		}
	}
	return rd.env.Stored(ctx, p.Org, agent)
}

// coverOf returns what removes the secrets of a principal's calls, for texts that are about
// none of them.
func (rd *redaction) coverOf(ctx context.Context, p haft.Principal) (*secret.Redactor, error) {
	stored, err := rd.storedFor(ctx, p)
	if err != nil {
		return nil, err
	}
	return rd.env.Cover(stored), nil
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

// cleanBody redacts the body of an entry of the audit that is about no call.
func (rd *redaction) cleanBody(ctx context.Context, org string, raw []byte) []byte {
	raw, _ = rd.env.StrictOf(ctx, org).JSON(raw)
	return raw
}

// checkSteps refuses a plan one of whose steps is named by a stored secret: its id is
// kept, and is how others refer to it.
func (rd *redaction) checkSteps(ctx context.Context, p haft.Principal, plan haft.Plan) error {
	stored, err := rd.storedFor(ctx, p)
	if err != nil || stored == nil {
		return err
	}
	known := rd.env.Strict(stored)
	for i, s := range plan.Steps {
		if known.ContainsValue(s.ID) {
			return &haft.Error{Code: haft.CodeInvalid, Err: errLabel,
				Message: fmt.Sprintf("the id of step %d holds a secret, and would be kept in the clear: choose another",
					i+1)}
		}
	}
	return nil
}
