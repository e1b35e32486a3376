package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// dataHandlers serve the operations on all data of an organisation or a user.
type dataHandlers struct {
	eraser haft.Eraser
	errors errorWriter
}

// erase registers the operations on all data of an organisation or a user.
func (a *api) erase() {
	h := dataHandlers{a.s.cfg.Eraser, a.s.errors}
	g := a.group("retention", haft.DataExport, haft.DataErase)
	register(g.needs(h.eraser != nil, "export").op("GET /v1/export", "export-data",
		"Export what is kept of an organisation or a user, as JSON lines").
		about("Each line has a `type` and `data`. Values of secrets are not in it.").writes(textContent(jsonLines)),
		h.exportData)
	register(g.needs(h.eraser != nil, "erasure").op("POST /v1/erase", "erase-data",
		"Erase what is kept of an organisation or a user, for good").
		about("Calls are cancelled first. Entries of the audit lose their content; `haft audit verify` still "+
			"verifies them and says so."), h.eraseData)
}

// ExportOf says whose data is meant.
type ExportOf struct {
	Org  string `query:"org" maxLength:"200" doc:"The organisation, for the operator of the server; that of the caller if it is left out."`
	User string `query:"user" maxLength:"200" doc:"One user; all of the organisation if it is left out."`
}

func (h dataHandlers) exportData(ctx context.Context, who Identity, in *ExportOf) (*huma.StreamResponse, error) {
	if err := ofOrg(who, haft.DataExport, in.Org); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		h.errors.streamTo(ctx, hc, func(out *lazyWriter) error {
			return h.eraser.Export(ctx, who.Principal, haft.Subject{Org: in.Org, User: in.User}, out)
		})
	}}, nil
}

type eraseOf struct {
	Body struct {
		Org  string `json:"org" minLength:"1" maxLength:"200" doc:"The organisation: that of the caller, or for the operator of the server any."`
		User string `json:"user,omitempty" maxLength:"200" doc:"One user; if it is left out, everything of the organisation."`
	}
}

func (h dataHandlers) eraseData(ctx context.Context, who Identity, in *eraseOf) (*shown[haft.Erasure], error) {
	if err := ofOrg(who, haft.DataErase, in.Body.Org); err != nil {
		return nil, err
	}
	return show(h.eraser.Erase(ctx, who.Principal, haft.Subject{Org: in.Body.Org, User: in.Body.User}))
}
