package filetool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/authority"
	"haft/internal/filetool"
	"haft/internal/store/sqlite"
	"haft/internal/workspace"
)

// world is a shared workspace and the tools that work on it.
type world struct {
	*testing.T
	store *workspace.Store
	api   *workspace.API
	set   *builtin.Set
	files string // the directory of the workspace
}

var agent = haft.Principal{Org: "acme", User: "ann", Agent: "ag_1"}

func setup(t *testing.T, quota haft.WorkspaceSize) *world {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	w := &world{T: t, set: builtin.New()}
	w.check(err)
	w.store = workspace.New(db, workspace.Config{Dir: filepath.Join(dir, "workspaces")})
	t.Cleanup(func() { w.check(w.store.Close(), db.Close()) })
	w.api = &workspace.API{Store: w.store,
		Log: func(context.Context, haft.Principal, string, any) error { return nil }}
	w.check(filetool.Add(w.set, w.store))
	_, err = w.api.AddWorkspace(t.Context(), haft.Principal{Org: "acme", User: "ann"},
		haft.NewWorkspace{Name: "notes", Shared: true, Quota: quota})
	w.check(err)
	found, err := filepath.Glob(filepath.Join(dir, "workspaces", "*", "*", "t-*"))
	w.check(err)
	w.files = found[0]
	return w
}

func (w *world) check(errs ...error) {
	w.Helper()
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
}

// put writes a file beside the tools, as a script would.
func (w *world) put(name, content string) {
	w.Helper()
	at := filepath.Join(w.files, name)
	w.check(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644))
}

// call calls a tool with the workspace notes, as an agent that has it.
func (w *world) call(tool, ref, args string) *haft.Result {
	w.Helper()
	for _, known := range w.set.Tools() {
		if known.Name != tool {
			continue
		}
		c := haft.Call{Principal: agent, Tool: tool}
		err := w.store.Default(w.Context(), authority.Rules{}, &c, &haft.Agent{Workspace: ref}, &known)
		w.check(err)
		req := executor.Request{Call: "c", Tool: tool, Kind: haft.KindBuiltin, Digest: known.Version.Digest,
			Args: json.RawMessage(args), Principal: agent}
		use, err := w.store.Mount(w.Context(), authority.Rules{}, c, &req, nil)
		w.check(err)
		defer use.Close(w.Context())
		res, err := w.set.Execute(w.Context(), req)
		w.check(err)
		return res
	}
	w.Fatalf("there is no tool %s", tool)
	return nil
}

// text is the value of a result that is a text.
func text(t *testing.T, res *haft.Result) string {
	t.Helper()
	if res.Error != nil {
		return "error: " + res.Error.Message
	}
	var s string
	if err := json.Unmarshal(res.Value, &s); err != nil {
		return string(res.Value)
	}
	return s
}

