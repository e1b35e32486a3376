package pyschema_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"haft/internal/skiptest"
	"haft/schema/pyschema"
)

// testenv returns the path of something in the environment of real packages that
// scripts/setup makes. Without it the test is skipped, or fails if HAFT_REQUIRE
// names pydantic.
func testenv(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", ".haft"}, parts...)...))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err == nil {
		return path
	}
	skiptest.Lacking(t, "pydantic",
		fmt.Sprintf("the environment of real packages is missing: run scripts/setup test (%v)", err))
	return ""
}

// withTimeout returns a context that ends before the test does.
func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d) // t.Context ends before the clean-up
	t.Cleanup(cancel)
	return ctx
}

// once reads a source one time for all the functions in it. It is for one
// goroutine.
func once(read pyschema.Reader) pyschema.Reader {
	var source, out []byte
	return func(ctx context.Context, s []byte) ([]byte, error) {
		if out != nil && bytes.Equal(s, source) {
			return out, nil
		}
		var err error
		source = bytes.Clone(s)
		out, err = read(ctx, s)
		return out, err
	}
}
