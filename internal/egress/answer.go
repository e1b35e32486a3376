package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"haft"
)

// notListed is the refusal of a destination that no rule names.
func notListed(d Dest) *Refusal {
	rule := suggest(d)
	return &Refusal{
		Host: d.Host, Port: d.Port, Rule: RuleNotListed, Network: rule,
		Reason: fmt.Sprintf("the tool may not reach %s on port %d", d.Host, d.Port),
		Ask:    fmt.Sprintf("if it should, its network list needs the rule network: [%q]", rule),
	}
}

// notAllowedRequest is the refusal of a request whose host and port a rule allows, but not
// its method and path.
func notAllowedRequest(d Dest) *Refusal {
	r := notListed(d)
	r.Reason = fmt.Sprintf("the tool may reach %s, but not with this method and path", d.Host)
	path := d.Path
	if p, err := cleanPath(path); err != nil {
		r.Reason += "; the path can be read in more than one way (dot segments, double or encoded slashes)"
		path = ""
	} else if strings.Contains(p, "*") || len(path) > 200 {
		path = "" // a rule with this path would match more, or is never written
	}
	base := d.Method + " " + d.Scheme + "://" + strings.TrimPrefix(r.Network, "tcp://")
	ask := func(r *Refusal, rule string) {
		r.Network, r.Ask = rule, fmt.Sprintf("if it should, its network list needs the rule network: [%q]", rule)
	}
	bare := *r
	ask(&bare, base)
	ask(r, base+path)
	r.bare = &bare
	return r
}

// refusalOf returns the refusal in err, or a general one, with the status for it.
func refusalOf(err error) (*Refusal, int) {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r, http.StatusForbidden
	}
	if h, ok := errors.AsType[errHead](err); ok {
		return &Refusal{Rule: RuleProtocol, Reason: string(h)}, http.StatusBadRequest
	}
	if e, ok := errors.AsType[*haft.Error](err); ok {
		return &Refusal{Rule: RuleProtocol, Reason: e.Message}, http.StatusBadGateway
	}
	return nil, http.StatusBadGateway
}

// statusOf returns the status of a refusal: 400 for a request that cannot be read, and 403
// for all others.
func statusOf(r *Refusal) int {
	if r.Rule == RuleProtocol {
		return http.StatusBadRequest
	}
	return http.StatusForbidden
}

// answer is a response of the proxy itself.
type answer struct {
	status  int
	refusal *Refusal
	close   bool // no further request on this connection
	head    bool // the request was HEAD
	json    bool // the program would rather read JSON
}

// bytes returns the reply as it is sent. The refusal stands in the reason phrase
// too, because that is all that most programs show of a refused CONNECT.
func (a answer) bytes() []byte {
	r := a.refusal
	body, kind := "haft: "+r.Message()+".\n", "text/plain; charset=utf-8"
	if a.json {
		kind = "application/json"
		list := []string{}
		if r.Network != "" {
			list = append(list, r.Network)
		}
		raw, err := json.Marshal(map[string]any{"error": map[string]any{
			"code": codeOf(a.status), "message": r.Message(), "rule": r.Rule, "host": r.Host, "port": r.Port,
			"network": list,
		}})
		if err == nil { // strings and numbers: it is
			body = string(raw) + "\n"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.status, phrase(a.status, r))
	fmt.Fprintf(&b,
		"Date: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Haft-Refused: %s\r\nCache-Control: no-store\r\n",
		time.Now().UTC().Format(http.TimeFormat), kind, len(body), r.Rule)
	if a.close {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if !a.head {
		b.WriteString(body)
	}
	return []byte(b.String())
}

// codeOf returns the code of a status.
func codeOf(status int) haft.Code {
	switch status {
	case http.StatusForbidden:
		return haft.CodeDenied
	case http.StatusBadRequest:
		return haft.CodeInvalid
	}
	return haft.CodeUnavailable
}

// phrase returns the reason phrase: printable, one line, not long.
func phrase(status int, r *Refusal) string {
	text := http.StatusText(status)
	switch {
	case r.Network != "":
		text += fmt.Sprintf(" (haft: ask for network: [\"%s\"])", printable(r.Network))
	case r.Reason != "":
		text += " (haft: " + printable(r.Reason) + ")"
	}
	return text
}
