package policy_test

import (
	"testing"

	"haft"
	"haft/policy"
)

// Exceptions are as severe as their class says, unless a policy names the class. The class is the word of the tool, so
// it blocks nobody by itself.
func TestPolicy_Severity_of_exceptions(t *testing.T) {
	named := must(t, `version: 1
severity:
  - {types: [ValueError, requests.Timeout], level: critical}
  - {types: [PermissionError], level: low}`)
	none := must(t, "version: 1")
	for _, tt := range []struct {
		p      *policy.Policy
		f      haft.Failure
		want   policy.Severity
		blocks bool
	}{
		{none, haft.Failure{Kind: haft.FailException, Type: "PermissionError"}, policy.Critical, false},
		{none, haft.Failure{Kind: haft.FailException, Type: "MemoryError"}, policy.High, false},
		{none, haft.Failure{Kind: haft.FailException, Type: "ValueError"}, policy.Low, false},
		{none, haft.Failure{Kind: haft.FailException, Type: "TimeoutError"}, policy.Medium, false},
		{none, haft.Failure{Kind: haft.FailException, Type: "ConnectionError"}, policy.Medium, false},
		{none, haft.Failure{Kind: haft.FailException, Type: "OwnError"}, policy.Medium, false},
		{none, haft.Failure{Kind: haft.FailBlocked, Type: "ValueError"}, policy.Critical, true},
		{nil, haft.Failure{Kind: haft.FailBlocked}, policy.Critical, true},
		{named, haft.Failure{Kind: haft.FailException, Type: "ValueError"}, policy.Critical, true},
		{named, haft.Failure{Kind: haft.FailException, Type: "mine.ValueError"}, policy.Critical, true},
		{named, haft.Failure{Kind: haft.FailException, Type: "Timeout"}, policy.Medium, false},
		{named, haft.Failure{Kind: haft.FailException, Type: "PermissionError"}, policy.Low, false},
		{named, haft.Failure{Kind: haft.FailTimeout}, policy.Medium, false},
	} {
		got, blocks := tt.p.Severity(haft.Tool{Name: "t"}, tt.f), tt.p.Blocks(haft.Tool{Name: "t"}, tt.f)
		if got != tt.want || blocks != tt.blocks {
			t.Errorf("%+v: got %s %t, want %s %t", tt.f, got, blocks, tt.want, tt.blocks)
		}
	}
}
