package gvisor_test

import (
	"os"
	"path/filepath"
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
	program, err := filepath.Abs("../../.haft/gvisor/runsc") // which make setup-test installs
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		program = ""
	}
	p, err := gvisor.Open(t.Context(), gvisor.Config{Program: program})
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
