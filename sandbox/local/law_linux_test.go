package local_test

import (
	"testing"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

func TestLocal(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{}) })
}

// The reduced mode is what a container that forbids namespaces gives.
func TestLocal_reduced(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider {
		return open(t, local.Config{Forbid: []haft.Control{haft.ControlUserNS}})
	})
}
