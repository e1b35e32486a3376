package egress

import (
	"net"
	"net/netip"
	"strconv"

	"haft"
)

// The names of what refuses, as they stand in [Refusal.Rule].
const (
	// RuleNotListed: no rule of the tool names this destination.
	RuleNotListed = "not-listed"
	// RulePolicy: a rule of the policy does not let this destination be reached.
	RulePolicy = "policy"
	// RuleName: the name belongs to a local network or is a disguised address.
	RuleName = "name"
	// RuleRange: the address is in a range that is refused unless a rule names it. The
	// Refusal's Range says which.
	RuleRange = "range"
	// RuleScheme: neither http nor https, or a step down from https to http.
	RuleScheme = "scheme"
	// RuleRedirects: too many redirects.
	RuleRedirects = "redirects"
	// RuleFronting: the name inside the request is not the name asked for.
	RuleFronting = "fronting"
	// RuleEncrypted: the hello hides the name of the server.
	RuleEncrypted = "encrypted-hello"
	// RulePlain: no TLS where the rule allows TLS only.
	RulePlain = "plain"
	// RuleInside: the rule limits methods or paths, which cannot be seen here.
	RuleInside = "inside"
	// RuleUpgrade: a change of protocol where the rule limits methods or paths.
	RuleUpgrade = "upgrade"
	// RulePlaceholder: a placeholder where its secret does not belong.
	RulePlaceholder = "placeholder"
	// RuleLimit: a limit of the call is reached.
	RuleLimit = "limit"
	// RuleProtocol: a request that cannot be read in one way only.
	RuleProtocol = "protocol"
	// RuleMock: a connection that the [Mock] of a test cannot answer.
	RuleMock = "mock"
)

// Refusal says what was refused and which rule to ask for. Its text is for the tool, the model
// and the operator. It contains only parts of the request, never the addresses of a name.
type Refusal struct {
	Host string `json:"host,omitempty"`
	Port uint16 `json:"port,omitempty"`
	// Rule is one of the Rule constants.
	Rule string `json:"rule"`
	// Range names the range of addresses, if Rule is RuleRange.
	Range string `json:"range,omitempty"`
	// Reason is one sentence without a full stop.
	Reason string `json:"reason"`
	// Ask is what to ask the operator for, or "" if nothing would help.
	Ask string `json:"ask,omitempty"`
	// Network is the rule that would allow it, for the tool's network list, or "".
	Network string `json:"network,omitempty"`
	// Addr is the address that was refused. It is for the operator alone.
	Addr netip.Addr `json:"-"`

	// bare is the same without the path, for records; nil if it has none.
	bare *Refusal
}

// Error says where and by which rule.
func (r *Refusal) Error() string {
	where := r.Host
	if r.Port != 0 {
		where = net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))
	}
	if where == "" {
		return "refused (" + r.Rule + ")"
	}
	return where + " refused (" + r.Rule + ")"
}

// Message returns the text for the tool and the model.
func (r *Refusal) Message() string {
	m := r.Reason
	if r.Ask != "" {
		m += "; " + r.Ask
	}
	return m
}

// err wraps r for callers.
func (r *Refusal) err() error {
	return &haft.Error{Code: haft.CodeDenied, Message: r.Message(), Err: r}
}
