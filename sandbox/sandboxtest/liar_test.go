package sandboxtest

import (
	"context"
	"os"
	"testing"

	"haft"
	"haft/sandbox"
	"haft/sandbox/process"
)

type liar struct{ *process.Provider }

func (l liar) iso() haft.Isolation {
	iso, _ := l.Provider.Isolation(context.Background())
	return haft.Isolation{Level: haft.LevelNamespaces, Controls: haft.Controls(), Missing: iso.Missing[:0]}
}
func (l liar) Isolation(context.Context) (haft.Isolation, error) { return l.iso(), nil }
func (l liar) Run(ctx context.Context, s sandbox.Spec) (sandbox.Exit, error) {
	s.Need = sandbox.Need{}
	e, err := l.Provider.Run(ctx, s)
	e.Isolation = l.iso()
	return e, err
}

func TestLiarManual(t *testing.T) {
	if os.Getuid() == 0 || os.Getenv("LIAR") == "" {
		t.Skip()
	}
	p, err := process.Open(process.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := openBench(t.Context(), liar{p})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Cases() {
		if c.Group == Honest || c.Group == Processes || c.Name == "next_call_works_after_a_hostile_one" || c.Name == "kill_of_everything_kills_only_its_own" || c.Name == "init_of_the_sandbox_cannot_be_killed_to_flee" {
			continue
		}
		b.host.reached.Store(0)
		v, err := b.judge(t.Context(), c)
		t.Logf("%s %s: %.300v", v, c.Name, err)
	}
}
