package letta_test

import (
	"testing"

	"go.uber.org/goleak"

	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init() // a process of a sandbox begins here
	goleak.VerifyTestMain(m)
}
