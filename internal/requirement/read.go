package requirement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// ReadRequirements reads a requirements file: comments, continued lines and
// hashes. Options and other files are refused by their name, whether they stand on
// a line of their own or behind a package.
func ReadRequirements(origin, text string) (Set, error) {
	if err := readable(origin, text); err != nil {
		return Set{}, err
	}
	pip, err := readLines(origin, text, MaxCount)
	if err != nil {
		return Set{}, err
	}
	return Merge(Set{Pip: pip})
}

// The bounds of a lock, which names what the requirements require in turn.
const (
	MaxLock      = 16 << 20
	MaxLockCount = 2000
)

// ReadLock reads a lock: a requirements file in which every package is pinned to one
// version, has hashes, and is there once.
func ReadLock(origin, text string) ([]Pip, error) {
	if len(text) > MaxLock || !utf8.ValidString(text) {
		return nil, refuse("%s: it is not text of at most %d bytes", origin, MaxLock)
	}
	list, err := readLines(origin, text, MaxLockCount)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Pip) int { return strings.Compare(a.Name, b.Name) })
	for i, p := range list {
		if i > 0 && list[i-1].Name == p.Name {
			return nil, refuse("%s: %s is there twice", origin, p.Name)
		}
		if _, ok := p.Pinned(); !ok || len(p.Specs) != 1 {
			return nil, refuse("%s: %s is not pinned to one version", origin, p.Name)
		}
		if len(p.Hashes) == 0 {
			return nil, refuse("%s: %s has no hash", origin, p.Name)
		}
	}
	return list, nil
}

// WriteLock writes a lock as [ReadLock] reads it, sorted.
func WriteLock(list []Pip) string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Pip) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.Line() + "\n")
	}
	return b.String()
}

// readLines reads the requirements of a file, at most most.
func readLines(origin, text string, most int) ([]Pip, error) {
	var list []Pip
	for line, logical := range logicalLines(text) {
		place := fmt.Sprintf("%s: line %d", origin, line)
		if strings.HasPrefix(logical, "-") {
			return nil, at(place, refuse("%s", option(logical)))
		}
		body, hashes, err := cutHashes(logical)
		if err != nil {
			return nil, at(place, err)
		}
		p, err := ParsePip(body)
		if err != nil {
			return nil, at(place, err)
		}
		p.Hashes = hashes
		if list = append(list, p.from(place)); len(list) > most {
			return nil, refuse("%s: there are more than %d packages", origin, most)
		}
	}
	return list, nil
}

// readable bounds a file and refuses what is not text.
func readable(origin, text string) error {
	switch {
	case len(text) > MaxFile:
		return refuse("%s: it has %d bytes, %d is the most", origin, len(text), MaxFile)
	case !utf8.ValidString(text):
		return refuse("%s: it is not UTF-8", origin)
	case strings.ContainsRune(text, 0):
		return refuse("%s: it holds a NUL", origin)
	}
	return nil
}

