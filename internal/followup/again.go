package followup

import (
	"haft"
	"haft/policy"
)

// NeverRan reports whether nothing of the tool's code can have run.
func NeverRan(res *haft.Result) bool {
	if res == nil || res.Error == nil {
		return false
	}
	switch res.Error.Kind {
	case haft.FailRuntime, haft.FailIsolation, haft.FailNetwork, haft.FailLogin:
		return true
	}
	return false
}

// Retryable reports whether the same call may succeed later.
func Retryable(res *haft.Result, err error) bool {
	if err != nil {
		code := haft.CodeOf(err)
		return code == haft.CodeUnavailable || code == haft.CodeInternal
	}
	if res.Error == nil || res.Status == haft.StatusUnknown {
		return false
	}
	return policy.Transient(res.Error.Kind) || res.Error.Kind == haft.FailException &&
		policy.TransientException(res.Error.Type)
}

// KindOf names the failure of a result.
func KindOf(res *haft.Result) haft.FailureKind {
	if res == nil || res.Error == nil {
		return haft.FailInternal
	}
	return res.Error.Kind
}
