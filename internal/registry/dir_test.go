package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/registry"
)

// put writes files below a directory: pairs of a name and a text.
func put(t testing.TB, dir string, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name := filepath.Join(dir, filepath.FromSlash(pairs[i]))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		// Moved into place, so that no watch sees half of it.
		half := filepath.Join(filepath.Dir(name), ".half")
		if err := os.WriteFile(half, []byte(pairs[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(half, name); err != nil {
			t.Fatal(err)
		}
	}
}

// seen is what was found, one line each.
func seen(found []registry.Found) []string {
	var list []string
	for _, f := range found {
		if f.Err != nil {
			list = append(list, f.Path+" ! "+haft.MessageOf(f.Err))
			continue
		}
		list = append(list, fmt.Sprintf("%s %s name=%s source=%q", f.Path, f.Draft.Kind, f.Draft.Name, f.Draft.Source))
	}
	return list
}

func TestReadDir(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "secret.py", "outside")
	put(t, dir,
		"b.py", "b", "a.ts", "a", "c.js", "c", "sub/deploy-it.sh", "d", "said.sh", "#!/bin/bash\n# tool: told\nx",
		"late.sh", "#!/bin/bash\nx\n# tool: late", "anon.ts", "export default async function (a) {}", "x.PY", "x",
		"m.mjs", "m", "readme.md", "no", "data.json", "{}",
		".hidden.py", "no", ".git/h.py", "no", "node_modules/n.js", "no", "__pycache__/p.py", "no",
		"sub/__tests__/t.ts", "no",
		"test_b.py", "no", "b_test.py", "no", "a.test.ts", "no", "a.spec.js", "no", "a.d.ts", "no", "conftest.py", "no",
		"__init__.py", "no",
		"b.tool.json", `{"name":"bee","settings":{"network":["a.test"]},"tags":["x"]}`,
		"two.py", "t", "two.sh", "t", "two.tool.json", `{}`,
		"lost.tool.json", `{}`, "odd.py", "o", "odd.tool.json", `{"nam":"x"}`, "kind.py", "k", "kind.tool.json",
		`{"source_type":"bash"}`,
		"big.py", strings.Repeat("#", registry.MaxSource+1), "gone.py", "g", "gone.tool.json", `{"source_code":"x"}`,
	)
	for link, to := range map[string]string{"in.py": "b.py", "out.py": filepath.Join(outside, "secret.py"),
		"up.py": "../x.py", "dir": outside, "loop.py": "loop.py"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := registry.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`a.ts typescript name= source="a"`,
		`anon.ts typescript name=anon source="export default async function (a) {}"`,
		`b.py python name=bee source="b"`,
		`big.py ! big.py: it has more than 1048576 bytes`,
		`c.js javascript name= source="c"`,
		`gone.py ! gone.py: gone.tool.json: source_code, files, new and if_digest do not belong here`,
		`in.py python name= source="b"`,
		`kind.py ! kind.py: kind.tool.json says that it is bash, but its name ends otherwise`,
		`late.sh bash name=late source="#!/bin/bash\nx\n# tool: late"`,
		`lost.tool.json ! lost.tool.json: there is no source of that name beside it`,
		`m.mjs javascript name= source="m"`,
		`odd.py ! odd.py: odd.tool.json: "nam" is not known`,
		`said.sh bash name= source="#!/bin/bash\n# tool: told\nx"`,
		`sub/deploy-it.sh bash name=deploy-it source="d"`,
		`two.py ! two.py: two.tool.json could be about this file or about two.sh`,
		`two.sh ! two.sh: two.tool.json could be about this file or about two.py`,
		`x.PY python name= source="x"`,
	}
	if diff := cmp.Diff(want, seen(found)); diff != "" {
		t.Errorf("ReadDir (-want +got):\n%s", diff)
	}
	for _, f := range found {
		if f.Path == "b.py" && (len(f.Draft.Settings.Network) != 1 || len(f.Draft.Tags) != 1) {
			t.Errorf("the draft of b.py = %+v", f.Draft)
		}
	}
}

func TestReadDir_refuses(t *testing.T) {
	if _, err := registry.ReadDir(filepath.Join(t.TempDir(), "none")); haft.CodeOf(err) != haft.CodeNotFound ||
		strings.Contains(haft.MessageOf(err), "/") {
		t.Errorf("ReadDir of nothing = %v", err)
	}
	dir := t.TempDir()
	for i := range registry.MaxFiles + 1 {
		put(t, dir, fmt.Sprintf("t%d.py", i), "x")
	}
	if _, err := registry.ReadDir(dir); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("ReadDir of too many tools = %v", err)
	}
}

