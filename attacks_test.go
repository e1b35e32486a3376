package haft_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page about attacks names tests, cases of the law and scripts that exist.
func TestAttacks_are_those_that_are_tried(t *testing.T) {
	page, err := os.ReadFile("docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	read := func(pattern string) string {
		var all strings.Builder
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(raw)
		}
		return all.String()
	}
	law := read("sandbox/sandboxtest/*.go")
	tests := map[string]string{}
	named := 0
	for _, m := range regexp.MustCompile("`([^` ]+)`").FindAllStringSubmatch(string(page), -1) {
		name := m[1]
		dir, test, isTest := strings.Cut(name, ".Test")
		switch {
		case isTest:
			if dir == "haft" {
				dir = "."
			}
			if tests[dir] == "" {
				tests[dir] = read(dir + "/*_test.go")
			}
			if !strings.Contains(tests[dir], "func Test"+test+"(") {
				t.Errorf("there is no %s", name)
			}
		case strings.HasSuffix(name, ".txtar"):
			if _, err := os.Stat("cmd/haft/testdata/script/" + name); err != nil {
				t.Error(err)
			}
		case strings.Count(name, "_") > 1 && strings.ToLower(name) == name:
			call, _ := strings.CutSuffix(name, "_is_denied")
			call, _ = strings.CutSuffix(call, "_socket")
			if !strings.Contains(law, `"`+name+`"`) && (call == name || !strings.Contains(law, `{"`+call+`",`)) {
				t.Errorf("the law has no %s", name)
			}
		default:
			continue
		}
		named++
	}
	if named < 200 {
		t.Errorf("the page names %d tests, want all of them", named)
	}
}