func TestTools(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.WorkspaceSize{})
	w.put("poem.txt", "roses are red\nviolets are blue\n\nsugar is sweet\n")
	w.put("src/main.py", "import os\nprint('Red')\r\n")
	w.put("empty", "")
	w.put("many.log", strings.Repeat("match\n", 1001))
	w.put("image.png", "red\x00red")
	w.put("long.txt", "long "+strings.Repeat("é", 20_000)+" red\nafter\n")
	var numbers strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&numbers, "x%d = %d\n", i+1, i+1)
	}
	w.put("numbers.py", numbers.String())
	w.put("tea.md", "green tea is brewed in Japan\n"+strings.Repeat("filler words stand here\n", 40)+
		"tea and tea and tea\n")
	w.put("coffee.md", strings.Repeat("coffee is a drink\n", 30)+"some like tea\n")
	tests := []struct {
		name, tool, args string
		want, not        []string // parts of the text
	}{
		{"open", "open_files", `{"file_requests":[{"file_name":"poem.txt"}],"close_all_others":true}`,
			[]string{"=== poem.txt ===\n[Viewing file start (out of 4 lines)]\n1: roses are red\n" +
				"2: violets are blue\n" +
				"3: \n4: sugar"}, nil},
		{"open a part", "open_files", `{"file_requests":[{"file_name":"poem.txt","offset":2,"length":1},{"file_name":"/workspace/src/main.py"}]}`,
			[]string{"[Viewing lines 2 to 2 (out of 4 lines)]\n2: violets are blue\n=== src/main.py",
				"2: print('Red')\n"}, []string{"roses", "\r"}},
		{"open a large file", "open_files", `{"file_requests":[{"file_name":"numbers.py"}]}`,
			[]string{"(out of 5000 lines)]\n1: x1 = 1\n", "open the file with offset="}, []string{"x5000"}},
		{"open the end", "open_files", `{"file_requests":[{"file_name":"numbers.py","offset":4999}]}`,
			[]string{"[Viewing lines 4999 to 5000 (out of 5000 lines)]\n4999: x4999 = 4999\n5000: x5000"},
			[]string{"offset="}},
		{"open an empty file", "open_files", `{"file_requests":[{"file_name":"empty"}]}`, []string{"(out of 0 lines)"}, nil},
		{"open long lines", "open_files", `{"file_requests":[{"file_name":"long.txt"}]}`,
			[]string{"é… [line cut]\n2: after"}, []string{strings.Repeat("é", 501)}},
		{"open no file", "open_files", `{"file_requests":[]}`, []string{"error: No file requests provided"}, nil},
		{"open too many", "open_files", `{"file_requests":[` + strings.Repeat(`{"file_name":"a"},`, 5) + `{"file_name":"a"}]}`,
			[]string{"error: Cannot open 6 files: exceeds configured maximum limit of 5 files"}, nil},
		{"open behind the end", "open_files", `{"file_requests":[{"file_name":"poem.txt","offset":5}]}`, []string{"error: file_requests[0]: Offset 5"}, nil},
		{"open from 0", "open_files", `{"file_requests":[{"file_name":"poem.txt","offset":0}]}`, []string{"Offset must be >= 1"}, nil},
		{"open nothing of it", "open_files", `{"file_requests":[{"file_name":"poem.txt","length":0}]}`, []string{"Length must be >= 1"}, nil},
		{"open with the largest numbers", "open_files", `{"file_requests":[{"file_name":"poem.txt","offset":1,"length":9223372036854775807}]}`,
			[]string{"4: sugar"}, nil},
		{"open what is not there", "open_files", `{"file_requests":[{"file_name":"poem.txt"},{"file_name":"gone"}]}`,
			[]string{"error: file_requests[1]: there is no such file", "did you get the filename correct?"}, nil},
		{"open what is no text", "open_files", `{"file_requests":[{"file_name":"image.png"}]}`, []string{"error: ", "no text"}, nil},

		{"grep", "grep_files", `{"pattern":"RED"}`, []string{"Found 2 total matches across 2 files (showing matches 1-2 of 2)",
			"Skipped 1 files", "=== poem.txt:1 ===\n> 1: roses are red\n  2: violets",
			"=== src/main.py:2 ===\n  1: import os\n> 2: print",
			"No more matches to show."}, []string{"image.png", "long.txt"}},
		{"grep with include", "grep_files", `{"pattern":"red","include":"*.py","context_lines":0}`,
			[]string{"Found 1 total matches", "\n=== src/main.py:2 ===\n> 2: print('Red')\n"},
			[]string{"poem", "import"}},
		{"grep with a directory", "grep_files", `{"pattern":"import","include":"src/*"}`, []string{"src/main.py:1"}, nil},
		{"grep page", "grep_files", `{"pattern":"^match$"}`, []string{"Found 1000+ total matches across 1 files (showing matches 1-20 of 1000+)",
			"many.log:20 ===", "again with offset=20"}, []string{"many.log:21 ==="}},
		{"grep next page", "grep_files", `{"pattern":"^match$","offset":20}`, []string{"showing matches 21-40",
			"many.log:21 ===", "offset=40"}, []string{"many.log:20 ==="}},
		{"grep behind all pages", "grep_files", `{"pattern":"^match$","offset":999999}`, []string{"showing none", "Only the first 1000"}, nil},
		{"grep nothing", "grep_files", `{"pattern":"nowhere"}`, []string{"No matches found"}, nil},
		{"grep a wrong pattern", "grep_files", `{"pattern":"("}`, []string{"error: Invalid regex pattern: missing closing )"}, nil},
		{"grep a lookahead", "grep_files", `{"pattern":"(?=a)"}`, []string{"error: Invalid regex pattern", "RE2"}, nil},
		{"grep no pattern", "grep_files", `{"pattern":" "}`, []string{"error: Empty search pattern provided"}, nil},
		{"grep much context", "grep_files", `{"pattern":"a","context_lines":11}`, []string{"error: context_lines"}, nil},

		{"search", "semantic_search_files", `{"query":"Tea?","limit":2}`,
			[]string{"Found 2 matches by full text", "=== tea.md:41-42 (passage #1) (score: ",
				"  42: tea and tea and tea\n"}, []string{"roses"}},
		{"search several words", "semantic_search_files", `{"query":"brewed in japan"}`, []string{"=== tea.md:1-20 (passage #1)", "Japan"}, nil},
		{"search nothing", "semantic_search_files", `{"query":"nowhere"}`, []string{"Found 0 matches by full text"}, nil},
		{"search without a query", "semantic_search_files", `{"query":" "}`, []string{"error: Empty search query provided"}, nil},
		{"search without words", "semantic_search_files", `{"query":"?!"}`, []string{"error: query"}, nil},
		{"search too much", "semantic_search_files", `{"query":"x","limit":51}`, []string{"error: limit"}, nil},

		{"list", "list_files", `{}`, []string{`{"path":"src","kind":"directory"`, `{"path":"src/main.py","kind":"file","size":24,`}, nil},
		{"list a directory", "list_files", `{"path":"src"}`, []string{"src/main.py"}, []string{"poem"}},
		{"list all as scripts see it", "list_files", `{"path":"/workspace"}`, []string{"poem"}, nil},
		{"list a pattern", "list_files", `{"pattern":"*.py"}`, []string{"src/main.py", "numbers.py"}, []string{"poem"}},
		{"list what is not there", "list_files", `{"path":"gone"}`, []string{"error: there is no such file"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := text(t, w.call(tt.tool, "notes:ro", tt.args))
			for _, part := range tt.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q is not in\n%.3000s", part, got)
				}
			}
			for _, part := range tt.not {
				if strings.Contains(got, part) {
					t.Errorf("%q is in\n%.3000s", part, got)
				}
			}
		})
	}
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.WorkspaceSize{Bytes: 1 << 20, Inodes: 100})
	tests := []struct{ name, args, want, file, content string }{
		{"create", `{"path":"a/b.txt","content":"one\n"}`, "Wrote 4 bytes.", "a/b.txt", "one\n"},
		{"create again", `{"path":"a/b.txt","content":"x"}`, "error: there is a file at this path", "a/b.txt", "one\n"},
		{"append", `{"path":"a/b.txt","content":"two\n","mode":"append"}`, "Wrote 4", "a/b.txt", "one\ntwo\n"},
		{"overwrite", `{"path":"/workspace/a/b.txt","content":"three","mode":"overwrite"}`, "Wrote 5", "a/b.txt", "three"},
		{"append to none", `{"path":"c","content":"x","mode":"append"}`, "Wrote 1", "c", "x"},
		{"another mode", `{"path":"c","content":"y","mode":"delete"}`, "error: mode", "c", "x"},
		{"a directory", `{"path":"a","content":"y","mode":"overwrite"}`, "error: expected a regular file", "c", "x"},
		{"below a file", `{"path":"c/d","content":"y"}`, "error: expected directories", "c", "x"},
		{"too large", `{"path":"c","mode":"overwrite","content":"` + strings.Repeat("x", 1<<20+1) + `"}`, "error: content", "c", "x"},
		{"more than the quota", `{"path":"d","content":"` + strings.Repeat("x", 1<<20) + `"}`, "error: the workspace has more than", "c", "x"},
	}
	for _, tt := range tests {
		got := text(t, w.call("write_file", "notes", tt.args))
		content, err := os.ReadFile(filepath.Join(w.files, tt.file))
		if !strings.HasPrefix(got, tt.want) || err != nil || string(content) != tt.content {
			t.Errorf("%s: %s; the file has %q, %v", tt.name, got, content, err)
		}
	}
	w.check(os.Chmod(filepath.Join(w.files, "c"), 0o755))
	w.call("write_file", "notes", `{"path":"c","content":"#!","mode":"overwrite"}`)
	if info, err := os.Stat(filepath.Join(w.files, "c")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the permissions of the file are %v, %v", info, err)
	}
	got := text(t, w.call("write_file", "notes:ro", `{"path":"new","content":"x"}`))
	if !strings.Contains(got, "read-only") {
		t.Errorf("an agent that only reads writes: %s", got)
	}
	_, err := w.api.AddWorkspace(t.Context(), haft.Principal{Org: "acme", User: "ann"},
		haft.NewWorkspace{Name: "notes@1"})
	w.check(err)
	if got = text(t, w.call("write_file", "notes@1:ro", `{"path":"new","content":"x"}`)); !strings.Contains(got, "read-only") {
		t.Errorf("a snapshot is written: %s", got)
	}
}

