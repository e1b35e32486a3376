package client

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"haft"
)

// Data exports and erases the data of an organisation or a user, and sets how long calls are
// kept. It implements [haft.Eraser] and [haft.Retainer].
type Data struct{ api *transport }

var (
	_ haft.Eraser   = (*Data)(nil)
	_ haft.Retainer = (*Data)(nil)
)

// Export implements [haft.Eraser].
func (d *Data) Export(ctx context.Context, p haft.Principal, of haft.Subject, w io.Writer) error {
	return d.api.copy(ctx, query{path: "/v1/export", as: p, values: params("org", of.Org, "user", of.User)}, w)
}

// Erase implements [haft.Eraser].
func (d *Data) Erase(ctx context.Context, p haft.Principal, of haft.Subject) (*haft.Erasure, error) {
	of.Org = cmp.Or(of.Org, p.Org)
	return get[haft.Erasure](ctx, d.api, query{method: http.MethodPost, path: "/v1/erase", as: p, body: of})
}

// Retention implements [haft.Retainer].
func (d *Data) Retention(ctx context.Context, p haft.Principal, org string) (*haft.Kept, error) {
	return get[haft.Kept](ctx, d.api, query{path: "/v1/retention", values: params("org", org), as: p})
}

// SetRetention implements [haft.Retainer].
func (d *Data) SetRetention(ctx context.Context, p haft.Principal, org string, r haft.Retention) (*haft.Kept, error) {
	return get[haft.Kept](ctx, d.api, query{method: http.MethodPut, path: "/v1/retention", values: params("org", org),
		as: p, body: r})
}
