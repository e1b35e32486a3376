package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"iter"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// maxPage bounds the bytes of one page of a list.
const maxPage = 1 << 20

// tools yields the tools that the caller has, after the one of that name.
func (v *view) tools(ctx context.Context, after string) iter.Seq2[haft.Tool, error] {
	f := haft.ToolFilter{After: after}
	if len(v.who.Tags) == 1 {
		f.Tag = v.who.Tags[0]
	}
	return v.visible(v.s.service.Tools(ctx, v.who.Principal, f))
}

// visible leaves out tools that the caller does not have or cannot use, and those that cannot be
// described to clients.
func (v *view) visible(all iter.Seq2[haft.Tool, error]) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		for t, err := range all {
			if err == nil && (!v.who.Has(t) || t.Unavailable != "" || !isObject(t.Version.Parameters)) {
				continue
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// isObject reports whether a schema is one of an object.
func isObject(raw json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(raw, &s) == nil && s.Type == "object"
}

// lazy reports whether the caller has so many tools that they are searched for.
func (v *view) lazy(ctx context.Context) (bool, error) {
	switch most := v.s.cfg.Lazy; {
	case most < 0:
		return false, nil
	case most == 1:
		return true, nil
	default:
		n := 0
		for _, err := range v.tools(ctx, "") {
			if err != nil {
				return false, err
			}
			if n++; n >= most {
				return true, nil
			}
		}
		return false, nil
	}
}

// fingerprint identifies the list of tools that the caller has.
func (v *view) fingerprint(ctx context.Context) (string, error) {
	h := sha256.New()
	for t, err := range v.tools(ctx, "") {
		if err != nil {
			return "", err
		}
		h.Write([]byte(t.Name + "\x00" + t.Version.Digest + "\x00")) // hash.Hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// rememberList stores the fingerprint of the list that clients know.
func (v *view) rememberList(ctx context.Context) error {
	v.mu.Lock()
	known := v.print != ""
	v.mu.Unlock()
	if known {
		return nil
	}
	print, err := v.fingerprint(ctx)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.print == "" {
		v.print = print
	}
	return nil
}

// listTools answers tools/list: what a program has of its own first, then the tools
// of the service page by page, or the two that stand for them.
func (v *view) listTools(ctx context.Context, r *mcp.ListToolsRequest, next mcp.MethodHandler) (mcp.Result, error) {
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	after, err := parseCursor(cursor)
	if err != nil {
		return nil, err
	}
	res := &mcp.ListToolsResult{Tools: []*mcp.Tool{}, Cacheable: mcp.Cacheable{CacheScope: "private"}}
	if cursor == "" {
		if res.Tools, err = v.own(ctx, next, r); err != nil {
			return nil, err
		}
		if err := v.rememberList(ctx); err != nil {
			return nil, toRPCError(err)
		}
	}
	few, err := v.lazy(ctx)
	if err != nil {
		return nil, toRPCError(err)
	}
	if few {
		if cursor == "" {
			res.Tools = append(res.Tools, findTool(), callToolTool())
		}
		return res, nil
	}
	size, n, last := 0, 0, ""
	for t, err := range v.tools(ctx, after) {
		if err != nil {
			return nil, toRPCError(err)
		}
		if n == v.s.cfg.Page || n > 0 && size > maxPage {
			res.NextCursor = makeCursor(last)
			break
		}
		shown := toolOf(t)
		if t.Name == codeMode {
			more, err := v.stubs(ctx)
			if err != nil {
				return nil, toRPCError(err)
			}
			shown.Description += more
		}
		res.Tools = append(res.Tools, shown)
		size += sizeOf(shown)
		n, last = n+1, t.Name
	}
	return res, nil
}

// own lists the tools that the program has besides those of the service.
func (v *view) own(ctx context.Context, next mcp.MethodHandler, r *mcp.ListToolsRequest) ([]*mcp.Tool, error) {
	own := []*mcp.Tool{}
	for {
		res, err := next(ctx, "tools/list", r)
		if err != nil {
			return nil, err
		}
		list, ok := res.(*mcp.ListToolsResult)
		if !ok {
			return own, nil
		}
		for _, t := range list.Tools {
			if t.Name != dispatch {
				own = append(own, t)
			}
		}
		if list.NextCursor == "" {
			return own, nil
		}
		r = &mcp.ListToolsRequest{Session: r.Session, Extra: r.Extra,
			Params: &mcp.ListToolsParams{Cursor: list.NextCursor}}
	}
}

// makeCursor makes a cursor behind the thing of that name.
func makeCursor(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte("after:" + name))
}

// parseCursor returns the name that a cursor stands behind.
func parseCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor[:min(len(cursor), 1024)])
	name, ok := strings.CutPrefix(string(raw), "after:")
	if err != nil || !ok || len(cursor) > 1024 {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not one of this list"}
	}
	return name, nil
}

// toolOf converts a tool to the form that clients get.
func toolOf(t haft.Tool) *mcp.Tool {
	out := &mcp.Tool{
		Name: t.Name, Title: t.Version.Annotations.Title, Description: t.Version.Description,
		InputSchema: t.Version.Parameters,
		Annotations: annotations(t.Version.Annotations),
	}
	if s := outputSchema(t.Version.Returns); s != nil {
		out.OutputSchema = s
	}
	return out
}

// annotations returns the claims of the author of a tool. Others have the defaults of MCP,
// which are the cautious ones.
func annotations(a haft.Annotations) *mcp.ToolAnnotations {
	if a == (haft.Annotations{}) {
		return nil
	}
	claimed := func(b *bool) bool { return b != nil && *b }
	return &mcp.ToolAnnotations{
		Title: a.Title, ReadOnlyHint: claimed(a.ReadOnly), DestructiveHint: a.Destructive,
		IdempotentHint: claimed(a.Idempotent), OpenWorldHint: a.OpenWorld,
	}
}

// wrapped is the property that a value stands in which is no object: older clients
// take objects only.
const wrapped = "result"

// outputSchema is the schema of structured content, or nil if there is none.
func outputSchema(returns json.RawMessage) json.RawMessage {
	if len(returns) == 0 {
		return nil
	}
	if isObject(returns) {
		return returns
	}
	var inner map[string]json.RawMessage
	if err := json.Unmarshal(returns, &inner); err != nil || len(inner) == 0 {
		return nil
	}
	if bytes.Contains(returns, []byte(`"$ref"`)) || bytes.Contains(returns, []byte(`"$dynamicRef"`)) {
		return nil // it would point elsewhere, one level deeper
	}
	out, err := json.Marshal(map[string]any{
		"type": "object", "properties": map[string]any{wrapped: returns}, "required": []string{wrapped},
	})
	if err != nil {
		return nil
	}
	return out
}

// sizeOf is how many bytes a tool has in a list.
func sizeOf(t *mcp.Tool) int {
	raw, err := json.Marshal(t)
	if err != nil {
		return 0
	}
	return len(raw)
}

// Tokens estimates how many tokens of a model's context a tool takes, at four bytes
// for each. Vendors count otherwise, each in its own way.
func Tokens(t haft.Tool) int { return (sizeOf(toolOf(t)) + 3) / 4 }
