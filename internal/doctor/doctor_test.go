package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft"
)

func TestFindHostKind(t *testing.T) {
	for name, tt := range map[string]struct {
		file, variable string
		want           hostKind
	}{
		"a machine":           {"", "", onMachine},
		"docker":              {".dockerenv", "", inDocker},
		"podman":              {"run/.containerenv", "podman", inPodman},
		"podman without file": {"", "podman", inPodman},
		"systemd-nspawn":      {"", "systemd-nspawn", inContainer},
	} {
		root := t.TempDir()
		if tt.file != "" {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, tt.file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, tt.file), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := findHostKind(root, tt.variable); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestModeOf(t *testing.T) {
	reduced := haft.Isolation{Level: haft.LevelReduced, Missing: []haft.Gap{
		{Control: haft.ControlTimeNS, Reason: "another"},
		{Control: haft.ControlUserNS, Reason: "unshare: operation not permitted"}}}
	for name, tt := range map[string]struct {
		provider string
		iso      haft.Isolation
		in       hostKind
		allowed  bool
		says     []string // nil if there is nothing to change
		not      string
	}{
		"namespaces": {"local", haft.Isolation{Level: haft.LevelNamespaces}, inDocker, false, nil, "change"},
		"process":    {"process", haft.Isolation{Level: haft.LevelNone}, onMachine, false, nil, "change"},
		"in Docker": {"local", reduced, inDocker, false,
			[]string{"in this container: tools are refused", "why: no user_ns: unshare",
				"docker run --security-opt seccomp", "--allow-reduced", "another sandbox"}, "sysctl"},
		"in podman": {"local", reduced, inPodman, false,
			[]string{"podman run --security-opt unmask=ALL", "--allow-reduced"}, "docker run"},
		"on a machine": {"local", reduced, onMachine, false,
			[]string{"on this machine: tools are refused", "sysctl user.max_user_namespaces", "--allow-reduced"},
			"docker run"},
		"allowed": {"local", reduced, inDocker, true, []string{"the operator allows it", "docker run"},
			"--allow-reduced"},
	} {
		t.Run(name, func(t *testing.T) {
			m := modeOf(tt.provider, tt.iso, tt.in, tt.allowed)
			var b strings.Builder
			m.Print(&b)
			for _, want := range tt.says {
				if !strings.Contains(b.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, &b)
				}
			}
			if tt.says == nil && (b.Len() > 0 || !m.Allowed) || strings.Contains(b.String(), tt.not) {
				t.Errorf("it says too much:\n%s", &b)
			}
		})
	}
}
