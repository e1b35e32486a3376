package haft_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired are words that names had and that the field has other words for. They may not
// come back. A package that still has some is listed with them until it is rewritten.
var retired = []string{
	"flight", "flights", "aloft", "hall", "lane", "lanes", "dress", "unhad", "house", "door", "doors", "doorkeeper",
	"historian", "postman", "passage", "glance", "blinks", "renounce", "disown", "courier", "porter",
}

var unfinished = map[string][]string{
	"app":              {"door", "house", "passage"},
	"cmd/haft":         {"door"},
	"internal/engine":  {"lane", "passage"},
	"server":           {"door"},
	"compat/letta":     {"door"},
	"server/mcpserver": {"door", "house"},
	"internal/webhook": {"lane"},
}

// words splits a name such as inFlight or HTTPDoor.
var words = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

func TestWords(t *testing.T) {
	found := map[string]map[string]bool{}
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || strings.HasSuffix(id.Name, "nFlight") { // in flight is the field's term
				return true
			}
			for _, w := range words.FindAllString(id.Name, -1) {
				if w = strings.ToLower(w); !slices.Contains(retired, w) {
					continue
				}
				if found[s.dir] == nil {
					found[s.dir] = map[string]bool{}
				}
				if found[s.dir][w] = true; !slices.Contains(unfinished[s.dir], w) {
					t.Errorf("%s: the name %s has the word %q; see retired in words_test.go", s.fset.Position(id.Pos()),
						id.Name, w)
				}
			}
			return true
		})
	}
	for dir, list := range unfinished {
		for _, w := range list {
			if !found[dir][w] {
				t.Errorf("package %s has no name with %q any more: take it off the list", dir, w)
			}
		}
	}
}
