package engine

import (
	"context"

	"haft"
	"haft/internal/callenv"
	"haft/internal/secret"
)

// checkEarly is [callenv.CheckLabels] for a call whose key is about to be kept, before its agent
// is known.
func (rd *redaction) checkEarly(ctx context.Context, ex *execution) error {
	stored, err := rd.storedFor(ctx, ex.call.Principal)
	if err != nil {
		return err
	}
	return callenv.CheckLabels(ex.call, ex.ours, rd.env.Holds(stored, ex.call.Env))
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
	return callenv.CheckPlan(plan, rd.env.Strict(stored).ContainsValue)
}
