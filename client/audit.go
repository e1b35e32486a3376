package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"

	"haft"
)

// Audit reads the audit log of the organisation.
type Audit struct{ api *transport }

// auditParams are the parameters of a filter.
func auditParams(f haft.AuditFilter) url.Values {
	return params("kind", f.Kind, "user", f.User, "agent", f.Agent, "tool", f.Tool, "call", string(f.Call),
		"since", instant(f.Since), "until", instant(f.Until), "sort", yes(f.Oldest, "time"))
}

// Export writes the audit of the organisation, or the entries that match a filter, as JSON
// lines. Without an error it is complete.
func (a *Audit) Export(ctx context.Context, p haft.Principal, f haft.AuditFilter, w io.Writer) error {
	return a.api.copy(ctx, query{path: "/v1/audit", as: p, values: auditParams(f)}, w)
}

// Keys returns the public keys with which exports are verified, as PEM.
func (a *Audit) Keys(ctx context.Context, p haft.Principal) ([]byte, error) {
	var text []byte
	err := a.api.read(ctx, query{path: "/v1/audit/keys", as: p}, &text)
	return text, err
}

// Entries yields the entries of the audit that fit f, each JSON as the server
// writes it.
func (a *Audit) Entries(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[json.RawMessage,
	error] {
	return list[json.RawMessage](ctx, a.api, query{path: "/v1/audit/entries", as: p, values: auditParams(f)},
		f.Limit)
}
