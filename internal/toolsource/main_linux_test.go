package toolsource_test

import (
	"os"
	"testing"

	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}
