package local_test

import (
	"testing"

	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{}) })
}

func TestConformanceForked(t *testing.T) {
	sandboxtest.RunForked(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{}) })
}
