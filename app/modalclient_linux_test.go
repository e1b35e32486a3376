package app_test

import (
	"testing"

	"haft"
	"haft/sandbox"
	"haft/sandbox/modal"
	"haft/sandbox/sandboxtest"
)

// openModalClient returns Haft as a client of a server that speaks Modal's API.
func openModalClient(t *testing.T, change func(*modal.Config)) *modal.Provider {
	t.Helper()
	cfg, err := modal.FromEnv(func(name string) string {
		return map[string]string{"MODAL_TOKEN_ID": modalTokenID, "MODAL_TOKEN_SECRET": modalTokenSecret}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Level, cfg.Max, cfg.MaxOfTenant = haft.LevelMachine, 64, 64
	if change != nil {
		change(&cfg)
	}
	p, err := modal.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// The provider keeps what it promises, through Modal's own SDK.
func TestModalClient_conforms(t *testing.T) {
	sandboxtest.RunSome(t, func(t *testing.T) sandbox.Provider {
		s := startModalServer(t)
		return ofTenant{openModalClient(t, func(c *modal.Config) { c.Server = "http://" + s.url })}
	}, func(c sandboxtest.Case) bool {
		return c.Name != "full_network_is_the_hosts" // no sandbox of this server has it
	})
}
