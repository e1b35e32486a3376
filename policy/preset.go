package policy

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// A Preset is a pattern that a filter names instead of writing it.
type Preset string

// The presets. They find what is written plainly, and nothing that is encoded or spelled another way:
// what keeps a tool from destroying something is its sandbox.
const (
	Destructive Preset = "destructive" // rm -rf /, DROP TABLE, DELETE FROM without WHERE
	Shell       Preset = "shell"       // characters that mean something to a shell
	Credentials Preset = "credentials" // password=…, api_key: …, secret=…
	Email       Preset = "email"       // addresses of e-mail
)

// presets are the patterns, with those of each preset in a list for the reader.
func presets() map[Preset]string {
	return map[Preset]string{
		Destructive: "(?i)" + strings.Join([]string{`rm\s+-(rf|fr)\s+/`, `DROP\s+TABLE`, `DELETE\s+FROM\s+\w+\s*;`}, "|"),
		Shell:       "[`$|&;><\\\\]",
		Credentials: `(?i)(password|passwd|api[_-]?key|secret|token)["']?\s*[:=]\s*["']?[\w!@#$%^&*.+/-]+`,
		Email:       `[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`,
	}
}

// preset reads the name of a preset, and returns its pattern.
func (c *compiler) preset(n ast.Node) *matcher {
	all := presets()
	names := make([]Preset, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	text := all[oneOf(&c.document, n, "preset", names)]
	if c.err != nil {
		return nil
	}
	return c.compilePattern(n, text)
}
