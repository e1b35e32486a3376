package script

import (
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/sandbox"
)

// Bounds on what a caller puts into the environment. The kernel's own are
// 128 KiB for one string and 2 MiB in all.
const (
	maxEnv      = 512
	maxEnvBytes = 512 << 10
	maxEnvValue = 96 << 10
)

// reservedPrefixes and reservedNames steer loaders, interpreters and shells, and
// so what code runs before the tool's own.
var (
	reservedPrefixes = []string{"LD_", "DYLD_", "PYTHON", "NODE_", "BASH_", "GLIBC_", "MALLOC_", "HAFT_", "ARG_", "GCONV_", "NPM_CONFIG_", "npm_config_"}
	reservedNames    = []string{"PATH", "HOME", "IFS", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "TMPDIR", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS", "OPENSSL_CONF", "OPENSSL_MODULES", "SSLKEYLOGFILE", "GETCONF_DIR", "TZDIR"}
)

// ours are the names that Haft itself sets for the tool.
var ours = []string{"HAFT_ORG_ID", "HAFT_AGENT_ID", "HAFT_TOOL_ID", "HAFT_CALL_ID"}

// checkEnv reports, as an error with [haft.CodeInvalid], what is wrong with env.
func checkEnv(env map[string]string) error {
	total := 0
	for k, v := range env {
		total += len(k) + len(v) + 2
		switch {
		case k == "" || len(k) > 256 || strings.ContainsAny(k, "=\x00"):
			return invalid("the name of an environment variable is empty, too long or holds = or NUL")
		case strings.ContainsRune(v, 0):
			return invalid("the environment variable %.64q holds NUL", k)
		case len(v) > maxEnvValue:
			return invalid("the environment variable %.64q is larger than %d bytes", k, maxEnvValue)
		case reserved(k):
			return invalid("the environment variable %.64q is reserved: it would change how the interpreter starts", k)
		}
	}
	if len(env) > maxEnv || total > maxEnvBytes {
		return invalid("the environment is too large: %d variables and %d bytes are the most", maxEnv, maxEnvBytes)
	}
	return nil
}

// reserved reports whether a caller may not set name.
func reserved(name string) bool {
	if slices.Contains(ours, name) {
		return false
	}
	return slices.Contains(reservedNames, name) ||
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// baseEnv is the environment of every tool, before its own variables.
func baseEnv(network sandbox.Network) []string {
	env := []string{"PATH=" + DefaultPath, "HOME=/work", "TMPDIR=/tmp", "LANG=C.UTF-8", "HAFT_WORK=/work"}
	if network == sandbox.NetworkOutlet {
		env = append(env, proxyEnv()...)
	}
	return env
}

// invalid is the caller's fault.
func invalid(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
