package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// Bounds on the list of artifacts.
const (
	recentCalls  = 200 // that are looked through
	maxResources = 100
)

// listResources lists what recent calls of the caller left behind, after what the
// program has of its own.
func (v *view) listResources(ctx context.Context, method string, r *mcp.ListResourcesRequest,
	next mcp.MethodHandler) (mcp.Result, error) {
	res, err := next(ctx, method, r)
	list, ok := res.(*mcp.ListResourcesResult)
	if err != nil || !ok || list.NextCursor != "" || !v.who.Artifacts {
		return res, err
	}
	p := v.who.Principal
	f := haft.CallFilter{Org: p.Org, User: p.Owner(), Agent: p.Agent, Status: []haft.Status{haft.StatusSuccess},
		Limit: recentCalls}
	n := 0
	for rec, err := range v.s.service.Records(ctx, p, f) {
		if err != nil {
			return nil, toRPCError(err)
		}
		if rec.Result == nil || n >= maxResources {
			continue
		}
		for _, a := range rec.Result.Artifacts {
			if a.Size > int64(len(a.Data)) || n >= maxResources {
				continue // it was not kept
			}
			size := a.Size
			list.Resources = append(list.Resources, &mcp.Resource{
				URI: uriOf(rec.Call.ID, a.Name), Name: a.Name, MIMEType: a.ContentType, Size: size,
				Description: "left by a call of " + rec.Call.Tool,
			})
			n++
		}
	}
	return list, nil
}

// listTemplates adds how artifacts are addressed.
func (v *view) listTemplates(ctx context.Context, method string, r *mcp.ListResourceTemplatesRequest,
	next mcp.MethodHandler) (mcp.Result, error) {
	res, err := next(ctx, method, r)
	list, ok := res.(*mcp.ListResourceTemplatesResult)
	if err != nil || !ok || list.NextCursor != "" || !v.who.Artifacts {
		return res, err
	}
	list.ResourceTemplates = append(list.ResourceTemplates, &mcp.ResourceTemplate{
		Name: "artifact", Title: "Files of calls", URITemplate: scheme + "{call}/artifacts/{name}",
		Description: "A file that a call left behind, by the id of the call and the name of the file",
	})
	return list, nil
}

// readResource reads an artifact. What the caller may not see is not there.
func (v *view) readResource(ctx context.Context, r *mcp.ReadResourceRequest) (mcp.Result, error) {
	uri := r.Params.URI
	id, name, ok := parseURI(uri)
	if !ok || !v.who.Artifacts {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	list, err := v.artifacts(ctx, id)
	if err != nil {
		return nil, toRPCError(err)
	}
	a := artifactOf(list, name)
	if a == nil {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	return &mcp.ReadResourceResult{
		Contents: []*mcp.ResourceContents{contents(uri, *a)}, Cacheable: mcp.Cacheable{CacheScope: "private"},
	}, nil
}
