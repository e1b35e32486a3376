package engine

import (
	"context"
	"encoding/json"

	"haft"
)

// canaryOrg is on whose behalf the engine calls itself. Nobody else can be it.
const canaryOrg = "haft/canary"

// canaryRules let the canary call, whatever the policy of the server says: whether
// the machine works is not a question of who may use it.
const canaryRules = `{"version": 1, "roles": {"canary": ["tool:*"]}}`

// Canary makes a real call through the whole pipeline, to see whether this process
// can do its work. The tool must be a built-in one.
func (en *entrance) Canary(ctx context.Context, tool string, args json.RawMessage) (*haft.Result, error) {
	ex, err := en.open(haft.Call{Tool: tool, Args: args,
		Principal: haft.Principal{Org: canaryOrg, User: "canary", Roles: []string{"canary"}}})
	if err != nil {
		return nil, err
	}
	return en.pipeline.runCall(ctx, ex)
}
