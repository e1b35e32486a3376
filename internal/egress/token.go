package egress

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

// token reports whether s is a token of HTTP, such as a method or the name of a header
// (RFC 9110, 5.6.2).
func token(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// tokenByte reports whether c may stand in a token.
func tokenByte(c byte) bool { return httpguts.IsTokenRune(rune(c)) }

// printable returns what can be printed of s, and not more than a line of it.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 200)]
}
