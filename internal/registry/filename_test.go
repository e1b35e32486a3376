package registry_test

import (
	"strings"
	"testing"

	"haft"
)

// What tracebacks show of a source is the name of a file: no path of a host, and nothing that changes a terminal.
func TestRegistry_Put_takes_names_of_files(t *testing.T) {
	r := newRegistry(t)
	for name, ok := range map[string]bool{"": true, "tools.py": true, "Ünï cöde.py": true, "/etc/passwd": false,
		"a/b.py": false, `a\b.py`: false, "a\x1b[1m.py": false, "a\n.py": false, strings.Repeat("a", 201): false} {
		done, err := r.Put(t.Context(), ann, haft.Draft{Source: "def f(a?: integer): # F.", File: name})
		if ok && (err != nil || done.Tool.Version.File != name) || !ok && haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("the file %q: %v", name, err)
		}
		if ok {
			if err := r.Remove(t.Context(), ann, "f", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
}
