package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "make seccomp.json again, from Docker's default profile")

// The file default.json of this module (Apache-2.0) is Docker's default profile.
const (
	dockerModule = "github.com/moby/profiles/seccomp@v0.2.3"
	dockerSum    = "536529b665dd0972c37bfb569f5d4ac8a53592e7b00752bc39ff063ca9864c74"
)

// namespaceCalls are the system calls that make a sandbox, and that Docker allows
// only to CAP_SYS_ADMIN, or to nobody (pivot_root).
var namespaceCalls = []string{
	"clone", "clone3", "mount", "mount_setattr", "move_mount", "open_tree", "pivot_root",
	"setdomainname", "sethostname", "umount2", "unshare",
}

// replaced are Docker's rules that our one rule takes the place of: clone without
// the flags of namespaces, and no clone3, whose flags a filter cannot see.
const replaced = `[
{"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":2114060288,"op":"SCMP_CMP_MASKED_EQ"}],
 "excludes":{"caps":["CAP_SYS_ADMIN"],"arches":["s390","s390x"]}},
{"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":1,"value":2114060288,"op":"SCMP_CMP_MASKED_EQ"}],
 "comment":"s390 parameter ordering for clone is different","includes":{"arches":["s390","s390x"]},
 "excludes":{"caps":["CAP_SYS_ADMIN"]}},
{"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38,"excludes":{"caps":["CAP_SYS_ADMIN"]}}]`

// A profile is one of Docker's format. Its rules stay as they are written.
type profile struct {
	DefaultAction   string            `json:"defaultAction"`
	DefaultErrnoRet int               `json:"defaultErrnoRet"`
	ArchMap         json.RawMessage   `json:"archMap"`
	Syscalls        []json.RawMessage `json:"syscalls"`
}

// A rule is what the tests read of a rule.
type rule struct {
	Names    []string        `json:"names"`
	Action   string          `json:"action"`
	Comment  string          `json:"comment,omitempty"`
	Includes json.RawMessage `json:"includes,omitempty"`
	Excludes json.RawMessage `json:"excludes,omitempty"`
}

// ourRule allows the calls that make a sandbox.
func ourRule(t *testing.T) []json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(rule{Names: namespaceCalls, Action: "SCMP_ACT_ALLOW", Comment: "Haft: to make sandboxes"})
	if err != nil {
		t.Fatal(err)
	}
	return []json.RawMessage{raw}
}

// swap returns p with the rules of one list in the place of those of another.
func swap(t *testing.T, p []byte, from, to []json.RawMessage) []byte {
	t.Helper()
	var out profile
	if err := json.Unmarshal(p, &out); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(out.Syscalls, func(r json.RawMessage) bool { return compact(t, r) == compact(t, from[0]) })
	if at < 0 || len(out.Syscalls) < at+len(from) {
		t.Fatalf("the profile has no rule %s", from[0])
	}
	for i, r := range from {
		if compact(t, out.Syscalls[at+i]) != compact(t, r) {
			t.Fatalf("rule %d of the profile is not %s", at+i, r)
		}
	}
	out.Syscalls = slices.Replace(out.Syscalls, at, at+len(from), to...)
	text, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// compact returns JSON without white space.
func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// dockers returns Docker's default profile, made from ours.
func dockers(t *testing.T) []byte {
	t.Helper()
	var theirs []json.RawMessage
	if err := json.Unmarshal([]byte(replaced), &theirs); err != nil {
		t.Fatal(err)
	}
	if *update {
		out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", dockerModule).Output()
		var module struct{ Dir string }
		if err == nil {
			err = json.Unmarshal(out, &module)
		}
		if err != nil {
			t.Fatal(err)
		}
		base := []byte(read(t, filepath.Join(module.Dir, "default.json")))
		if err := os.WriteFile("seccomp.json", swap(t, base, theirs, ourRule(t)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return swap(t, []byte(read(t, "seccomp.json")), ourRule(t), theirs)
}

// The profile is Docker's own, with the calls that make namespaces and no others.
func TestSeccomp_is_Dockers_and_one_rule(t *testing.T) {
	sum := sha256.Sum256(bytes.TrimSuffix(dockers(t), []byte("\n")))
	if got := hex.EncodeToString(sum[:]); got != dockerSum {
		t.Errorf("without our rule the profile has the sum %s, default.json of %s has %s", got, dockerModule, dockerSum)
	}
}

// The calls of our rule are those that the sandbox makes and that Docker forbids.
func TestSeccomp_allows_what_the_sandbox_calls(t *testing.T) {
	var base profile
	if err := json.Unmarshal(dockers(t), &base); err != nil {
		t.Fatal(err)
	}
	allowed, conditional := map[string]bool{}, map[string]bool{"pivot_root": true}
	for _, raw := range base.Syscalls {
		var r rule
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		free := r.Action == "SCMP_ACT_ALLOW" && r.Includes == nil && r.Excludes == nil
		for _, name := range r.Names {
			allowed[name], conditional[name] = allowed[name] || free, true
		}
	}
	want := map[string]bool{"clone": true} // syscall.ForkExec with Cloneflags
	for name := range systemCalls(t, "../sandbox/local") {
		if conditional[name] && !allowed[name] {
			want[name] = true
		}
	}
	for _, name := range namespaceCalls {
		if !want[name] {
			t.Errorf("the profile allows %s, which the sandbox does not call", name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("the sandbox calls %s, which the profile does not allow", name)
	}
}

// systemCalls returns the names below a directory that mean a system call of
// package unix: SYS_OPEN_TREE and OpenTree are open_tree.
func systemCalls(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	word := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if from, ok := s.X.(*ast.Ident); ok && from.Name == "unix" {
					call := strings.TrimPrefix(s.Sel.Name, "SYS_")
					names[strings.ToLower(word.ReplaceAllString(call, "${1}_$2"))] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
