// Package skiptest makes tests loud that skip because something is missing: a suite that
// skips quietly is worse than none.
//
// The environment variable HAFT_REQUIRE lists what must be there, as in CI. A test
// that lacks one of those things fails.
package skiptest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Lacking skips a test because thing is missing, for the given reason, or fails it if
// the thing is required.
func Lacking(t testing.TB, thing, reason string) {
	t.Helper()
	if Required(thing) {
		t.Fatalf("%s is required by HAFT_REQUIRE, but: %s", thing, reason)
	}
	t.Skipf("SKIPPED because %s is missing: %s", thing, reason)
}

// Required reports whether HAFT_REQUIRE names thing.
func Required(thing string) bool {
	return slices.Contains(strings.FieldsFunc(os.Getenv("HAFT_REQUIRE"), func(r rune) bool {
		return r == ',' || r == ' '
	}), thing)
}

// Part returns the directory of a part of the test environment that scripts/setup
// installs, which is wanted for the sake of thing.
func Part(t testing.TB, thing, part string) string {
	t.Helper()
	dir, err := find(part)
	if err != nil {
		Lacking(t, thing, fmt.Sprintf("%s of the test environment is not there: run make setup-more (%v)", part,
			err))
	}
	return dir
}

// find looks for a part where the module begins.
func find(part string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if root == filepath.Dir(root) {
			return "", errors.New("the test does not run in its module")
		}
		root = filepath.Dir(root)
	}
	dir := filepath.Join(root, ".haft", part)
	_, err = os.Stat(filepath.Join(dir, "installed.txt")) // written last
	return dir, err
}