func FuzzReadSidecar(f *testing.F) {
	for _, s := range []string{`{}`, `{"name":"a","tags":["b"],"settings":{"limits":{"wall_ms":5}}}`,
		`{"name":"a","name":"b"}`, `[]`, `{"x":1}`, `{"settings":{"retry":{"tries":"x"}}}`, "{",
		`{"parameters":{"a":[[[]]]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := registry.ReadSidecar(text)
		if err != nil {
			return
		}
		if d.Source != "" || d.New || d.If != "" {
			t.Errorf("ReadSidecar(%q) = %+v", text, d)
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("a sidecar that was read cannot be written: %v", err)
		}
		e, err := registry.ReadSidecar(again)
		if err != nil {
			t.Fatalf("ReadSidecar(%q), which was written: %v", again, err)
		}
		if x, _ := json.Marshal(e); string(x) != string(again) {
			t.Errorf("written %s, read back %s", again, x)
		}
	})
}

func TestReadSidecar_says_where(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","name":"b"}`:              "a key stands twice",
		`{"settings":{"retry":{"tries":"x"}}}`: "settings.retry.tries cannot be a string",
		`[]`:                                   "must be an object",
		`{"settings":{"timeout":3}}`:           `"timeout" is not known`,
		`{} {}`:                                "",
	} {
		if _, err := registry.ReadSidecar([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadSidecar(%s) = %v, want %q in it", text, err, want)
		}
	}
}

// watch collects what a watch tells.
func watch(t *testing.T, dir string) (reports <-chan []string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	news, done := make(chan []string, 100), make(chan error, 1)
	go func() {
		done <- registry.Watch(ctx, dir, func(f []registry.Found, gone []string) {
			news <- append(seen(f), gone...)
		})
	}()
	return news, func() error {
		cancel()
		return <-done
	}
}

// next waits for the next report.
func next(t *testing.T, reports <-chan []string) []string {
	t.Helper()
	select {
	case s := <-reports:
		return s
	case <-time.After(3 * time.Minute):
		t.Fatal("nothing was reported")
	}
	return nil
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.py", "1", "b.py", "1")
	reports, stop := watch(t, dir)
	want := func(lines ...string) {
		t.Helper()
		if diff := cmp.Diff(lines, next(t, reports)); diff != "" {
			t.Fatalf("reported (-want +got):\n%s", diff)
		}
	}
	want(`a.py python name= source="1"`, `b.py python name= source="1"`)
	put(t, dir, "b.py", "2")
	want(`b.py python name= source="2"`)
	// Moved into place, so that nobody sees a half-made directory.
	other := t.TempDir()
	put(t, other, "new/c.py", "3")
	if err := os.Rename(filepath.Join(other, "new"), filepath.Join(dir, "new")); err != nil {
		t.Fatal(err)
	}
	want(`new/c.py python name= source="3"`)
	put(t, dir, "new/c.py", "4") // which is watched too
	want(`new/c.py python name= source="4"`)
	if err := os.Remove(filepath.Join(dir, "b.py")); err != nil {
		t.Fatal(err)
	}
	want("b.py")
	put(t, dir, "b.py", "2") // it is back
	want(`b.py python name= source="2"`)
	if err := stop(); err != nil {
		t.Errorf("Watch = %v when its context ends", err)
	}
	if err := registry.Watch(t.Context(), filepath.Join(dir, "none"), nil); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Watch of nothing = %v", err)
	}
}
