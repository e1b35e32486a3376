package chains

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"haft"
	"haft/internal/secret"
)

// sealedPlan is what is kept of the arguments and the input of a chain that has yet
// to go on: encrypted, in the place of the input.
type sealedPlan struct {
	Sealed []byte `json:"$sealed"`
}

// keptChain returns a chain as it is kept. While it is open its plan is sealed: it
// is needed whole, and may hold anything. Afterwards it is kept without secrets.
func (ch *Chains) keptChain(ctx context.Context, c haft.Chain) (haft.Chain, error) {
	if c.Status.Final() {
		return ch.shownChain(ctx, c)
	}
	if ch.cfg.Sealer == nil {
		return c, nil
	}
	raw, err := json.Marshal(c.Plan)
	if err != nil {
		return c, fmt.Errorf("write the plan of a chain: %w", err)
	}
	var s sealedPlan
	if s.Sealed, err = ch.cfg.Sealer.Seal(raw, []byte(c.ID)); err != nil {
		return c, fmt.Errorf("seal the plan of a chain: %w", err)
	}
	c.Plan = bare(c.Plan)
	for i := range c.Plan.Steps {
		c.Plan.Steps[i].Tool, c.Plan.Steps[i].If = "", "" // sealed with the rest
	}
	c.Plan.Input, err = json.Marshal(s)
	return c, err
}

// bare is a plan without arguments and input.
func bare(p haft.Plan) haft.Plan {
	steps := make([]haft.Step, len(p.Steps))
	for i, s := range p.Steps {
		s.Args = nil
		steps[i] = s
	}
	p.Steps, p.Input = steps, nil
	return p
}

// openChain reads a chain that is kept. If this server has no key for its plan the error
// wraps ErrSealed, and the chain is without it.
func (ch *Chains) openChain(ctx context.Context, org string, id haft.ChainID) (*haft.Chain, error) {
	c, err := ch.store.Chains.Chain(ctx, org, id)
	if err != nil || c.Status.Final() {
		return c, err
	}
	if !bytes.HasPrefix(c.Plan.Input, []byte(`{"$sealed":`)) {
		return c, nil // of an older haft
	}
	var s sealedPlan
	if err := json.Unmarshal(c.Plan.Input, &s); err != nil {
		return nil, fmt.Errorf("read the sealed plan of a chain: %w", err)
	}
	if c.Plan.Input = nil; ch.cfg.Sealer == nil {
		return c, fmt.Errorf("open the plan of a chain: %w", ErrSealed)
	}
	raw, err := ch.cfg.Sealer.Open(s.Sealed, []byte(c.ID))
	if err != nil {
		return c, fmt.Errorf("open the plan of a chain: %w: %w", ErrSealed, err)
	}
	c.Plan = haft.Plan{}
	if err := json.Unmarshal(raw, &c.Plan); err != nil {
		return nil, fmt.Errorf("read the plan of a chain: %w", err)
	}
	return c, nil
}

// shownChain returns a chain whose plan may be seen: without arguments whose names
// mean secrets, and without stored values.
func (ch *Chains) shownChain(ctx context.Context, c haft.Chain) (haft.Chain, error) {
	r, err := ch.host.Secrets.CoverOf(ctx, c.Principal)
	if err != nil { // nobody can tell what in it is a secret
		c.Plan = bare(c.Plan)
		for i := range c.Plan.Steps {
			c.Plan.Steps[i].If = ""
		}
		return c, nil
	}
	plan := bare(c.Plan)
	for i, s := range c.Plan.Steps {
		plan.Steps[i].Args = ch.clean(r, s.Args)
	}
	plan.Input = ch.clean(r, c.Plan.Input)
	c.Plan = plan
	redactChain(&c, r)
	return c, nil
}

// clean removes what is secret by its name or by its value.
func (ch *Chains) clean(r *secret.Redactor, raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	out, _, err := ch.cfg.Names.Redact(raw)
	if err != nil {
		return nil
	}
	out, _ = r.JSON(out)
	return out
}

// leaveSealedChain is leaveSealed for a chain.
func (ch *Chains) leaveSealedChain(ctx context.Context, owner string, c *haft.Chain) error {
	ch.host.Process.NoteSealed()
	return ch.store.Chains.ReleaseChain(ctx, owner, c.ID)
}

// redactChain redacts every text of a chain that is not a result. Ids of
// steps were looked at when the plan came. The lists are its own afterwards.
func redactChain(c *haft.Chain, r *secret.Redactor) {
	c.Plan.Steps, c.Steps = slices.Clone(c.Plan.Steps), slices.Clone(c.Steps)
	for i := range c.Plan.Steps {
		s := &c.Plan.Steps[i]
		s.Tool, s.If = r.Text(s.Tool), r.Text(s.If)
	}
	for i := range c.Steps {
		c.Steps[i].Reason = r.Text(c.Steps[i].Reason)
	}
	if c.Error != nil {
		failure := *c.Error
		failure.Misfits = slices.Clone(failure.Misfits)
		failure.Message, failure.Type = r.Text(failure.Message), r.Text(failure.Type)
		failure.Traceback = r.Text(failure.Traceback)
		for i := range failure.Misfits {
			m := &failure.Misfits[i]
			m.Message, m.Pointer = r.Text(m.Message), r.Text(m.Pointer)
		}
		c.Error = &failure
	}
}
