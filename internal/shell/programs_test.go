package shell_test

import (
	"testing"

	"haft/internal/shell"
)

func TestRunsCode(t *testing.T) {
	for name, want := range map[string]bool{"bash": true, "python3.12": true, "perl5.36-x86_64-linux-gnu": true,
		"mawk": true, "env": true, "Rscript": true, "git": false, "cowsay": false, "7z": false,
		"sha256sum": false, "bashful": false} {
		if got := shell.RunsCode(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
