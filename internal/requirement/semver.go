package requirement

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxSemver is the largest number of a version: npm reads numbers up to 2^53-1, and
// the end of a range such as ^1 is the next number.
const maxSemver = 1<<53 - 2

var (
	semverWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(>=|<=|~>|[\^~><=])? *[v=]*([0-9]+|[xX*])(?:\.([0-9]+|[xX*])(?:\.([0-9]+|[xX*])` +
			`(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)?)?(?: +|$)`)
	})
	semverHyphen = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\S+) +- +(\S+)$`) })
)

// parseRange reads a range as node-semver does and returns its alternatives, written
// anew. Whether a version is in it is for npm to find out.
func parseRange(text string) ([]string, error) {
	parts := strings.Split(text, "||")
	if len(parts) > maxAlternatives {
		return nil, refuse("the range has %d alternatives, %d is the most", len(parts), maxAlternatives)
	}
	var out []string
	for _, part := range parts {
		one, err := parseAlternative(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out, nil
}

// parseAlternative reads comparators that spaces join, or a range with a hyphen.
func parseAlternative(text string) (string, error) {
	if m := semverHyphen().FindStringSubmatch(text); m != nil {
		from, okFrom := parseComparator(m[1])
		to, okTo := parseComparator(m[2])
		if !okFrom || !okTo || from.op != "" || to.op != "" {
			return "", refuse("a range with a hyphen needs a version on both sides, such as 1.2 - 1.8")
		}
		from.op, to.op = ">=", "<="
		return joinComparators(from.String(), to.String()), nil
	}
	out := anyVersion
	for text != "" {
		word := semverWord().FindString(text)
		c, ok := parseComparator(word)
		if !ok {
			return "", refuse("the version is not a semver range, such as ^1.2.0 or >=1.2 <3")
		}
		text = strings.TrimLeft(text[len(word):], " ")
		out = joinComparators(out, c.String())
	}
	return out, nil
}

// anyVersion is the range that every version is in.
const anyVersion = "*"

// joinComparators returns the comparators of a and b, which must all hold.
func joinComparators(a, b string) string {
	switch {
	case a == anyVersion || a == b:
		return b
	case b == anyVersion:
		return a
	}
	return a + " " + b
}

// comparator is an operator with a version that may leave numbers open; an empty
// version leaves all of them open.
type comparator struct {
	op, version string
}

// parseComparator reads one comparator. The build part of its version is dropped: it
// orders nothing.
func parseComparator(text string) (comparator, bool) {
	m := semverWord().FindStringSubmatch(text)
	if m == nil || len(m[0]) != len(text) {
		return comparator{}, false
	}
	var numbers []string
	for _, digit := range m[2:5] {
		if !digits(digit) {
			break
		}
		if len(digit) > 16 || number(digit) > maxSemver {
			return comparator{}, false
		}
		numbers = append(numbers, strconv.FormatUint(number(digit), 10))
	}
	c := comparator{op: m[1], version: strings.Join(numbers, ".")}
	if len(numbers) == 3 && m[5] != "" {
		var pre []string
		for id := range strings.SplitSeq(m[5], ".") {
			if digits(id) { // npm refuses leading zeros; they would name one thing twice
				id = strings.TrimLeft(id[:len(id)-1], "0") + id[len(id)-1:]
			}
			pre = append(pre, id)
		}
		c.version += "-" + strings.Join(pre, ".")
	}
	switch c.op {
	case "~>":
		c.op = "~"
	case "=":
		c.op = ""
	}
	return c, true
}

// String writes c as npm reads it.
func (c comparator) String() string {
	switch {
	case c.version != "":
		return c.op + c.version
	case c.op == "<" || c.op == ">":
		return "<0.0.0-0" // no version: none is beyond all
	}
	return anyVersion
}

// digits reports whether s is a number.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
