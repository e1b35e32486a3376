package builtin_test

import (
	"context"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/executor/builtin"
	"haft/internal/skiptest"
	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	goleak.VerifyTestMain(m)
}

// openLocal opens the confined provider, or skips.
func openLocal(t testing.TB) *local.Provider {
	t.Helper()
	p, err := local.Open(context.WithoutCancel(t.Context()), local.Config{Dir: t.TempDir(), AllowReduced: true})
	if err != nil {
		skiptest.Lacking(t, "sandbox", err.Error())
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// setupLocal returns run_code over the confined provider, or skips.
func setupLocal(t testing.TB) (*builtin.Set, haft.Isolation) {
	t.Helper()
	p := openLocal(t)
	have, err := p.Isolation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newRunner(t, p, "local"), have
}

func TestRunCode_in_a_cell(t *testing.T) {
	s, have := setupLocal(t)
	for language, list := range map[string][]codeCase{"python": pythonCases, "javascript": nodeCases,
		"typescript": typeScriptCases, "bash": bashCases} {
		t.Run(language, func(t *testing.T) {
			need(t, language)
			for _, c := range slices.Concat(list, confinedCases[language]) {
				t.Run(c.name, func(t *testing.T) {
					if c.needs != "" && !have.Has(c.needs) {
						skiptest.Lacking(t, "sandbox", "there is no "+string(c.needs)+" here")
					}
					res := c.check(t, s, language)
					if c.kind == haft.FailSource {
						return // TypeScript that cannot be read has not run anywhere
					}
					if res.Sandbox.Provider != "local" || !res.Sandbox.Isolation.Level.AtLeast(haft.LevelReduced) {
						t.Errorf("it ran in %+v", res.Sandbox)
					}
				})
			}
		})
	}
}
