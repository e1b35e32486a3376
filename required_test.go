package haft_test

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// optionalParts are the names that tests skip by and that .ci/run does not require, with the reason.
var optionalParts = map[string]string{
	"systemd":    "no target of the Makefile installs it",
	"tar":        "no target of the Makefile installs it",
	"dpkg-deb":   "no target of the Makefile installs it",
	"root":       ".ci/run may be run by an ordinary user",
	"mount":      "a container may forbid mounts",
	"namespaces": "a kernel may forbid them to ordinary users",
	"port 53":    "the machine may have a DNS server of its own",
}

// computedParts are the names that tests skip by and compute, by file and expression.
var computedParts = map[string][]string{
	"attacks_test.go m.part":                                           {"container", "gvisor"},
	"app/brokered_linux_test.go program":                               {"curl", "git", "node"},
	"app/mock_linux_test.go program":                                   {"curl", "node"},
	"executor/builtin/world_test.go l.thing":                           {"python", "node", "bash"},
	"executor/script/egress_linux_test.go tt.needs":                    {"curl"},
	"executor/script/egressworld_linux_test.go names[0]":               {"requests", "httpx"},
	"executor/script/main_linux_test.go things[kind]":                  {"python", "node", "bash"},
	"executor/script/world_test.go things[kind]":                       {"python", "node", "bash"},
	`internal/egress/programs_test.go strings.TrimSuffix(name, "3")`:   {"python", "curl", "git"},
	"sandbox/sandboxtest/require.go thing":                             {}, // its callers are looked at
	`scripts/release/release_test.go strings.TrimSuffix(program, "3")`: {"python", "npm", "tar", "dpkg-deb"},
	"internal/skiptest/skiptest.go thing":                              {},
}

// askedParts returns the names that tests skip by, with a file that asks for each.
func askedParts(t *testing.T) map[string]string {
	t.Helper()
	asked, met := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.dir == "internal/skiptest" && s.test || s.name == "sandbox/sandboxtest/sandboxtest_test.go" {
			continue // the tests of the helpers
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := partOf(s, call)
			if name == nil {
				return true
			}
			if text := constantText(name); text != "" {
				asked[text] = s.name
				return true
			}
			place := s.name + " " + types.ExprString(name)
			names, ok := computedParts[place]
			if !ok {
				t.Errorf("%s computes the name of a part: add its values to computedParts", place)
			}
			met[place] = true
			for _, text := range names {
				asked[text] = s.name
			}
			return true
		})
	}
	for place := range computedParts {
		if !met[place] {
			t.Errorf("computedParts has %q, where no test skips", place)
		}
	}
	return asked
}

// partOf returns the argument that names a part, if a call skips a test that lacks it, or nil.
func partOf(s source, call *ast.CallExpr) ast.Expr {
	text := types.ExprString(call.Fun)
	if s.dir == "internal/skiptest" {
		text = "skiptest." + text
	}
	switch {
	case slices.Contains([]string{"skiptest.Lacking", "skiptest.Part", "sandboxtest.Require"}, text):
		return call.Args[1]
	case text == "skiptest.Required" || text == "sandboxtest.Required":
		return call.Args[0]
	}
	return nil
}

// Every name that a test skips by is in HAFT_REQUIRE of .ci/run, or has a reason in optionalParts: CI would skip
// the tests of a part that it installs and does not require, and nobody would see it.
func TestTiers_require_every_part(t *testing.T) {
	script, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`HAFT_REQUIRE:-([^}]+)\}`).FindSubmatch(script)
	if m == nil {
		t.Fatal(".ci/run sets no HAFT_REQUIRE")
	}
	required, asked := strings.Split(string(m[1]), ","), askedParts(t)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		_, optional := optionalParts[name]
		if in := slices.Contains(required, name); in == optional {
			t.Errorf("%s skips by %q: it has to be in HAFT_REQUIRE of .ci/run or in optionalParts, and not in both",
				asked[name], name)
		}
	}
	for _, name := range append(slices.Sorted(maps.Keys(optionalParts)), required...) {
		if asked[name] == "" {
			t.Errorf("%q is required or optional, and no test skips by it", name)
		}
	}
}
