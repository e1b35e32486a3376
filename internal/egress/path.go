package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// errPath is why a path is not matched against rules at all.
var errPath = errors.New("the path can be read in more than one way")

// maxPath is the longest path that is matched.
const maxPath = 8 << 10

// cleanPath decodes a path once. Servers differ in how they read dot segments,
// double slashes, backslashes, encoded slashes, parameters and second encodings;
// a path with any of them would be judged as one thing and served as another.
func cleanPath(raw string) (string, error) {
	if len(raw) > maxPath || !strings.HasPrefix(raw, "/") {
		return "", errPath
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '?' || c == '#' {
			return "", errPath
		}
	}
	var segments []string
	for i, s := range strings.Split(raw[1:], "/") {
		d, err := url.PathUnescape(s)
		if err != nil || strings.ContainsAny(d, "/\\%") {
			return "", errPath
		}
		for j := range len(d) {
			if d[j] < ' ' || d[j] == 0x7f {
				return "", errPath
			}
		}
		bare, _, _ := strings.Cut(d, ";") // Tomcat and others read "..;x" as ".."
		if bare == "." || bare == ".." || bare == "" && (d != "" || i < strings.Count(raw, "/")-1) {
			return "", errPath
		}
		segments = append(segments, d)
	}
	return "/" + strings.Join(segments, "/"), nil
}

// rulePath reads the path of a rule: * is a whole segment, and at the end it is
// everything below.
func rulePath(raw string) (string, error) {
	if strings.Contains(strings.ToLower(raw), "%2a") {
		return "", errors.New("a star in a path cannot be escaped")
	}
	p, err := cleanPath(raw)
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	for s := range strings.SplitSeq(p, "/") {
		if strings.Contains(s, "*") && s != "*" {
			return "", errors.New("path: * is a whole segment, as in /v1/* or /a/*/b")
		}
	}
	return p, nil
}

// escapePath is the way back from rulePath.
func escapePath(p string) string {
	if p == "" {
		return ""
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		if s != "*" {
			segments[i] = url.PathEscape(s)
		}
	}
	return strings.Join(segments, "/")
}

// matchPath reports whether a rule's path names a clean path.
func matchPath(rule, path string) bool {
	want, got := strings.Split(rule[1:], "/"), strings.Split(path[1:], "/")
	for i, w := range want {
		switch {
		case i >= len(got):
			return false
		case w == "*" && i == len(want)-1:
			return true
		case w == "*" && got[i] != "":
		case w != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}
