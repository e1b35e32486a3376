package app

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"haft"
	"haft/internal/egress"
	"haft/internal/secret"
)

// permit reports why an MCP server may not be used any more as it was: it was removed,
// disabled or changed, or it is a command that policy does not let its organisation run
// with those directories. The pool asks it about every session whenever something has
// changed; [upstreams.place] decides about every start.
func (u *upstreams) permit(ctx context.Context, s haft.MCPServer) error {
	now, err := u.service.Store.MCPServer(ctx, s.Org, s.ID)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return &haft.Error{Code: haft.CodeDenied, Message: "the server was removed"}
	case err != nil:
		return err
	case now.Disabled:
		return &haft.Error{Code: haft.CodeDenied, Message: "the server was disabled"}
	case now.Revision() != s.Revision():
		return &haft.Error{Code: haft.CodeDenied, Message: "the server was changed"}
	}
	if err := u.service.Engine.CheckServerNetwork(ctx, s); err != nil {
		return err
	}
	if s.Transport != haft.MCPStdio {
		return nil
	}
	h, err := u.hostFiles(ctx, s.Org)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.rules.MayRun(s.Org, s.Command[0]); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		// What was mounted was opened by this path, which had no link in it.
		if err := h.rules.MayMount(s.Org, m.Dir); err != nil {
			return aboutMount(m, err)
		}
	}
	return nil
}

// fitsBinding reports whether a secret that is bound so may go into a request: by the
// same rules as into one that leaves a sandbox.
func fitsBinding(b *secret.Binding, method string, to *url.URL) bool {
	s, err := toBroker("", b)
	if err != nil {
		return false
	}
	scheme, port := egress.HTTPS, uint64(443)
	if to.Scheme == "http" {
		scheme, port = egress.HTTP, 80
	}
	if text := to.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return false
		}
	}
	if method == "" {
		method = http.MethodGet
	}
	path := to.EscapedPath()
	if path == "" {
		path = "/"
	}
	_, ok := s.Hosts.Allows(egress.Dest{Host: to.Hostname(), Port: uint16(port), Scheme: scheme, Method: method,
		Path: path})
	return ok
}
