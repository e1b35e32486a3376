package server

import (
	"context"

	"haft"
)

// operatorHandlers serve the operations on the whole server.
type operatorHandlers struct{ operator haft.Operator }

// operate registers the operations on the whole server.
func (a *api) operate() {
	h := operatorHandlers{a.s.service}
	g := a.group("operation", haft.Operate, haft.Operate)
	register(g.op("POST /v1/stop", "stop", "Refuse new calls of everybody until resumed, also after a restart"),
		h.stop)
	register(g.op("POST /v1/resume", "resume", "Take calls again"), h.resume)
}

type stop struct {
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"400" doc:"Is told to those whose calls are refused."`
		Kill   bool   `json:"kill,omitempty" doc:"End the calls that run; else they may finish."`
	}
}

func (h operatorHandlers) stop(ctx context.Context, who Identity, in *stop) (*struct{}, error) {
	if err := who.operator(haft.Operate); err != nil {
		return nil, err
	}
	if in.Body == nil {
		return nil, h.operator.Stop(ctx, who.Principal, "", false)
	}
	return nil, h.operator.Stop(ctx, who.Principal, in.Body.Reason, in.Body.Kill)
}

func (h operatorHandlers) resume(ctx context.Context, who Identity, _ *struct{}) (*struct{}, error) {
	if err := who.operator(haft.Operate); err != nil {
		return nil, err
	}
	return nil, h.operator.Resume(ctx, who.Principal)
}
