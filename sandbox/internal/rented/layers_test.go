package rented

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"haft/sandbox"
)

// Packages that cannot be read are not the fault of the server; what the server does not take is.
func TestSendLayers_says_what_failed(t *testing.T) {
	p, dir := &Provider{}, t.TempDir()
	for host, want := range map[string]error{dir: errors.ErrUnsupported, filepath.Join(dir, "none"): fs.ErrNotExist} {
		m := &machine{Machine: rentedName("x"), layers: map[string]bool{}}
		err := p.sendLayers(t.Context(), m, sandbox.Spec{Mounts: []sandbox.Mount{{Host: host, Inside: "/tmp/a"}}})
		if !errors.Is(err, want) || len(m.layers) != 0 {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
