package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/internal/modelapi"
)

// maxInline bounds the files that one result shows, in bytes. Larger files are linked.
const maxInline = 4 << 20

// resultOf says what became of a call.
func (v *view) resultOf(t haft.Tool, r *haft.Result) *mcp.CallToolResult {
	text, _ := modelapi.ResultText(r)
	out := &mcp.CallToolResult{Content: []mcp.Content{}, IsError: r.Status != haft.StatusSuccess, Meta: metaOf(r)}
	p := parts{v: v, r: r, left: maxInline, shown: map[string]bool{}}
	if len(r.Content) > 0 && r.Status == haft.StatusSuccess ||
		len(r.Content) > 0 && r.Error != nil && r.Error.Kind == haft.FailException {
		for _, c := range r.Content {
			if shown := p.part(c); shown != nil {
				out.Content = append(out.Content, shown)
			}
		}
	} else {
		out.Content = append(out.Content, &mcp.TextContent{Text: text})
	}
	for _, a := range r.Artifacts {
		if !p.shown[a.Name] {
			out.Content = append(out.Content, p.file(a))
		}
	}
	if r.Status == haft.StatusSuccess {
		v.structure(t, r, out)
	}
	return out
}

// structure adds the value as data, in the form that the tool's output schema
// promises. Clients refuse a result that has a schema and no such data.
func (v *view) structure(t haft.Tool, r *haft.Result, out *mcp.CallToolResult) {
	schema := outputSchema(t.Version.Returns)
	value := bytes.TrimSpace(r.Value)
	object := len(value) > 0 && value[0] == '{'
	otherType := slices.ContainsFunc(r.Notices,
		func(n string) bool { return strings.HasPrefix(n, haft.NoticeOtherType) })
	switch {
	case otherType && schema != nil:
		out.IsError = true // clients refuse data that does not fit
	case r.Truncated.Value > 0 && schema != nil:
		out.IsError = true
		out.Content = append([]mcp.Content{&mcp.TextContent{Text: "[the value is too long to be given as data; its " +
			"beginning follows. Ask for less.]"}}, out.Content...)
	case r.Truncated.Value > 0:
	case schema != nil && isObject(t.Version.Returns), schema == nil && object:
		if object {
			out.StructuredContent = json.RawMessage(value)
		}
	case schema != nil:
		out.StructuredContent = map[string]json.RawMessage{wrapped: value}
	}
}

// metaOf returns facts about a result for programs.
func metaOf(r *haft.Result) mcp.Meta {
	m := mcp.Meta{"haft/call": string(r.Call), "haft/status": string(r.Status)}
	if r.Approval != "" {
		m["haft/approval"] = string(r.Approval)
	}
	if r.Error != nil {
		why := map[string]any{"kind": r.Error.Kind, "retry": r.Error.Retry}
		if r.Error.RetryAfter > 0 {
			why["retry_after_ms"] = r.Error.RetryAfter
		}
		m["haft/error"] = why
	}
	return m
}

// parts makes the parts of one result.
type parts struct {
	v     *view
	r     *haft.Result
	left  int // bytes that may still be shown
	shown map[string]bool
}

// artifact finds the data of a part.
func (p *parts) artifact(name string) (haft.Artifact, bool) {
	for _, a := range p.r.Artifacts {
		if a.Name == name {
			return a, true
		}
	}
	return haft.Artifact{}, false
}

// part is one part of the content that a tool made.
func (p *parts) part(c haft.Content) mcp.Content {
	hints := audience(c.Audience)
	a, ok := p.artifact(c.Artifact)
	if c.Artifact != "" && !ok {
		return &mcp.TextContent{Text: "[a part is missing: its content was not kept]"}
	}
	if ok {
		p.shown[a.Name] = true
	}
	switch c.Type {
	case haft.ContentText:
		return &mcp.TextContent{Text: c.Text, Annotations: hints}
	case haft.ContentLink:
		link := &mcp.ResourceLink{URI: c.URI, Name: c.Name, Title: c.Title, Description: c.Description,
			MIMEType: c.MIME, Annotations: hints}
		if c.Size > 0 {
			link.Size = &c.Size
		}
		return link
	case haft.ContentResource:
		res := &mcp.ResourceContents{URI: c.URI, MIMEType: c.MIME, Text: c.Text}
		if ok {
			if !p.fitsInline(a) {
				return p.link(a)
			}
			res.Blob, res.Text = a.Data, ""
			if res.MIMEType == "" {
				res.MIMEType = a.ContentType
			}
		}
		return &mcp.EmbeddedResource{Resource: res, Annotations: hints}
	}
	if ok {
		return p.file(a)
	}
	return nil
}

// audience makes the annotation.
func audience(roles []string) *mcp.Annotations {
	if len(roles) == 0 {
		return nil
	}
	a := &mcp.Annotations{}
	for _, r := range roles {
		a.Audience = append(a.Audience, mcp.Role(r))
	}
	return a
}

// fitsInline reports whether a file is shown whole, and counts its bytes.
func (p *parts) fitsInline(a haft.Artifact) bool {
	if a.Size > int64(len(a.Data)) || len(a.Data) > p.left {
		return false
	}
	p.left -= len(a.Data)
	return true
}

// file shows an image or sound, and links all others.
func (p *parts) file(a haft.Artifact) mcp.Content {
	kind, _, _ := strings.Cut(a.ContentType, "/")
	if (kind == "image" || kind == "audio") && p.fitsInline(a) {
		if kind == "image" {
			return &mcp.ImageContent{Data: a.Data, MIMEType: a.ContentType}
		}
		return &mcp.AudioContent{Data: a.Data, MIMEType: a.ContentType}
	}
	return p.link(a)
}

// link points to a file, or names it where the caller may not read it.
func (p *parts) link(a haft.Artifact) mcp.Content {
	if !p.v.who.Artifacts {
		return &mcp.TextContent{Text: "[file " + a.Name + ", " + a.ContentType + ": it cannot be shown here]"}
	}
	size := a.Size
	return &mcp.ResourceLink{URI: uriOf(p.r.Call, a.Name), Name: a.Name, MIMEType: a.ContentType, Size: &size}
}

// scheme begins the addresses of artifacts.
const scheme = "haft://calls/"

// uriOf is the address of an artifact.
func uriOf(call haft.CallID, name string) string {
	return scheme + url.PathEscape(string(call)) + "/artifacts/" + url.PathEscape(name)
}

// parseURI reads the address of an artifact.
func parseURI(uri string) (call haft.CallID, name string, ok bool) {
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok || len(uri) > 2048 {
		return "", "", false
	}
	id, file, ok := strings.Cut(rest, "/artifacts/")
	if !ok {
		return "", "", false
	}
	i, err1 := url.PathUnescape(id)
	f, err2 := url.PathUnescape(file)
	return haft.CallID(i), f, err1 == nil && err2 == nil && i != "" && f != ""
}

// contents is a file as resources/read returns it.
func contents(uri string, a haft.Artifact) *mcp.ResourceContents {
	c := &mcp.ResourceContents{URI: uri, MIMEType: a.ContentType}
	if strings.HasPrefix(a.ContentType, "text/") && utf8.Valid(a.Data) {
		c.Text = string(a.Data)
		return c
	}
	c.Blob = a.Data
	if c.Blob == nil {
		c.Blob = []byte{}
	}
	return c
}
