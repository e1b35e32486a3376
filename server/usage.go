package server

import (
	"context"
	"time"

	"haft"
)

// usageHandlers serve the operation on what calls used.
type usageHandlers struct {
	meter  haft.Meter
	agents haft.Agents
}

// usage registers the operation on what calls used.
func (a *api) usage() {
	h := usageHandlers{a.s.cfg.Meter, a.s.service}
	g := a.group("usage", haft.UsageRead, haft.UsageRead).needs(h.meter != nil, "usage")
	register(g.op("GET /v1/usage", "usage", "Sum up what calls used, by tool, user, agent and period").
		about("Calls are counted when they end, by the hour (UTC)."), h.usage)
}

type usageQuery struct {
	From  time.Time `query:"from" doc:"From the hour of this time on; 30 days ago if it is left out."`
	Until time.Time `query:"until" doc:"Up to this time; now if it is left out."`
	Tool  string    `query:"tool" maxLength:"200"`
	User  string    `query:"user" maxLength:"200"`
	Agent string    `query:"agent" maxLength:"200" doc:"The id or name of an agent."`
	By    []string  `query:"by" maxItems:"6" enum:"tool,user,agent,hour,day,month" doc:"What to tell apart, with commas between."`
	Limit int       `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"How many sums to give at most; of each period those with the most calls come first."`
}

type usageSums struct {
	Body struct {
		Data []haft.UsageSum `json:"data" nullable:"false"`
	}
}

func (h usageHandlers) usage(ctx context.Context, who Identity, in *usageQuery) (*usageSums, error) {
	q := haft.UsageQuery{From: in.From, Until: in.Until, Tool: in.Tool, User: in.User,
		Agent: agentID(ctx, h.agents, who, in.Agent), Limit: in.Limit}
	for _, by := range in.By {
		q.By = append(q.By, haft.UsageBy(by))
	}
	sums, err := h.meter.Usage(ctx, who.Principal, q)
	if err != nil {
		return nil, err
	}
	out := &usageSums{}
	out.Body.Data = append([]haft.UsageSum{}, sums...)
	return out, nil
}
