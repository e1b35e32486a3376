package auth

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"
)

// The text of a key.
const (
	keyPrefix   = "haft_"
	idLen       = 12
	randomBytes = 25 // 200 bits
	randomLen   = 40
	checkLen    = 7
	keyLen      = len(keyPrefix) + idLen + 1 + randomLen + checkLen
)

// KeyPattern is a regular expression for the text of API keys, for scanners.
const KeyPattern = `\bhaft_[a-z2-7]{12}_[a-z2-7]{47}\b`

// alphabet is base32 in lower case: no 0 and 1, which look like o and l.
var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// A Token is the text of an API key, as it is shown once. Printed, logged or
// encoded it is "[secret]".
//
// The text is held by a function because printers that go by reflection cannot
// look into one.
type Token struct {
	reveal func() string
}

// Reveal returns the text. The caller is responsible for where it goes.
func (t Token) Reveal() string {
	if t.reveal == nil {
		return ""
	}
	return t.reveal()
}

// Format writes "[secret]", whatever the verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[secret]")) }

// LogValue returns "[secret]".
func (t Token) LogValue() slog.Value { return slog.StringValue("[secret]") }

// MarshalText returns "[secret]". JSON uses it too.
func (t Token) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// newID returns the id of a new key.
func newID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return alphabet.EncodeToString(b)[:idLen]
}

// newToken returns a new key with that id.
func newToken(id string) Token {
	b := make([]byte, randomBytes)
	_, _ = rand.Read(b) // never fails
	text := keyPrefix + id + "_" + alphabet.EncodeToString(b)
	text += checksum(text)
	return Token{func() string { return text }}
}

// checksum returns what follows text in a key.
func checksum(text string) string {
	return alphabet.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))))
}

// ParseKey returns the id in the text of a key, if it is one. It does not say
// whether there is such a key.
func ParseKey(text string) (id string, ok bool) {
	if len(text) != keyLen || !strings.HasPrefix(text, keyPrefix) {
		return "", false
	}
	rest := text[len(keyPrefix):]
	id, secret := rest[:idLen], rest[idLen+1:]
	if rest[idLen] != '_' || !base32Text(id) || !base32Text(secret) {
		return "", false
	}
	body := text[:keyLen-checkLen]
	return id, text[keyLen-checkLen:] == checksum(body)
}

// base32Text reports whether s is of the alphabet.
func base32Text(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return s != ""
}

// isKeyID reports whether s can be the id of a key.
func isKeyID(s string) bool { return len(s) == idLen && base32Text(s) }
