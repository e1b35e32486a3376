package local_test

import (
	"os/exec"
	"testing"

	"haft/sandbox"
	"haft/sandbox/local"
)

func BenchmarkRun_true(b *testing.B) {
	p := open(b, local.Config{})
	spec := sandbox.Spec{Argv: []string{"/bin/true"}, Mounts: system()}
	for b.Loop() {
		if _, err := p.Run(b.Context(), spec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare_true(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
