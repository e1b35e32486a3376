package sandbox_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"haft"
	"haft/sandbox"
)

func TestSpec_Check(t *testing.T) {
	egress := func(context.Context, net.Conn) {}
	file := func(names ...string) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) {
			for _, n := range names {
				s.Files = append(s.Files, sandbox.File{Name: n})
			}
		}
	}
	tests := []struct {
		name   string
		change func(*sandbox.Spec)
		ok     bool
	}{
		{"a plain command", func(*sandbox.Spec) {}, true},
		{"no command", func(s *sandbox.Spec) { s.Argv = nil }, false},
		{"a relative command", func(s *sandbox.Spec) { s.Argv[0] = "sh" }, false},
		{"a NUL in an argument", func(s *sandbox.Spec) { s.Argv = append(s.Argv, "a\x00b") }, false},
		{"one endless argument", func(s *sandbox.Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 128<<10)) },
			false},
		{"many arguments", func(s *sandbox.Spec) { s.Argv = append(s.Argv, make([]string, 5000)...) }, false},
		{"arguments too large together", func(s *sandbox.Spec) {
			for range 10 {
				s.Argv = append(s.Argv, strings.Repeat("x", 120<<10))
			}
		}, false},
		{"environment", func(s *sandbox.Spec) { s.Env = []string{"A=", "B=c=d"} }, true},
		{"environment without a name", func(s *sandbox.Spec) { s.Env = []string{"=x"} }, false},
		{"environment without a value", func(s *sandbox.Spec) { s.Env = []string{"A"} }, false},
		{"a mount", func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Host: "/usr", Inside: "/usr"}} }, true},
		{"a mount that climbs",
			func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Host: "/usr", Inside: "/usr/../etc"}} }, false},
		{"a mount over the root", func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Host: "/usr", Inside: "/"}} },
			false},
		{"an unknown network", func(s *sandbox.Spec) { s.Network = "some" }, false},
		{"egress", func(s *sandbox.Spec) { s.Network, s.ServeEgress = sandbox.NetworkEgress, egress }, true},
		{"egress that nobody serves", func(s *sandbox.Spec) { s.Network = sandbox.NetworkEgress }, false},
		{"egress without its network", func(s *sandbox.Spec) { s.ServeEgress = egress }, false},
		{"egress beside the full network", func(s *sandbox.Spec) {
			s.Network, s.ServeEgress = sandbox.NetworkFull,
				egress
		}, false},
		{"files", file("a", "b/c", "out/d", "-rf", "new\nline", "é"), true},
		{"an absolute file", file("/etc/passwd"), false},
		{"a file that climbs", file("../x"), false},
		{"a file that climbs in the middle", file("a/../../x"), false},
		{"a file without a name", file(""), false},
		{"a file named dot", file("."), false},
		{"a file with a trailing slash", file("a/"), false},
		{"a file with a NUL", file("a\x00"), false},
		{"a file twice", file("a", "a"), false},
		{"a file where a directory is", file("a", "a/b"), false},
		{"a file where out is", file("out"), false},
		{"a name of 256 bytes", file(strings.Repeat("n", 256)), false},
		{"a name of 255 bytes", file(strings.Repeat("n", 255)), true},
		{"a deep name", file(strings.Repeat("d/", 40) + "f"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sandbox.Spec{Argv: []string{"/bin/true"}}
			tt.change(&s)
			err := s.Check()
			if (err == nil) != tt.ok {
				t.Fatalf("Check() = %v, want ok %v", err, tt.ok)
			}
			if err != nil && haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Check() has code %q, want %q", haft.CodeOf(err), haft.CodeInvalid)
			}
		})
	}
}
