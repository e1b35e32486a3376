package mcpinstall

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft"
)

// entry is what the tests install.
func entry() Entry { return Entry{Command: "/opt/haft", Args: []string{"mcp"}} }

// write writes a file below dir.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return name
}

// do makes a plan and writes it.
func do(t *testing.T, p *Plan, err error) *Plan {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(); err != nil {
		t.Fatal(err)
	}
	return p
}

// files lists what is below a directory.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		b.WriteString(strings.TrimPrefix(name, dir) + "=" + string(text) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every client gets its entry at its place, and uninstall leaves exactly what was there before.
func TestInstall_is_undone_exactly(t *testing.T) {
	for _, c := range Clients() {
		for _, system := range []string{"linux", "darwin"} {
			for _, before := range []string{"none", "", "{ }", "{\n\t// mine\n\t\"a\": [1, 2],\n}\n"} {
				t.Run(c.Name+" "+system+" "+before, func(t *testing.T) {
					home, project := t.TempDir(), t.TempDir()
					at := Place{OS: system, Home: home, Project: project}
					base, name := at.find(c)
					if before != "none" {
						write(t, base, name, before)
					}
					was := files(t, base)
					p, err := Install(c, at, "haft", entry())
					do(t, p, err)
					text, err := os.ReadFile(filepath.Join(base, name))
					if err != nil {
						t.Fatal(err)
					}
					got, err := getMember(text, c.group, "haft")
					if err != nil || !isOurs(got, Entry{}) {
						t.Errorf("the entry is %s: %v", got, err)
					}
					// A second one, with other flags, keeps the copy of the first.
					other := Entry{Command: "/opt/haft", Args: []string{"mcp", "--tag", "x"}}
					p, err = Install(c, at, "haft", other)
					if do(t, p, err); !strings.Contains(p.Text, "replace") {
						t.Errorf("the plan is %s", p.Text)
					}
					if p, err = Install(c, at, "haft", other); err != nil || p.Changes() {
						t.Errorf("the same is installed again: %v", err)
					}
					p, err = Uninstall(c, at, "haft", entry())
					do(t, p, err)
					if is := files(t, base); is != was {
						t.Errorf("there is\n%s\nwhere there was\n%s", is, was)
					}
				})
			}
		}
	}
}

func TestPlace(t *testing.T) {
	at := Place{OS: "linux", Home: "/h", Config: "/c", Project: "/p"}
	for name, want := range map[string]string{"claude": "/c/Claude/claude_desktop_config.json",
		"claude-code": "/p/.mcp.json", "cursor": "/h/.cursor/mcp.json", "vscode": "/p/.vscode/mcp.json",
		"windsurf": "/h/.codeium/windsurf/mcp_config.json", "zed": "/c/zed/settings.json"} {
		c, err := Find(name)
		base, file := at.find(c)
		if err != nil || base+"/"+file != want {
			t.Errorf("%s is at %s/%s, want %s: %v", name, base, file, want, err)
		}
	}
	if _, err := Find("emacs"); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("emacs is known: %v", err)
	}
}

// What a person adds after the installation stays, and a copy is kept.
func TestUninstall_of_a_file_that_has_changed(t *testing.T) {
	c, _ := Find("cursor")
	at := Place{Home: t.TempDir()}
	name := write(t, at.Home, ".cursor/mcp.json", "{\"mcpServers\": {\"x\": {\"env\": {\"K\": \"s3cret\"}}}}\n")
	p, err := Install(c, at, "haft", entry())
	if do(t, p, err); strings.Contains(p.Text, "s3cret") {
		t.Errorf("the plan shows the secret of another server: %s", p.Text)
	}
	text, _ := os.ReadFile(name)
	changed := bytes.Replace(text, []byte(`"x"`), []byte(`"y"`), 1)
	if err := os.WriteFile(name, changed, 0o640); err != nil {
		t.Fatal(err)
	}
	p, err = Uninstall(c, at, "haft", entry())
	do(t, p, err)
	after, _ := os.ReadFile(name)
	kept, _ := os.ReadFile(name + backupSuffix)
	if !bytes.Contains(after, []byte(`"y"`)) || bytes.Contains(after, []byte("haft")) || !bytes.Equal(kept, changed) {
		t.Errorf("the file is %s, its copy %s", after, kept)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode has changed: %v", info)
	}
}

func TestInstall_refuses(t *testing.T) {
	c, _ := Find("vscode")
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"a link": {func(t *testing.T, dir string) {
			write(t, dir, "elsewhere.json", "{}")
			write(t, dir, ".vscode/x", "")
			if err := os.Symlink("../elsewhere.json", filepath.Join(dir, ".vscode/mcp.json")); err != nil {
				t.Fatal(err)
			}
		}, "is a link"},
		"a directory that is a link": {func(t *testing.T, dir string) {
			if err := os.Symlink(t.TempDir(), filepath.Join(dir, ".vscode")); err != nil {
				t.Fatal(err)
			}
		}, "is a link"},
		"a copy that is a link": {func(t *testing.T, dir string) {
			write(t, dir, ".vscode/mcp.json", "{}")
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, ".vscode/mcp.json"+backupSuffix)); err != nil {
				t.Fatal(err)
			}
		}, "is a link"},
		"a directory": {func(t *testing.T, dir string) { write(t, dir, ".vscode/mcp.json/x", "") }, "not a file"},
		"a broken file": {func(t *testing.T, dir string) {
			write(t, dir, ".vscode/mcp.json", "{\n\"a\": s3cret}")
		}, "line 2"},
		"another's name": {func(t *testing.T, dir string) {
			write(t, dir, ".vscode/mcp.json", `{"servers": {"haft": {"command": "x"}}}`)
		}, "--name"},
		"a large file": {func(t *testing.T, dir string) {
			write(t, dir, ".vscode/mcp.json", strings.Repeat(" ", maxConfig+1))
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tt.prepare(t, dir)
			was := files(t, dir)
			_, err := Install(c, Place{Project: dir}, "haft", entry())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("the error is %v, want %s", err, tt.want)
			}
			if tt.want != "--name" && !strings.Contains(err.Error(), `"command": "/opt/haft"`) {
				t.Errorf("the error says not what to paste: %v", err)
			}
			if is := files(t, dir); is != was {
				t.Errorf("the files have changed: %s", is)
			}
		})
	}
}

// Somebody who saves the file between the question and the answer loses nothing.
func TestWrite_refuses_a_file_that_has_changed(t *testing.T) {
	c, _ := Find("claude-code")
	at := Place{Project: t.TempDir()}
	p, err := Install(c, at, "haft", entry())
	if err != nil {
		t.Fatal(err)
	}
	write(t, at.Project, ".mcp.json", "{}")
	if err := p.Write(); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("the file is written over: %v", err)
	}
}

// Nothing is written before a person has agreed.
func TestRun_asks(t *testing.T) {
	r := Request{Name: "haft", Project: t.TempDir(), Flags: []string{"--data", "/d", "--lazy", "1"}}
	file := filepath.Join(r.Project, ".mcp.json")
	var out strings.Builder
	if err := r.Run("claude-code", false, strings.NewReader("n\n"), &out); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("no is %v", err)
	}
	dry := r
	dry.DryRun, dry.Yes = true, true
	if err := dry.Run("claude-code", false, strings.NewReader("y\n"), &out); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Fatal("the file is written")
	}
	if err := r.Run("claude-code", false, strings.NewReader("y\n"), &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	for _, want := range []string{`"/d"`, `"--lazy"`} {
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in %s, or was not shown: %v", want, text, err)
		}
	}
}
