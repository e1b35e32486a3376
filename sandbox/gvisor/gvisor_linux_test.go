package gvisor_test

import (
	"strings"
	"testing"

	"haft/sandbox"
)

func TestProvider(t *testing.T) {
	p := open(t)
	var out, errs strings.Builder
	exit, err := p.Run(t.Context(), sandbox.Spec{
		Argv:   []string{"/bin/sh", "-c", "cat /proc/version /proc/mounts; id; echo hello; ls -la /work /; exit 7"},
		Mounts: []sandbox.Mount{{Host: "/usr", Inside: "/usr"}, {Host: "/bin", Inside: "/bin"}, {Host: "/lib", Inside: "/lib"}, {Host: "/lib64", Inside: "/lib64"}},
		Env:    []string{"PATH=/usr/bin:/bin"}, Stdout: &out, Stderr: &errs, Collect: true,
	})
	for _, a := range exit.Artifacts {
		t.Logf("%s\n%s", a.Name, a.Data)
	}
	exit.Artifacts = nil
	t.Logf("%+v %v\n%s\n%s", exit, err, out.String(), errs.String())
	t.Log(p.Isolation(t.Context()))
}
