package gvisor_test

import (
	"os"
	"testing"

	"haft/sandbox"
	"haft/sandbox/gvisor"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}

// open opens a provider, or skips the test where there is no runsc.
func open(t *testing.T) *gvisor.Provider {
	t.Helper()
	p, err := gvisor.Open(t.Context(), gvisor.Config{})
	if err != nil {
		sandboxtest.Require(t, "gvisor", err.Error())
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestConformance(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t) })
}