// Calls that append at the same time lose nothing.
func TestWriteFile_appends_of_many(t *testing.T) {
	t.Parallel()
	const many = 20
	w := setup(t, haft.WorkspaceSize{})
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			args := fmt.Sprintf(`{"path":"log","content":"<%d>","mode":"append"}`, i)
			if res := w.call("write_file", "notes", args); res.Error != nil {
				t.Error(res.Error.Message)
			}
		})
	}
	all.Wait()
	content, err := os.ReadFile(filepath.Join(w.files, "log"))
	w.check(err)
	for i := range many {
		if n := strings.Count(string(content), fmt.Sprintf("<%d>", i)); n != 1 {
			t.Errorf("%d is there %d times", i, n)
		}
	}
}

// ATTACK: a script leaves links to files of the host, named pipes, files with holes and directories without end in the
// workspace, and the model names paths that lead out of it.
func TestTools_stay_in_the_workspace(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.WorkspaceSize{})
	secret := filepath.Join(t.TempDir(), "secret")
	w.check(os.WriteFile(secret, []byte("topsecret"), 0o644), os.Mkdir(filepath.Join(w.files, "d"), 0o755))
	at := func(name string) string { return filepath.Join(w.files, name) }
	w.check(os.Symlink(secret, at("link")), os.Symlink(filepath.Dir(secret), at("dir")),
		os.Symlink("../../../..", at("up")), os.Symlink("loop", at("loop")), syscall.Mkfifo(at("pipe"), 0o644))
	holes, err := os.Create(at("holes.txt"))
	w.check(err)
	_, err = holes.WriteString(strings.Repeat("topsecret", 1000))
	w.check(err, holes.Truncate(40<<20), holes.Close())
	paths := []string{"link", "dir/secret", "up/etc/passwd", "loop", "pipe", "../" + filepath.Base(w.files), "..", ".",
		"", "d", "d/../link", "/etc/passwd", secret, "//workspace/link", "/workspace/../link", "a\x00b", "./link",
		strings.Repeat("d/", 40) + "x", strings.Repeat("x", 2000), "/workspacelink", "sparse"}
	for _, path := range paths {
		arg, err := json.Marshal(path)
		w.check(err)
		if path == "sparse" { // the last, since it fills the quota
			w.check(os.WriteFile(at(path), nil, 0o644), os.Truncate(at(path), 1<<40))
		}
		if got := text(t, w.call("open_files", "notes", fmt.Sprintf(`{"file_requests":[{"file_name":%s}]}`, arg))); !strings.HasPrefix(got, "error: ") ||
			strings.Contains(got, "topsecret") {
			t.Errorf("open %.50q: %.200s", path, got)
		}
		for _, mode := range []string{"create", "overwrite", "append"} {
			if path == "sparse" && mode == "overwrite" {
				continue // which makes it a small file
			}
			got := text(t, w.call("write_file", "notes", fmt.Sprintf(`{"path":%s,"content":"evil","mode":%q}`, arg, mode)))
			if !strings.HasPrefix(got, "error: ") {
				t.Errorf("%s %.50q: %.200s", mode, path, got)
			}
		}
		if path == "" || path == "d" {
			continue
		}
		if got := text(t, w.call("list_files", "notes", fmt.Sprintf(`{"path":%s}`, arg))); !strings.HasPrefix(got, "error: ") {
			t.Errorf("list %.50q: %.200s", path, got)
		}
	}
	for _, search := range []string{`grep_files {"pattern":"topsecret"}`, `semantic_search_files {"query":"topsecret"}`} {
		tool, args, _ := strings.Cut(search, " ")
		got := text(t, w.call(tool, "notes", args))
		if strings.Contains(got, "=== ") && !strings.Contains(got, "holes.txt") || strings.Contains(got, "link") {
			t.Errorf("%s: %.500s", tool, got)
		}
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "topsecret" {
		t.Errorf("the file of the host is %q, %v", content, err)
	}
}

