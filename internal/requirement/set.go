package requirement

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"haft"
)

// The bounds of what is read.
const (
	// MaxCount is how many requirements of one kind a set may have.
	MaxCount = 200
	// MaxLength is how long one requirement may be, in bytes, without its hashes.
	MaxLength = 300
	// MaxFile is how large a file may be that names requirements.
	MaxFile = 256 << 10
)

// A Set is what something needs. Its requirements are sorted, and each name (with
// each marker) is there once.
type Set struct {
	Pip []Pip
	NPM []NPM
	// Python is what the interpreter's version must be.
	Python []Spec
}

// A Pip is one requirement of a Python package.
type Pip struct {
	// Name is normalised as PEP 503 says: lower case, with single dashes.
	Name   string
	Extras []string
	Specs  []Spec
	// Marker is the condition under which it holds, "" means always.
	Marker string
	// Hashes are those of the files that are accepted, as "sha256:hex"; none means
	// any file.
	Hashes []string
}

// A Spec bounds a version.
type Spec struct {
	Op      string // one of ~= == != <= >= < > ===
	Version string // normalised; with == and != it may end in .*
	// From says who asks for it, such as "the tool".
	From string
}

// An NPM is one requirement of an npm package.
type NPM struct {
	Name string
	// Range is what semver ranges are written as, or a tag such as latest.
	Range string
	// From says who asks for it.
	From string

	alternatives []string // of Range; nil if it is a tag
}

// Parse reads requirements that are given as strings. Origin says who asks for
// them in errors, such as "the tool".
func Parse(origin string, pip, npm []string) (Set, error) {
	var s Set
	if err := count(origin, len(pip), len(npm)); err != nil {
		return s, err
	}
	for i, text := range pip {
		p, err := ParsePip(text)
		if err != nil {
			return Set{}, at(fmt.Sprintf("%s: pip requirement %d", origin, i+1), err)
		}
		s.Pip = append(s.Pip, p.from(origin))
	}
	for i, text := range npm {
		n, err := ParseNPM(text)
		if err != nil {
			return Set{}, at(fmt.Sprintf("%s: npm requirement %d", origin, i+1), err)
		}
		n.From = origin
		s.NPM = append(s.NPM, n)
	}
	return Merge(s)
}

// Empty reports whether nothing is needed.
func (s Set) Empty() bool { return len(s.Pip) == 0 && len(s.NPM) == 0 }

// Strings returns the requirements as [Parse] reads them.
func (s Set) Strings() (pip, npm []string) {
	for _, p := range s.Pip {
		pip = append(pip, p.String())
	}
	for _, n := range s.NPM {
		npm = append(npm, n.String())
	}
	return pip, npm
}

// Digest names the set by its content. Who asked for what is no part of it.
func (s Set) Digest() string {
	h := sha256.New()
	fmt.Fprint(h, "haft requirement set 1\n")
	put := func(tag, text string) {
		fmt.Fprintf(h, "%s %d %s\n", tag, len(text), text)
	}
	for _, p := range s.Pip {
		put("pip", p.String())
		for _, sum := range p.Hashes {
			put("hash", sum)
		}
	}
	for _, n := range s.NPM {
		put("npm", n.String())
	}
	put("python", joinSpecs(s.Python))
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Merge puts sets together. Constraints of one package are joined, and the installer
// says if no version fits them all. It returns an error with [haft.CodeConflict] that
// names both sides if two of them cannot be written as one, as a tag of npm and a range.
func Merge(sets ...Set) (Set, error) {
	var all Set
	for _, s := range sets {
		all.Pip = append(all.Pip, s.Pip...)
		all.NPM = append(all.NPM, s.NPM...)
		all.Python = append(all.Python, s.Python...)
	}
	var err error
	if all.Pip, err = mergePip(all.Pip); err != nil {
		return Set{}, err
	}
	if all.NPM, err = mergeNPM(all.NPM); err != nil {
		return Set{}, err
	}
	all.Python = sortSpecs(all.Python)
	if err := count("together", len(all.Pip), len(all.NPM)); err != nil {
		return Set{}, err
	}
	return all, nil
}

// mergePip brings together what is said of one package under one condition.
func mergePip(list []Pip) ([]Pip, error) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Pip) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Marker, b.Marker))
	})
	var out []Pip
	for _, p := range list {
		if n := len(out); n > 0 && out[n-1].Name == p.Name && out[n-1].Marker == p.Marker {
			last := &out[n-1]
			last.Extras = union(last.Extras, p.Extras)
			last.Hashes = union(last.Hashes, p.Hashes)
			last.Specs = slices.Concat(last.Specs, p.Specs)
			continue
		}
		out = append(out, p)
	}
	for i := range out {
		out[i].Specs = sortSpecs(out[i].Specs)
		if n := len(out[i].String()); n > MaxLength {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
				"%s: what is asked of it is %d characters long together, %d is the most", out[i].Name, n, MaxLength)}
		}
	}
	return out, nil
}

// sortSpecs sorts specs and drops repetitions. Whether a version fits all of them is
// for the installer to find out, which knows the versions.
func sortSpecs(specs []Spec) []Spec {
	specs = slices.Clone(specs)
	slices.SortStableFunc(specs, func(a, b Spec) int {
		return cmp.Or(strings.Compare(a.Op, b.Op), strings.Compare(a.Version, b.Version))
	})
	return slices.CompactFunc(specs, func(a, b Spec) bool { return a.Op == b.Op && a.Version == b.Version })
}

// union returns the sorted elements of a and b.
func union(a, b []string) []string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// from returns p with its constraints marked as asked for by origin.
func (p Pip) from(origin string) Pip {
	p.Specs = slices.Clone(p.Specs)
	for i := range p.Specs {
		p.Specs[i].From = origin
	}
	return p
}

// count bounds the number of requirements.
func count(origin string, pip, npm int) error {
	for _, k := range []struct {
		kind string
		n    int
	}{{"pip", pip}, {"npm", npm}} {
		if k.n > MaxCount {
			return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
				"%s: there are %d %s requirements, %d is the most", origin, k.n, k.kind, MaxCount)}
		}
	}
	return nil
}

// refuse makes an error that says what is wrong. It must not be given text that
// came from outside.
func refuse(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// at puts the place before the message of err, which refuse made.
func at(place string, err error) error {
	return &haft.Error{Code: haft.CodeOf(err), Message: place + ": " + haft.MessageOf(err)}
}

// plain refuses text that no requirement can hold. It is the first look: the
// grammars are stricter.
func plain(text string) error {
	if len(text) > MaxLength {
		return refuse("it is %d characters long, %d is the most", len(text), MaxLength)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n' || c == '\r':
			return refuse("character %d is a line break", i+1)
		case c < ' ' || c == 0x7f:
			return refuse("character %d is a control character", i+1)
		case c > 0x7e:
			return refuse("character %d is not ASCII", i+1)
		}
	}
	return nil
}

// number reads digits that were matched. Versions with longer numbers than this
// are refused before.
func number(digits string) uint64 {
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}
