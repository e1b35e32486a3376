package skiptest_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/skiptest"
)

// quiet is a test that notes how it ended.
type quiet struct {
	testing.TB
	how string
}

func (q *quiet) Fatalf(string, ...any) { q.how = cmp.Or(q.how, "failed") } // a real one ends here
func (q *quiet) Skipf(string, ...any)  { q.how = cmp.Or(q.how, "skipped") }

func TestLacking(t *testing.T) {
	for list, want := range map[string]string{
		"": "skipped", "node": "skipped", "pythonic": "skipped", "python": "failed", "node,python": "failed",
		"node python": "failed",
	} {
		t.Setenv("HAFT_REQUIRE", list)
		q := &quiet{TB: t}
		if skiptest.Lacking(q, "python", "there is none"); q.how != want {
			t.Errorf("HAFT_REQUIRE=%q: %s, want %s", list, q.how, want)
		}
	}
}

func TestPart(t *testing.T) {
	t.Setenv("HAFT_REQUIRE", "")
	root := t.TempDir()
	for _, name := range []string{"go.mod", ".haft/whole/installed.txt", ".haft/half/other", "room/inner/file"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(root, "room", "inner"))
	for part, want := range map[string]string{"whole": "", "half": "skipped", "none": "skipped"} {
		q := &quiet{TB: t}
		if dir := skiptest.Part(q, "it", part); q.how != want || !strings.HasSuffix(dir, filepath.Join(".haft", part)) {
			t.Errorf("%s is %q at %s, want %q", part, q.how, dir, want)
		}
	}
}
