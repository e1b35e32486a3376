package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// The headers of Haft. [Config.Headers] and other APIs say which routes honour them. All other
// routes refuse them, because a client that sends one relies on it.
const (
	// AgentHeader names the agent on whose behalf a client of MCP works.
	AgentHeader = "Haft-Agent"
	// TurnHeader groups runs of an agent's tools at Letta's API.
	TurnHeader = "X-Haft-Turn"
)

// HeaderAPI is an [API] that honours headers of Haft.
type HeaderAPI interface {
	// Headers lists those that the route of r honours.
	Headers(r *http.Request) []string
}

// isOurs reports whether a header has a name of Haft. Some proxies write _ for -.
func isOurs(name string) bool {
	if name == "" || !strings.ContainsRune("HhXx", rune(name[0])) {
		return false // as most are, without a copy of the name
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return strings.HasPrefix(strings.TrimPrefix(name, "x-"), "haft-")
}

// checkHeaders refuses a request with a header of Haft that its route does not honour.
// Only this function decides it, before any route is called.
func (s *Server) checkHeaders(mux *http.ServeMux, r *http.Request) error {
	var honoured []string
	looked := false
	for name, values := range r.Header {
		if !isOurs(name) {
			continue
		}
		if !looked {
			honoured, looked = s.honouredHeaders(mux, r), true
		}
		switch {
		case !slices.Contains(honoured, name):
			why := "the header " + shownHeader(name) + " has no meaning at this address"
			if name == AgentHeader {
				why += "; name the agent in the query, ?" + agentParam + "=NAME"
			}
			return problem(http.StatusBadRequest, why)
		case len(values) != 1 || strings.TrimSpace(values[0]) == "" || len(values[0]) > maxAgent:
			return problem(http.StatusBadRequest, "the header "+name+" stands there once, and has 1 to 200 characters")
		}
	}
	return nil
}

// shownHeader returns the name of a header, unless it may be text that a client made up.
func shownHeader(name string) string {
	if !isPlainName(name) {
		return "that begins with Haft-"
	}
	return name
}

// honouredHeaders lists the headers of Haft that the route of r honours.
func (s *Server) honouredHeaders(mux *http.ServeMux, r *http.Request) []string {
	_, pattern := mux.Handler(r)
	if d, ok := s.cfg.APIs[pattern].(HeaderAPI); ok {
		return d.Headers(r)
	}
	return s.cfg.Headers[pattern]
}

// conditionHeaders are headers that change what a write does. An operation that does not
// know one refuses it: without the condition it would be another write.
var conditionHeaders = []string{"Idempotency-Key", "If-Match", "If-None-Match", "If-Unmodified-Since",
	"If-Modified-Since"}

// checkConditions refuses a write with a header that its operation does not know.
func checkConditions(op *huma.Operation, h http.Header) error {
	if op.Method == http.MethodGet {
		return nil
	}
	for _, name := range conditionHeaders {
		if h[name] == nil || slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool {
			return p.In == "header" && http.CanonicalHeaderKey(p.Name) == name
		}) {
			continue
		}
		return problem(http.StatusBadRequest, "the header "+name+" has no meaning for this operation")
	}
	return nil
}

// namedAgent removes the agent from the query, since operations do not know the parameter.
// It refuses several names or an empty one: the request would otherwise be made with more
// rights.
func namedAgent(r *http.Request) (string, error) {
	if !strings.Contains(r.URL.RawQuery, agentParam) && !strings.Contains(r.URL.RawQuery, "%") {
		return "", nil
	}
	query := r.URL.Query()
	values, ok := query[agentParam]
	if !ok {
		return "", nil
	}
	if len(values) != 1 || values[0] == "" {
		return "", &haft.Error{Code: haft.CodeInvalid,
			Message: "query parameter " + agentParam + ": it names one agent"}
	}
	query.Del(agentParam)
	r.URL.RawQuery = query.Encode()
	return values[0], nil
}
