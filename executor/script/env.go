package script

import (
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/secret"
	"haft/sandbox"
)

// Bounds on what a caller puts into the environment. The kernel's own are
// 128 KiB for one string and 2 MiB in all.
const (
	maxEnv      = 512
	maxEnvBytes = 512 << 10
	maxEnvValue = 96 << 10
)

// ours are the names that Haft itself sets for the tool.
var ours = []string{"HAFT_ORG_ID", "HAFT_AGENT_ID", "HAFT_TOOL_ID", "HAFT_CALL_ID", "LETTA_AGENT_ID", "LETTA_TOOL_ID"}

// checkEnv reports, as an error with [haft.CodeInvalid], what is wrong with env.
func checkEnv(env map[string]string) error {
	total := 0
	for k, v := range env {
		total += len(k) + len(v) + 2
		switch {
		case strings.ContainsRune(v, 0):
			return invalid("the environment variable %.64q holds NUL", k)
		case len(v) > maxEnvValue:
			return invalid("the environment variable %.64q is larger than %d bytes", k, maxEnvValue)
		}
		if slices.Contains(ours, k) {
			continue
		}
		if err := secret.CheckEnvName(k); err != nil {
			return err
		}
	}
	if len(env) > maxEnv || total > maxEnvBytes {
		return invalid("the environment is too large: %d variables and %d bytes are the most", maxEnv, maxEnvBytes)
	}
	return nil
}

// baseEnv is the environment of every tool, before its own variables.
func baseEnv(network sandbox.Network) []string {
	env := []string{"PATH=" + DefaultPath, "HOME=/work", "TMPDIR=/tmp", "LANG=C.UTF-8", "HAFT_WORK=/work"}
	if network == sandbox.NetworkEgress {
		env = append(env, proxyEnv()...)
	}
	return env
}

// invalid is the caller's fault.
func invalid(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
