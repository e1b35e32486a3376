//go:build linux && !amd64

package sandboxtest

// machineCalls are those that only one architecture has.
func machineCalls() map[string]int { return nil }

// abiCases make system calls as another architecture would.
func abiCases() []Case { return nil }