// ATTACK: a pattern is small and its program is huge.
func TestGrep_refuses_expensive_patterns(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.WorkspaceSize{})
	w.put("a", strings.Repeat("a", 1<<20)+"\n")
	for _, pattern := range []string{strings.Repeat("a", 1001), "(((a{10}){10}){10}){10}", "((abc){30}|x){100}", `(\pL{100}){10}{2}`,
		strings.Repeat("(", 1000), strings.Repeat("a{99}", 100), "a{1001}"} {
		arg, err := json.Marshal(pattern)
		w.check(err)
		if got := text(t, w.call("grep_files", "notes", fmt.Sprintf(`{"pattern":%s}`, arg))); !strings.Contains(got, "error: Pattern too complex") &&
			!strings.Contains(got, "error: Invalid regex") {
			t.Errorf("%.40s: %.300s", pattern, got)
		}
	}
	if got := text(t, w.call("grep_files", "notes", `{"pattern":"(a*)*(a|aa)+$"}`)); !strings.Contains(got, "Found 1 total") {
		t.Errorf("got %.300s", got)
	}
}

// A call without a workspace is told how to get one.
func TestTools_need_a_workspace(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.WorkspaceSize{})
	for tool, args := range map[string]string{"open_files": `{"file_requests":[{"file_name":"a"}]}`,
		"grep_files": `{"pattern":"a"}`, "semantic_search_files": `{"query":"a"}`, "list_files": `{}`,
		"write_file": `{"path":"a","content":""}`} {
		if !workspace.IsFileTool(tool) {
			t.Errorf("%s gets no workspace", tool)
		}
		got := text(t, w.call(tool, "", args))
		if !strings.Contains(got, "haft agent set AGENT --workspace WORKSPACE") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if len(w.set.Tools()) != 5 {
		t.Error("there are other tools: workspace.IsFileTool must know them")
	}
}

