package engine

import (
	"haft"
	"haft/internal/circuit"
	"haft/internal/limit"
	"haft/policy"
)

// circuitOf names the circuit of the tool of a call.
func circuitOf(ex *execution) circuit.Tool {
	return circuit.Tool{Org: ex.call.Principal.Org, Digest: ex.tool.Tool.Version.Digest, ID: ex.tool.Tool.ID}
}

// admit refuses a call of a tool that is broken.
func (rn *runner) admit(ex *execution) error {
	retry, ok := rn.breaker.Admit(circuitOf(ex))
	if ok {
		return nil
	}
	r := refuse(haft.StatusError, haft.FailBroken, haft.RetrySame,
		"the tool has failed too often of late and is given a rest")
	r.failure.RetryAfter = haft.Millis(retry)
	return r
}

// report gives the outcome of a call to the circuit of its tool.
func (rn *runner) report(ex *execution) {
	rn.breaker.Report(circuitOf(ex), ex.res == nil || ex.res.Error != nil &&
		(policy.Transient(ex.res.Error.Kind) || ex.res.Status == haft.StatusLimit ||
			ex.res.Status == haft.StatusUnknown))
}

// blockName is who is blocked from what after a critical failure.
func blockName(ex *execution) string {
	p := ex.call.Principal
	return limit.Key(p.Org, p.Owner(), p.Agent, string(ex.tool.Tool.ID))
}

// unblocked refuses the call of somebody who is blocked.
func (au *authorizer) unblocked(ex *execution) error {
	left := au.blocks.Left(blockName(ex))
	if left == 0 {
		return nil
	}
	r := refuse(haft.StatusDenied, haft.FailDenied, haft.RetrySame,
		"after a critical failure this caller cannot use the tool for a while").by("block")
	r.failure.RetryAfter = haft.Millis(left)
	return r
}
