package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/internal/store/stored"
)

// The bounds on what is kept, in bytes. What is larger is refused, but for
// results of calls: those are cut, see [haft.Truncated].
const (
	MaxRecord  = 16 << 20 // a call with its result
	MaxSealed  = 64 << 20 // the arguments and environment of a call that has yet to run
	MaxVersion = 16 << 20 // a version of a tool with its source
	MaxCached  = 8 << 20  // a cached value
	MaxText    = 1 << 20  // a policy, a setting, an agent
	maxColumn  = 256      // what is looked up
)

// column returns s as it is kept where it is looked up. Postgres takes no NUL and
// nothing but UTF-8, and an index takes no long text: instead of such an s its
// digest is kept, which is as good to compare with. The character in front is
// not one that s itself could begin with and be kept.
func column(s string) string {
	if plain(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return string(utf8.RuneError) + hex.EncodeToString(sum[:])
}

// plain reports whether s is kept as it is.
func plain(s string) bool {
	return len(s) <= maxColumn && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 &&
		!strings.HasPrefix(s, string(utf8.RuneError))
}

// need reports that a name which has to be given back as it is cannot be kept.
func need(what, s string) error {
	switch {
	case s == "":
		return invalid("%s is missing", what)
	case !plain(s):
		return invalid("%s is longer than %d bytes or is not plain text", what, maxColumn)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func notFound(what string) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such " + what}
}

func conflict(message string) error {
	return &haft.Error{Code: haft.CodeConflict, Message: message}
}

// encodeText is encode for what may have at most [MaxText] bytes.
func encodeText(what string, v any) (string, error) {
	doc, err := stored.Encode(v)
	if err == nil && len(doc) > MaxText {
		return "", invalid("%s has %d bytes, %d is the most", what, len(doc), MaxText)
	}
	return doc, err
}

// page returns how many rows to read.
func page(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// newID makes an id that nobody can guess.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
