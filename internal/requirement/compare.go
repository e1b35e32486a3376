package requirement

import (
	"cmp"
	"strings"
)

// ComparePip orders two versions as PEP 440 does, without their local parts. It reports false if one
// of them is no version.
func ComparePip(a, b string) (int, bool) {
	v, okV := parseVersion(a)
	w, okW := parseVersion(b)
	if !okV || !okW {
		return 0, false
	}
	return v.compare(w), true
}

// CompareNPM orders two versions as semver does. It reports false if one of them is no version.
func CompareNPM(a, b string) (int, bool) {
	v, preV, okV := semver(a)
	w, preW, okW := semver(b)
	if !okV || !okW {
		return 0, false
	}
	for i := range v {
		if c := compareDigits(v[i], w[i]); c != 0 {
			return c, true
		}
	}
	if preV == "" || preW == "" {
		return -cmp.Compare(min(len(preV), 1), min(len(preW), 1)), true // a release comes after what precedes it
	}
	return comparePre(strings.Split(preV, "."), strings.Split(preW, ".")), true
}

// semver parts a version into its three numbers and what precedes the release. A number that is
// left out is 0, as advisories begin their ranges with 0.
func semver(text string) (numbers [3]string, pre string, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "v"), "+")
	text, pre, dashed := strings.Cut(text, "-")
	parts := strings.Split(text, ".")
	if len(text) > 200 || len(pre) > 200 || len(parts) > 3 || dashed && pre == "" {
		return numbers, "", false
	}
	for i := range numbers {
		numbers[i] = "0"
		if i < len(parts) {
			numbers[i] = parts[i]
		}
		if !digits(numbers[i]) {
			return numbers, "", false
		}
	}
	return numbers, pre, true
}

// comparePre orders what precedes a release: numbers come before words, and fewer parts before more.
func comparePre(a, b []string) int {
	for i := range min(len(a), len(b)) {
		numA, numB := digits(a[i]), digits(b[i])
		c := 0
		switch {
		case numA && numB:
			c = compareDigits(a[i], b[i])
		case numA:
			c = -1
		case numB:
			c = 1
		default:
			c = strings.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareDigits orders numbers of any length.
func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
