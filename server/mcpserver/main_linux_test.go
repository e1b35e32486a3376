package mcpserver_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop")); err != nil {
			os.Stderr.WriteString("goroutines are left behind: " + err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}
