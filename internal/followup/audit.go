package followup

import (
	"encoding/json"
	"net"
	"slices"
	"strings"

	"haft"
	"haft/internal/egress/route"
	"haft/policy"
)

// A StartedAudit is what the audit says when a call begins.
type StartedAudit struct {
	Effect   policy.Effect   `json:"effect"`
	Rule     string          `json:"rule,omitempty"`
	Policy   string          `json:"policy,omitempty"`
	Approval haft.ApprovalID `json:"approval,omitempty"`
	Digest   string          `json:"args_digest"`
	Args     json.RawMessage `json:"args,omitempty"`
	Parent   haft.CallID     `json:"parent,omitempty"`
}

// An EndedAudit is what the audit says when a call ends.
type EndedAudit struct {
	Status    haft.Status        `json:"status"`
	Kind      haft.FailureKind   `json:"kind,omitempty"`
	Rule      string             `json:"rule,omitempty"`
	Args      string             `json:"args_digest"`
	Result    string             `json:"result_digest"`
	Tries     int                `json:"tries,omitempty"`
	Provider  string             `json:"provider,omitempty"`
	Isolation haft.Level         `json:"isolation,omitempty"`
	Wall      haft.Millis        `json:"wall_ms,omitempty"`
	Total     haft.Millis        `json:"total_ms"`
	Withdrawn string             `json:"withdrawn,omitempty"` // why its permission is gone
	Notices   []string           `json:"notices,omitempty"`
	Contacts  []route.Connection `json:"connections,omitempty"`
	Connected int                `json:"connections_count,omitempty"`
	Touched   *haft.Touched      `json:"touched,omitempty"`
	// RecoveredFrom is the failure of the run in place of which there is another result.
	RecoveredFrom haft.FailureKind `json:"recovered_from,omitempty"`
}

// NewEndedAudit makes the part that the result says.
func NewEndedAudit(res *haft.Result) EndedAudit {
	b := EndedAudit{Status: res.Status, Tries: res.Tries, Provider: res.Sandbox.Provider,
		Isolation: res.Sandbox.Isolation.Level, Wall: res.Usage.Wall, Total: res.Timeline.Total,
		Notices: slices.Clone(res.Notices)}
	if res.Error != nil {
		b.Kind = res.Error.Kind
	}
	return b
}

// Hosts returns the hosts of connections, each once, without the ports that their schemes have anyway.
func Hosts(connections []route.Connection) []haft.Access {
	var list []haft.Access
	for _, c := range connections {
		to := c.To[strings.LastIndexByte(c.To, ' ')+1:] // after the method
		if host, port, err := net.SplitHostPort(to); err == nil && (port == "443" || port == "80") {
			to = host
		}
		a := haft.Access{Kind: haft.AccessHost, Name: to, Denied: c.Refused != ""}
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}
