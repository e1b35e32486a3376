package requirement

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxNesting bounds the brackets of a TOML text before it is parsed: the parser
// goes as deep as the text does.
const maxNesting = 64

// ReadPyproject reads [project] of a pyproject.toml: dependencies and
// requires-python. Other tables are left alone.
func ReadPyproject(origin string, data []byte) (Set, error) {
	var doc struct {
		Project struct {
			metadata
			Dynamic []string `toml:"dynamic"`
		} `toml:"project"`
	}
	if err := readTOML(origin, string(data), &doc); err != nil {
		return Set{}, err
	}
	for _, d := range doc.Project.Dynamic {
		if d == "dependencies" || d == "requires-python" {
			return Set{},
				refuse("%s: [project] says that its %s are dynamic: finding them would run code; write them out",
					origin, d)
		}
	}
	return doc.Project.set(origin, "project.")
}

// ReadScript reads the inline metadata of a Python script, as PEP 723 has it:
//
//	# /// script
//	# requires-python = ">=3.11"
//	# dependencies = ["requests<3"]
//	# ///
//
// Found says whether there is any.
func ReadScript(origin, source string) (s Set, found bool, err error) {
	text, line, err := scriptBlock(origin, source)
	if err != nil || line == 0 {
		return Set{}, false, err
	}
	if err := readable(origin, text); err != nil {
		return Set{}, true, err
	}
	var doc metadata
	place := fmt.Sprintf("%s: metadata from line %d", origin, line)
	if err := readTOML(place, text, &doc); err != nil {
		return Set{}, true, err
	}
	s, err = doc.set(origin, "")
	return s, true, err
}

// A ToolDir is what the file of a directory says about the tool that the directory is.
type ToolDir struct {
	Entry    string   `toml:"entry"`
	Function string   `toml:"function"`
	Files    []string `toml:"files"`
}

// ReadToolDir reads a haft.toml. It refuses keys that it does not know.
func ReadToolDir(origin, text string) (d ToolDir, err error) {
	doc := map[string]any{}
	if err := readTOML(origin, text, &doc); err != nil {
		return d, err
	}
	for key := range doc {
		if key != "entry" && key != "function" && key != "files" {
			return d, refuse("%s: only entry, function and files belong here; settings are in the .tool.json beside "+
				"the source", origin)
		}
	}
	if _, err := toml.Decode(text, &d); err != nil {
		return d, refuse("%s: entry and function must be strings, and files a list of strings", origin)
	}
	return d, nil
}

// scriptBlock returns the text of the block named script, and its first line. As
// PEP 723 says, two of them are an error, and the last line of comments that reads
// "# ///" ends it.
func scriptBlock(origin, source string) (text string, first int, err error) {
	lines := strings.Split(strings.ReplaceAll(source, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] != "# /// script" {
			continue
		}
		end, last := -1, i
		for k := i + 1; k < len(lines) && (lines[k] == "#" || strings.HasPrefix(lines[k], "# ")); k++ {
			if last = k; lines[k] == "# ///" {
				end = k
			}
		}
		switch {
		case end < 0:
			return "", 0, refuse("%s: line %d begins metadata (# /// script) that no line \"# ///\" ends", origin, i+1)
		case first > 0:
			return "", 0, refuse("%s: line %d begins metadata (# /// script) a second time", origin, i+1)
		}
		var b strings.Builder
		for _, l := range lines[i+1 : end] {
			b.WriteString(strings.TrimPrefix(strings.TrimPrefix(l, "#"), " ") + "\n")
		}
		text, first = b.String(), i+1
		i = last
	}
	return text, first, nil
}

// readTOML parses text into doc. The parser's own words may hold parts of the text,
// so that only the line is told.
func readTOML(place, text string, doc any) error {
	if err := readable(place, text); err != nil {
		return err
	}
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > maxNesting {
			return refuse("%s: brackets nest deeper than %d", place, maxNesting)
		}
	}
	if _, err := toml.Decode(text, doc); err != nil {
		if pe, ok := errors.AsType[toml.ParseError](err); ok {
			return refuse("%s: line %d is not TOML", place, pe.Position.Line)
		}
		return refuse("%s: a value has another type: dependencies must be a list of strings and requires-python a "+
			"string", place)
	}
	return nil
}

// metadata is what pyproject.toml and scripts say alike.
type metadata struct {
	Dependencies []string `toml:"dependencies"`
	Python       string   `toml:"requires-python"`
}

// set returns the requirements of m, which stands in a table of the file.
func (m metadata) set(origin, table string) (Set, error) {
	s, err := Parse(origin, m.Dependencies, nil)
	if err != nil {
		return Set{}, err
	}
	if err = plain(m.Python); err == nil {
		s.Python, err = parseSpecs(m.Python)
	}
	if err != nil {
		return Set{}, at(origin+": "+table+"requires-python", err)
	}
	for i := range s.Python {
		s.Python[i].From = origin
	}
	return Merge(s)
}
