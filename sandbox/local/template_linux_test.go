package local_test

import (
	"testing"

	"haft/sandbox"
	"haft/sandbox/local"
)

// python is a spec for templates.
func python() sandbox.Spec {
	return sandbox.Spec{Argv: []string{"/usr/bin/python3", "-I", "-S"}, Mounts: system(), Env: []string{"LANG=C.UTF-8"}}
}

// template starts a template that is closed with the test.
func template(t testing.TB, p *local.Provider, boot string) sandbox.Template {
	t.Helper()
	tpl, err := p.Template(t.Context(), python(), boot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tpl.Close(); err != nil {
			t.Error(err)
		}
	})
	return tpl
}