// ATTACK: the workspace of the agent is somebody's own, or was removed and another one got its name.
func TestTools_use_the_workspace_that_was_allowed(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.WorkspaceSize{})
	ann := haft.Principal{Org: "acme", User: "ann"}
	_, err := w.api.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: "private"})
	w.check(err)
	tool := haft.Tool{Name: "list_files", Version: haft.Version{Kind: haft.KindBuiltin}}
	for _, name := range []string{"private", "gone", "notes@none"} {
		c := haft.Call{Principal: agent}
		err := w.store.Default(t.Context(), authority.Rules{}, &c, &haft.Agent{Workspace: name}, &tool)
		if haft.CodeOf(err) != haft.CodeInvalid || c.Workspace != nil {
			t.Errorf("%s: %v, %v", name, c.Workspace, err)
		}
	}
	c := haft.Call{Principal: agent}
	w.check(w.store.Default(t.Context(), authority.Rules{}, &c, &haft.Agent{Workspace: "notes"}, &tool))
	w.check(w.api.RemoveWorkspace(t.Context(), ann, "notes"))
	_, err = w.api.AddWorkspace(t.Context(), ann, haft.NewWorkspace{Name: "notes", Shared: true})
	w.check(err)
	req := executor.Request{Tool: tool.Name, Kind: haft.KindBuiltin}
	_, err = w.store.Mount(t.Context(), authority.Rules{}, c, &req, nil)
	if haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("another workspace is used: %v", err)
	}
	if err := w.store.WriteFor(t.Context(), c.Workspace, "a", "", workspace.Create); err == nil {
		t.Error("another workspace is written")
	}
}

// A search ends by itself, however long its call may take, and an organisation has few at once: they are work of the
// server, and of no sandbox.
func TestTools_read_for_a_bounded_time(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.WorkspaceSize{})
	w.put("a.txt", "tea\n")
	w.set = builtin.New()
	w.check(filetool.AddWithin(w.set, w.store, time.Nanosecond))
	for tool, args := range map[string]string{"grep_files": `{"pattern":"tea"}`, "list_files": `{}`,
		"semantic_search_files": `{"query":"tea"}`, "open_files": `{"file_requests":[{"file_name":"a.txt"}]}`} {
		if got := text(t, w.call(tool, "notes", args)); !strings.Contains(got, "takes too long") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	for _, tool := range w.set.Tools() {
		n := tool.Version.Settings.Concurrency
		if (tool.Name == "grep_files" || tool.Name == "semantic_search_files") != (n > 0) {
			t.Errorf("%s is called %d times at once", tool.Name, n)
		}
	}
}