// logicalLines yields the lines that say something, with the number of the first
// line of each. A backslash at the end continues a line; a # at the beginning or
// after a space begins a comment. Tabs are spaces.
func logicalLines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		text = strings.TrimPrefix(text, "\ufeff")
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", " ").Replace(text)
		var whole strings.Builder
		first, n := 0, 0
		for line := range strings.SplitSeq(text, "\n") {
			n++
			if whole.Len() == 0 {
				first = n
			}
			part, more := strings.CutSuffix(line, `\`)
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				part, more = "", false // a comment ends what was continued
			}
			whole.WriteString(part)
			if more {
				whole.WriteByte(' ')
				continue
			}
			logical, _, _ := strings.Cut(whole.String(), " #")
			whole.Reset()
			if logical = strings.TrimSpace(logical); logical != "" && !yield(first, logical) {
				return
			}
		}
		if rest := strings.TrimSpace(whole.String()); rest != "" {
			yield(first, rest)
		}
	}
}

// options are those of requirements files, and why they are not for a tool to set.
var options = map[string]string{
	"-r":            "other files are not read: put everything into one",
	"--requirement": "other files are not read: put everything into one",
	"-c":            "constraint files are not read: put the versions here",
	"--constraint":  "constraint files are not read: put the versions here",
	"-e":            "editable installs are not accepted: name a package",
	"--editable":    "editable installs are not accepted: name a package",
	"-i":            "the index is the operator's to set", "--index-url": "the index is the operator's to set",
	"--extra-index-url": "the index is the operator's to set", "--no-index": "the index is the operator's to set",
	"-f": "the index is the operator's to set", "--find-links": "the index is the operator's to set",
	"--trusted-host":  "whom to trust is the operator's to set",
	"--no-binary":     "how packages are built is the operator's to set",
	"--only-binary":   "how packages are built is the operator's to set",
	"--prefer-binary": "how packages are built is the operator's to set",
	"--pre":           "name the version instead", "--require-hashes": "give the hashes; that is enough",
	"--use-feature":     "the installer is the operator's",
	"--config-settings": "how packages are built is the operator's to set",
	"--global-option":   "how packages are built is the operator's to set",
}

// option says why the option that text begins with is refused. It echoes only
// names that it knows.
func option(text string) string {
	name := text
	if i := strings.IndexAny(text, "= "); i > 0 {
		name = text[:i]
	}
	why, ok := options[name]
	if !ok && len(name) > 2 && name[1] != '-' { // as in -rfile
		name = name[:2]
		why, ok = options[name]
	}
	if !ok {
		return "options are not accepted"
	}
	return "the option " + name + " is not accepted: " + why
}

// cutHashes takes the hashes off the end of a line.
func cutHashes(line string) (body string, hashes []string, err error) {
	i := strings.Index(line, " -")
	if i < 0 {
		return line, nil, nil
	}
	words := strings.Fields(line[i:])
	for k := 0; k < len(words); k++ {
		value, ok := strings.CutPrefix(words[k], "--hash=")
		if words[k] == "--hash" && k+1 < len(words) {
			k++
			value, ok = words[k], true
		}
		switch {
		case !ok:
			return "", nil, refuse("%s", option(words[k]))
		case !pipHash().MatchString(strings.ToLower(value)):
			return "", nil, refuse("a hash must be sha256:, sha384: or sha512: with its hexadecimal digits")
		case len(hashes) == maxHashes:
			return "", nil, refuse("there are more than %d hashes", maxHashes)
		}
		hashes = append(hashes, strings.ToLower(value))
	}
	slices.Sort(hashes)
	return line[:i], slices.Compact(hashes), nil
}

// ReadPackageJSON reads the dependencies of a package.json. Those for development
// are not needed to run a tool; peers and optional ones are refused with a reason,
// as what becomes of them depends on the installer.
func ReadPackageJSON(origin string, data []byte) (Set, error) {
	if err := readable(origin, string(data)); err != nil {
		return Set{}, err
	}
	var doc struct {
		Dependencies map[string]string `json:"dependencies"`
		Peers        map[string]any    `json:"peerDependencies"`
		Optional     map[string]any    `json:"optionalDependencies"`
		Overrides    map[string]any    `json:"overrides"`
		Workspaces   any               `json:"workspaces"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&doc); err != nil {
		return Set{}, refuse("%s: it is not a package.json: an object whose dependencies are texts", origin)
	}
	if _, err := d.Token(); err != io.EOF {
		return Set{}, refuse("%s: something follows the object", origin)
	}
	for _, k := range []struct {
		name    string
		present bool
	}{
		{"peerDependencies", len(doc.Peers) > 0}, {"optionalDependencies", len(doc.Optional) > 0},
		{"overrides", len(doc.Overrides) > 0}, {"workspaces", doc.Workspaces != nil},
	} {
		if k.present {
			return Set{}, refuse("%s: %s is not accepted: move what the tool needs to dependencies", origin, k.name)
		}
	}
	if err := count(origin, 0, len(doc.Dependencies)); err != nil {
		return Set{}, err
	}
	var s Set
	for i, name := range slices.Sorted(maps.Keys(doc.Dependencies)) {
		n, err := parseNPM(name, doc.Dependencies[name])
		if err != nil {
			return Set{}, at(fmt.Sprintf("%s: dependency %d (by name)", origin, i+1), err)
		}
		n.From = origin
		s.NPM = append(s.NPM, n)
	}
	return Merge(s)
}
