package deploy_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"haft/internal/skiptest"
)

// In containers of a real Docker the sandbox holds what it promises: see the script.
func TestContainer_of_Docker(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start Docker's daemon")
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		skiptest.Lacking(t, "container", err.Error())
	}
	skiptest.Part(t, "container", "container")
	out, err := exec.CommandContext(t.Context(), "./check-container").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// The flags that are tried are those of the page and of the Compose file.
func TestContainer_flags_are_the_documented_ones(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "check-container"), "\nflags=(\n")
	list, _, ok := strings.Cut(list, "\n)\n")
	if !ok {
		t.Fatal("check-container has no flags")
	}
	line := regexp.MustCompile(`(?s)docker run .*? haft\n`).FindString(read(t, "../docs/deploy.md"))
	compose := read(t, "compose.yaml")
	inCompose := strings.NewReplacer("--security-opt ", "- ", "deploy/seccomp.json", "seccomp.json",
		"--cap-drop ALL", "cap_drop: [ALL]", "--memory ", "mem_limit: ", "--pids-limit ", "pids_limit: ")
	flags := regexp.MustCompile(`--\S+ \S+`).FindAllString(list, -1)
	for _, flag := range flags {
		if !strings.Contains(line, flag) {
			t.Errorf("docs/deploy.md runs Docker without %s", flag)
		}
		if !strings.Contains(compose, inCompose.Replace(flag)+"\n") {
			t.Errorf("compose.yaml has no %q", inCompose.Replace(flag))
		}
	}
	for _, flag := range regexp.MustCompile(`--(security-opt|cap-\w+|memory|pids-limit) \S+`).FindAllString(line, -1) {
		if !strings.Contains(list, flag) {
			t.Errorf("docs/deploy.md runs Docker with %s, which is not tried", flag)
		}
	}
	if len(flags) < 6 {
		t.Errorf("the flags are %q", flags)
	}
}
