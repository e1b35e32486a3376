package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"haft/app"
	"haft/internal/requirement"
	"haft/internal/supply"
	"haft/sandbox/sandboxtest"
)

// online returns a service that installs from the indexes which this machine is
// configured for, or skips if they cannot be asked.
func online(t *testing.T) *app.Service {
	t.Helper()
	open(t, app.Config{})
	s, err := app.OpenService(t.Context(), app.ServiceConfig{
		Data:   filepath.Join(newPlace(t).dir, "state"),
		Config: app.Config{Packages: supply.FromEnv(os.Getenv), AllowReduced: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	set, err := requirement.Parse("the test", []string{"six"}, []string{"ms"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.App.Supply.Lock(t.Context(), set, nil); err != nil {
		sandboxtest.Require(t, "index", "the indexes cannot be asked: "+err.Error())
	}
	return s
}
