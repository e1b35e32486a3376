package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/skiptest"
)

// packed packs a script in place of the binary, and returns the directory.
func packed(t *testing.T, version string) string {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	binary := filepath.Join(in, "haft")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho the binary got \"$@\"\n"),
		0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, "haft.1"), []byte(".TH HAFT 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"--version", version, "--time", "1700000000", "--source", "../..", "--manuals", in, "--out",
		out,
		"linux/amd64=" + binary, "linux/arm64=" + binary, "darwin/arm64=" + binary})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// do runs a program and returns what it prints.
func do(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// need skips where a program is missing.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		skiptest.Lacking(t, strings.TrimSuffix(program, "3"), "it is not installed") // python3 is required as python
	}
}

func TestRelease_is_the_same_twice(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile(filepath.Join(packed(t, "1.2.3"), "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(packed(t, "1.2.3"), "SHA256SUMS"))
	if err != nil || string(first) != string(second) {
		t.Errorf("two releases of the same differ: %v\n%s\n%s", err, first, second)
	}
	for _, name := range []string{"haft_1.2.3_linux_amd64.tar.gz", "haft_1.2.3_darwin_arm64.tar.gz",
		"haft_1.2.3_arm64.deb",
		"haft-1.2.3-py3-none-macosx_11_0_arm64.whl", "haft-cli-1.2.3.tgz", "haft-cli-linux-x64-1.2.3.tgz",
		"haft_client-"} {
		if !strings.Contains(string(first), "  "+name) {
			t.Errorf("there is no %s in\n%s", name, first)
		}
	}
}

func TestRelease_archive(t *testing.T) {
	t.Parallel()
	need(t, "tar")
	dir := packed(t, "v1.2.3")
	do(t, dir, "tar", "xzf", "haft_1.2.3_linux_amd64.tar.gz")
	if got := do(t, dir, "haft_1.2.3_linux_amd64/haft", "version"); got != "the binary got version\n" {
		t.Errorf("the archive's binary says %q", got)
	}
	do(t, dir, "sha256sum", "--check", "SHA256SUMS")
}

func TestRelease_debian(t *testing.T) {
	t.Parallel()
	need(t, "dpkg-deb")
	dir := packed(t, "8fa40b2")
	deb := "haft_0.0.0~dev+g8fa40b2_amd64.deb"
	if info := do(t, dir, "dpkg-deb", "--info", deb); !strings.Contains(info, "Version: 0.0.0~dev+g8fa40b2") {
		t.Errorf("dpkg reads %s", info)
	}
	do(t, dir, "dpkg-deb", "--extract", deb, "root")
	if got := do(t, dir, "root/usr/bin/haft"); !strings.Contains(got, "the binary") {
		t.Errorf("the package's binary says %q", got)
	}
	unit, err := os.ReadFile(filepath.Join(dir, "root/usr/lib/systemd/system/haft.service"))
	if err != nil || !strings.Contains(string(unit), "/usr/bin/haft") || strings.Contains(string(unit), "/usr/local/") {
		t.Errorf("the unit starts another binary: %v\n%s", err, unit)
	}
	do(t, dir, "dpkg", "--compare-versions", "0.0.0~dev+g8fa40b2", "lt", "0.0.1")
}

func TestRelease_wheel(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	dir := packed(t, "8fa40b2")
	wheels, err := filepath.Glob(filepath.Join(dir, "haft*-py3-none-*.whl"))
	if err != nil || len(wheels) != 4 {
		t.Fatalf("the wheels are %v, %v", wheels, err)
	}
	if err := exec.CommandContext(t.Context(), "python3", "-m", "venv", filepath.Join(dir, "venv")).Run(); err != nil {
		skiptest.Lacking(t, "python", "it cannot make a virtual environment: "+err.Error())
	}
	do(t, dir, "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
		"--no-deps", "--find-links", dir, "haft", "haft-client", "--pre")
	if got := do(t, dir, "venv/bin/haft", "call", "x"); got != "the binary got call x\n" {
		t.Errorf("haft of the wheel says %q", got)
	}
	if got := do(t, dir, "venv/bin/python", "-c", "import importlib.metadata as m; "+
		"print(m.requires('haft'))"); !strings.
		Contains(got, "haft-client") {
		t.Errorf("the wheel needs %s", got)
	}
}

func TestRelease_npm(t *testing.T) {
	t.Parallel()
	need(t, "npm")
	dir := packed(t, "1.2.3")
	do(t, dir, "npm", "install", "--offline", "--no-audit", "--no-fund", "--omit=optional", "--prefix", "app",
		"./haft-cli-1.2.3.tgz", "./haft-cli-linux-x64-1.2.3.tgz")
	if got := do(t, dir, "app/node_modules/.bin/haft", "run", "f.py"); got != "the binary got run f.py\n" {
		t.Errorf("haft of npm says %q", got)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]versions{
		"v1.2.3": {"1.2.3", "1.2.3", "1.2.3", "1.2.3"},
		"8fa40b2-dirty": {"0.0.0-dev.8fa40b2.dirty", "0.0.0-dev.g8fa40b2.dirty", "0.0.0.dev0+g8fa40b2.dirty",
			"0.0.0~dev+g8fa40b2.dirty"},
	} {
		if got := versionsOf(text); got != want {
			t.Errorf("versionsOf(%q) = %+v, want %+v", text, got, want)
		}
	}
}
