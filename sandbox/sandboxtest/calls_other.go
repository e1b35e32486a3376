//go:build !linux

package sandboxtest

// callNumbers is empty: the deeds are Linux's.
func callNumbers() map[string]int { return nil }

// abiCases make system calls as another architecture would.
func abiCases() []Case { return nil }
