package server

import (
	"context"
	"net/http"

	"haft"
)

type runPlan struct {
	Body struct {
		haft.Plan
		Agent string `json:"agent,omitempty" maxLength:"200" doc:"The agent that calls, by name or id."`
	}
}

type oneChain struct {
	Status   int
	Location string `header:"Location"`
	Body     haft.Chain
}

// chainHandlers serve the operations on chains of calls.
type chainHandlers struct {
	plans  haft.Planner
	agents haft.Agents
}

// chains registers the operations on chains of calls.
func (a *api) chains() {
	h := chainHandlers{a.s.service, a.s.service}
	g := a.group("chains", haft.CallsRead, haft.CallsWrite)
	register(g.op("POST /v1/chains", "run-chain", "Run calls whose arguments refer to earlier results").
		about("200 has a chain that has ended, 202 one that waits for a person or runs in the background.").
		answers(0, http.StatusAccepted), h.runChain)
	register(g.op("GET /v1/chains/{id}", "show-chain", "Show where a chain stands"), h.showChain)
}

func (h chainHandlers) runChain(ctx context.Context, who Identity, in *runPlan) (*oneChain, error) {
	p, err := who.As(ctx, h.agents, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	c, err := h.plans.Run(ctx, p, in.Body.Plan)
	if err != nil {
		return nil, err
	}
	out := &oneChain{Status: http.StatusOK, Location: "/v1/chains/" + string(c.ID), Body: *c}
	if !c.Status.Final() {
		out.Status = http.StatusAccepted
	}
	return out, nil
}

type chainRef struct {
	ID haft.ChainID `path:"id" maxLength:"200"`
}

func (h chainHandlers) showChain(ctx context.Context, who Identity, in *chainRef) (*oneChain, error) {
	c, err := h.plans.Chain(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	return &oneChain{Status: http.StatusOK, Body: *c}, nil
}
