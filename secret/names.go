package secret

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"

	"haft"
)

// masked stands in the place of the value of a sensitive name.
const masked = `"[redacted]"`

// Names knows the names of arguments that mean secrets. It never changes and is
// safe for concurrent use. A nil Names knows the common ones.
type Names struct {
	extra map[string]bool
}

// NewNames returns the common names and those of extra. How words are joined, and
// their case, does not matter: apiKey, api_key and API-KEY are one name.
func NewNames(extra []string) *Names {
	n := &Names{extra: make(map[string]bool, len(extra))}
	for _, e := range extra {
		n.extra[strings.Join(split(e), "")] = true
	}
	return n
}

// Sensitive reports whether an argument of this name holds a secret. It goes by
// the words of the name: access_token does, max_tokens and tokenizer do not.
func (n *Names) Sensitive(name string) bool {
	const longest = 256 // of a name that means anything
	name = name[:min(len(name), longest)]
	few, count := splitPlain(name)
	words := few[:count]
	if len(words) == 0 {
		words = split(name)
	}
	if len(words) == 0 {
		return false
	}
	if n != nil && len(n.extra) > 0 {
		var buf [longest]byte
		// Any run of words may be an extra name: x_billing_pin has billing_pin.
		for i := range words {
			joint := buf[:0]
			for _, w := range words[i:] {
				if joint = append(joint, w...); n.extra[string(joint)] {
					return true
				}
			}
		}
	}
	if about(words[len(words)-1]) && len(words) > 1 {
		return false // token_count, password_policy
	}
	for i, w := range words {
		before := ""
		if i > 0 {
			before = words[i-1]
		}
		if secretWord(w, before, i+1 < len(words)) {
			return true
		}
	}
	return false
}

// secretWord reports whether a word means a secret after the word before it.
func secretWord(w, before string, more bool) bool {
	switch w {
	case "password", "passwords", "passwd", "pwd", "passphrase", "passcode", "pass",
		"secret", "secrets", "credential", "credentials", "creds", "authorization",
		"cookie", "cookies", "jwt", "bearer", "otp", "totp", "cvv", "cvc", "ssn", "dsn",
		"passwort", "kennwort", "contraseña", "contrasena", "senha",
		"apikey", "apikeys", "privatekey", "accesskey", "secretkey", "sessionid", "connectionstring",
		"accesstoken", "refreshtoken", "authtoken", "sessiontoken", "bearertoken", "idtoken", "csrftoken":
		return w != "pass" || !more || before != ""
	case "auth":
		return !more
	case "token":
		return !harmlessToken(before)
	case "tokens":
		return before == "access" || before == "refresh" || before == "auth" || before == "api" || before == "session" || before == "bearer"
	case "key", "keys":
		return keeping(before)
	case "string", "str", "url", "uri":
		return before == "connection" || before == "conn"
	case "session":
		return false
	case "id":
		return before == "session"
	case "code":
		return before == "pin" || before == "otp" || before == "mfa" || before == "verification"
	}
	for _, part := range []string{"password", "passwd", "passphrase", "apikey", "secretkey", "privatekey", "accesstoken", "authtoken", "clientsecret"} {
		if strings.HasSuffix(w, part) {
			return true
		}
	}
	return false
}

// harmlessToken reports whether a token of this sort is no secret: a place in a
// list, or a piece of a model's text.
func harmlessToken(sort string) bool {
	switch sort {
	case "page", "next", "prev", "previous", "continuation", "cursor", "sync", "start", "end",
		"pad", "eos", "bos", "unk", "sep", "cls", "mask", "stop", "special", "first", "last", "per", "new", "sub":
		return true
	}
	return false
}

// keeping reports whether a key of this sort is one that keeps something shut.
func keeping(sort string) bool {
	switch sort {
	case "api", "access", "private", "secret", "encryption", "decryption", "signing", "master", "auth", "ssh",
		"account", "shared", "storage", "service", "subscription", "session", "client", "admin", "host", "hmac",
		"aes", "rsa", "pgp", "gpg", "license", "app", "application", "consumer", "webhook", "deploy", "bot", "token":
		return true
	}
	return false
}

