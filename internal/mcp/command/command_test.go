package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/skiptest"
)

// A file in the working directory is no module of a program that uvx starts.
func TestRunEntry_takes_no_module_from_the_working_directory(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		skiptest.Lacking(t, "python", err.Error())
	}
	work, packages := t.TempDir(), t.TempDir()
	files := map[string]string{
		"work/csv.py":                                  "print('shadow')\n", // importlib.metadata imports it
		"work/json.py":                                 "print('shadow')\n",
		"packages/served.py":                           "import json\ndef main():\n    print('served')\n",
		"packages/served-1.dist-info/METADATA":         "Metadata-Version: 2.1\nName: served\nVersion: 1\n",
		"packages/served-1.dist-info/entry_points.txt": "[console_scripts]\nserve = served:main\n",
	}
	for name, text := range files {
		dir, file, _ := strings.Cut(name, "/")
		full := filepath.Join(map[string]string{"work": work, "packages": packages}[dir], file)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ways := [][]string{nil}
	if exec.CommandContext(t.Context(), python, "-P", "-c", "").Run() == nil { // since Python 3.11
		ways = append(ways, []string{"-P"})
	}
	for _, flags := range ways {
		cmd := exec.CommandContext(t.Context(), python, append(flags, "-c", runEntry, "serve")...)
		cmd.Dir, cmd.Env = work, []string{"PYTHONPATH=" + packages}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "served" {
			t.Errorf("with %q: %v\n%s", flags, err, out)
		}
	}
}
