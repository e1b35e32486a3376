// Package deploy_test holds the files of this directory to what they promise.
package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"haft/internal/skiptest"
)

// systemd reads the unit without a complaint. The binary need not be installed.
func TestUnit_is_understood_by_systemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		skiptest.Lacking(t, "systemd", err.Error())
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.ReplaceAll(read(t, "haft.service"), "/usr/local/bin/haft", self)
	name := filepath.Join(t.TempDir(), "haft.service")
	if err := os.WriteFile(name, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", name).CombinedOutput()
	// It reads the machine's own units, too, whose faults are not ours.
	ours := regexp.MustCompile(`(?m)^.*haft\.service.*$`).FindAllString(string(out), -1)
	if len(ours) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, strings.Join(ours, "\n"))
	}
}

// What the unit says must stay off is off: with it there would be no sandbox.
func TestUnit_leaves_the_sandbox_what_it_needs(t *testing.T) {
	unit := read(t, "haft.service")
	for _, option := range []string{
		"RestrictNamespaces", "PrivateUsers", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectKernelModules",
		"ProtectProc",
		"ProcSubset", "ProtectControlGroups", "SystemCallFilter", "MemoryDenyWriteExecute", "PrivateNetwork",
	} {
		if regexp.MustCompile(`(?m)^` + option + `=`).MatchString(unit) {
			t.Errorf("%s is set", option)
		}
		if !strings.Contains(unit, "#   "+option+"=") {
			t.Errorf("%s is not said to stay off, and why", option)
		}
	}
}

// The image never asks for what would give the container the machine.
func TestContainerfile_runs_as_an_ordinary_user(t *testing.T) {
	file := read(t, "Containerfile")
	if !regexp.MustCompile(`(?m)^USER haft$`).MatchString(file) {
		t.Error("the server runs as root")
	}
	for line := range strings.Lines(file) {
		if strings.Contains(line, "--privileged") && !strings.HasPrefix(line, "#   never ") {
			t.Errorf("%q", line)
		}
	}
}

// Every image that the file begins with can be another one, and neither Go nor a registry is needed for a binary that
// is packed already.
func TestContainerfile_images_are_arguments(t *testing.T) {
	file := read(t, "Containerfile")
	froms := regexp.MustCompile(`(?m)^FROM (\S+)(?: AS (\w+))?$`).FindAllStringSubmatch(file, -1)
	var stages []string
	for _, from := range froms {
		stages = append(stages, from[2]+" from "+from[1])
		name := strings.Trim(from[1], "${}")
		if !regexp.MustCompile(`(?m)^ARG ` + name + `=\S+$`).MatchString(file) {
			t.Errorf("%s is no argument with a default", from[1])
		}
	}
	want := "built from ${GO_IMAGE}, packed from ${BASE}, binary from ${HAFT},  from ${BASE}"
	if got := strings.Join(stages, ", "); got != want {
		t.Errorf("the stages are %q, want %q", got, want)
	}
	for _, page := range []string{"../docs/deploy.md", "compose.yaml"} {
		if text := read(t, page); !strings.Contains(text, "deploy/Containerfile") {
			t.Errorf("%s does not build the image", page)
		}
	}
}

// read reads a file of this directory.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