// about reports whether a last word says that the name is about a secret and does
// not hold it.
func about(w string) bool {
	switch w {
	case "count", "counts", "length", "len", "limit", "limits", "size", "type", "types", "name", "names",
		"endpoint", "budget", "usage", "used", "policy", "expiry", "expires", "expiration", "ttl", "at",
		"index", "version", "required", "enabled", "disabled", "format", "field", "fields", "min", "max", "rate",
		"price", "cost", "costs", "method", "algorithm", "alg", "prefix", "strength", "rotation", "age", "in",
		"exists", "valid", "present", "provider", "manager", "scope", "scopes", "ids", "file", "path", "label":
		return true
	}
	return false
}

// splitPlain is split for names of lower case words with one sign between two, as
// most are. There are none if the name is another.
func splitPlain(name string) (words [8]string, n int) {
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && 'a' <= name[i] && name[i] <= 'z' {
			continue
		}
		if i == start || n == len(words) || i < len(name) && name[i] != '_' && name[i] != '-' && name[i] != '.' {
			return words, 0
		}
		words[n] = name[start:i]
		n, start = n+1, i+1
	}
	return words, n
}

// split returns the words of a name, in lower case: at case changes and at what
// is no letter or digit. Digits stay with the word before them, and are dropped.
func split(name string) []string {
	var words []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	rs := []rune(name)
	for i, c := range rs {
		if !unicode.IsLetter(c) {
			if !unicode.IsDigit(c) {
				flush()
			}
			continue
		}
		if unicode.IsUpper(c) && len(word) > 0 {
			lowerBefore := !unicode.IsUpper(rs[i-1])
			lowerAfter := i+1 < len(rs) && unicode.IsLower(rs[i+1])
			if lowerBefore || lowerAfter { // apiKey, and APIKey at its K
				flush()
			}
		}
		word = append(word, c)
	}
	flush()
	return words
}

// Redact returns the JSON document args with the values of sensitive names
// replaced, at any depth, and whether that changed it. A null stays: it says that
// there is no secret. It fails if args is no JSON.
func (n *Names) Redact(args json.RawMessage) (json.RawMessage, bool, error) {
	if len(args) == 0 {
		return args, false, nil
	}
	if !json.Valid(args) {
		return nil, false, &haft.Error{Code: haft.CodeInvalid, Message: "the arguments are not valid JSON"}
	}
	var out []byte
	done := 0
	for at := 0; ; {
		start, end, kind := token(args, at)
		if kind == tokenEnd {
			break
		}
		at = end
		if kind != tokenString {
			continue
		}
		_, colon, mark := token(args, at)
		if mark != tokenMark || args[colon-1] != ':' {
			continue
		}
		at = colon
		if name := args[start+1 : end-1]; bytes.IndexByte(name, '\\') < 0 {
			if !n.Sensitive(string(name)) {
				continue
			}
		} else if text, _ := unquoted(nil, args[start:end]); !n.Sensitive(string(text)) {
			continue // it is valid, so it can be read
		}
		from, to := valueAt(args, colon)
		at = to
		if string(args[from:to]) == "null" {
			continue
		}
		out = append(append(out, args[done:from]...), masked...)
		done = to
	}
	if done == 0 {
		return args, false, nil
	}
	return append(out, args[done:]...), true, nil
}

// valueAt returns where the value is that begins after at, in a valid document.
func valueAt(doc []byte, at int) (start, end int) {
	start, _, _ = token(doc, at)
	depth := 0
	for at = start; ; at = end {
		var kind tokenKind
		_, end, kind = token(doc, at)
		if kind == tokenMark {
			switch doc[end-1] {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
		}
		if depth == 0 || kind == tokenEnd {
			return start, end
		}
	}
}
