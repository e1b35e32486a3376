package haft_test

import (
	"cmp"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired are words that names had and that the field has other words for, which stand beside them. They may
// not come back. A package that still has some is listed in exceptionsFile.
var retired = map[string]string{
	"flight": "execution", "flights": "executions", "aloft": "inFlight", "fly": "run, load", "boarding": "start",
	"hall": "scheduler", "lane": "queue", "lanes": "queues",
	"door": "API, endpoint, listener", "doors": "APIs", "doorkeeper": "the check that it does",
	"house": "config, codebase", "room": "package, space", "rooms": "packages",
	"law": "contract, conformance suite", "laws": "contracts",
	"historian": "CallHistory", "postman": "WebhookAdmin", "shelf": "ToolReader", "courier": "the sender",
	"porter": "the reader", "outlet": "egress connection", "gate": "egress guard",
	"pump": "output reader", "parked": "idle", "armed": "preloaded", "lingering": "exiting",
	"dress": "buildEnv", "undress": "the opposite of it", "wear": "overlay", "unhad": "missing",
	"glance": "prefilter", "blinks": "prefilterCooldown", "farthest": "prefilterWindow", "calm": "safeBoundary",
	"sieve": "prefilter", "renounce": "abandonLog", "disown": "clearEpoch", "tend": "maintain",
	"tell": "report, send", "tells": "reports", "told": "reported", "hear": "receive", "hears": "receives",
	"heard": "received",
}

// inField are uses of those words that are terms of the field.
var inField = []string{"nFlight", "semaphoreGate"}

// retiredText matches words and turns of phrase that comments and documents had and that the field has other words
// for: contract or conformance suite, API or endpoint, in flight, egress proxy, because something is missing.
var retiredText = regexp.MustCompile(`(?i)\b(laws?|doors?|doorkeepers?|aloft|outlets?|historian|postman|for want of|` +
	`in vain|parked|of which nobody|who comes back with|put back alone)\b`)

// words splits a name such as inFlight or HTTPDoor.
var words = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

func TestWords(t *testing.T) {
	found := map[string]int{}
	for _, s := range sources(t) {
		for _, w := range fileWords(s) {
			found[cmp.Or(s.dir, "haft")+":"+w] = 1
		}
	}
	holdExceptions(t, "word", 0, found, 0)
}

// TestWords_in_texts looks at comments and documents.
func TestWords_in_texts(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if found := retiredText.FindString(c.Text); found != "" {
					t.Errorf("%s: the comment says %q: %s", s.name, found, c.Text)
				}
			}
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "RATIONALE.md", "SECURITY.md")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := retiredText.FindString(line); found != "" {
				t.Errorf("%s:%d says %q", page, i+1, found)
			}
		}
	}
}

// fileWords returns the retired words in the names that a file declares or uses.
func fileWords(s source) []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || slices.ContainsFunc(inField, func(end string) bool { return strings.HasSuffix(id.Name, end) }) {
			return true
		}
		for _, w := range words.FindAllString(id.Name, -1) {
			if w = strings.ToLower(w); retired[w] != "" {
				found = append(found, w)
			}
		}
		return true
	})
	return found
}
