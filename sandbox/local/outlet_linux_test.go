package local_test

import (
	"context"
	"io"
	"net"
	"testing"

	"haft/sandbox"
	"haft/sandbox/local"
)

func TestRun_outlet(t *testing.T) {
	p := open(t, local.Config{})
	exit, out := sh(t, p, `exec 5<>/dev/tcp/127.0.0.1/7718; echo hi >&5; read -r x <&5; echo "$x"; cat /etc/hosts /etc/nsswitch.conf; cat /proc/net/dev; getent hosts example.com; echo $?`, func(s *sandbox.Spec) {
		s.Network = sandbox.NetworkOutlet
		s.Outlet = func(_ context.Context, c net.Conn) { io.Copy(c, c) }
	})
	t.Logf("%+v\n%s", exit, out)
}
