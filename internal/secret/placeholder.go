package secret

import (
	"crypto/rand"
	"math/big"
	"strings"
)

// minRandom is how many characters of a placeholder are random at least, so that it
// cannot be guessed: 16 digits have 53 bits, letters more.
const minRandom = 16

// keyPrefixes are public prefixes of keys that programs check.
var keyPrefixes = []string{
	"sk-ant-api03-", "sk-ant-", "sk-proj-", "sk-or-v1-", "sk-", "sk_live_", "sk_test_", "pk_live_", "pk_test_",
	"rk_live_", "rk_test_", "whsec_",
	"github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "xoxb-", "xoxp-", "xoxa-", "xapp-", "hf_",
	"npm_", "pypi-",
	"AKIA", "ASIA", "AIza", "ya29.", "SG.", "key-", "dop_v1_", "shpat_", "lin_api_", "secret_", "ntn_", "pat-", "gsk_",
	"xai-", "r8_", "tvly-",
}

// Placeholder returns a random text of the same shape as like: the same length, the
// same known prefix, letters for letters (hexadecimal ones if all are), digits for
// digits, other characters unchanged. A text with fewer than minRandom letters and
// digits becomes letters, and longer if necessary.
func Placeholder(like string) string {
	keep := 0
	for _, p := range keyPrefixes {
		if strings.HasPrefix(like, p) {
			keep = len(p)
			break
		}
	}
	if parts := strings.Split(like, "."); len(parts) == 3 && strings.HasPrefix(like, "eyJ") {
		keep = len(parts[0]) // the header of a JWT has the algorithm, which programs read
	}
	lower, upper := "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if hexadecimal(like[keep:]) {
		lower, upper = "abcdef", "ABCDEF"
	}
	letters := 0
	for i := keep; i < len(like); i++ {
		if alphanumeric(like[i]) {
			letters++
		}
	}
	bare := letters < minRandom // other characters would reveal too much of a short value
	var b strings.Builder
	b.WriteString(like[:keep])
	random := 0
	for i := keep; i < len(like); i++ {
		switch c := like[i]; {
		case c >= 'a' && c <= 'z':
			b.WriteByte(pick(lower))
		case c >= 'A' && c <= 'Z':
			b.WriteByte(pick(upper))
		case c >= '0' && c <= '9':
			b.WriteByte(pick("0123456789"))
		case !bare && (c >= ' ' && c < 0x7f || c == '\n' || c == '\r' || c == '\t'):
			b.WriteByte(c)
			continue
		default:
			b.WriteByte(pick(lower))
		}
		random++
	}
	for ; random < minRandom; random++ {
		b.WriteByte(pick(lower))
	}
	if b.String() == like {
		return Placeholder(like)
	}
	return b.String()
}

// alphanumeric reports whether c is a letter or a digit.
func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// hexadecimal reports whether all letters of s are a to f, and it has some of
// each kind.
func hexadecimal(s string) bool {
	letters, digits := false, false
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits = true
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			letters = true
		case c >= 'g' && c <= 'z', c >= 'G' && c <= 'Z':
			return false
		}
	}
	return letters && digits
}

// pick returns a random byte of set.
func pick(set string) byte {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(len(set))))
	if err != nil {
		panic(err) // crypto/rand never fails since Go 1.24
	}
	return set[n.Int64()]
}
