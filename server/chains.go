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

// chains are the operations on chains of calls.
func (a *api) chains() {
	g := a.group("chains", haft.CallsRead, haft.CallsWrite)
	register(g.op("POST /v1/chains", "run-chain", "Run calls whose arguments refer to earlier results").
		about("200 has a chain that has ended, 202 one that waits for a person or runs in the background.").
		answers(0, http.StatusAccepted), a.s.runChain)
	register(g.op("GET /v1/chains/{id}", "show-chain", "Show where a chain stands"), a.s.showChain)
}

func (s *Server) runChain(ctx context.Context, who Identity, in *runPlan) (*oneChain, error) {
	p, err := s.principalFor(ctx, who, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	c, err := s.service.Run(ctx, p, in.Body.Plan)
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

func (s *Server) showChain(ctx context.Context, who Identity, in *chainRef) (*oneChain, error) {
	c, err := s.service.Chain(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	return &oneChain{Status: http.StatusOK, Body: *c}, nil
}
