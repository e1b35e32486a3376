package secret

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"haft"
)

// masked replaces the value of a sensitive name.
const masked = `"[redacted]"`

// Names recognises arguments that hold secrets by their names. It never changes and is
// safe for concurrent use. A nil Names recognises the common names.
type Names struct {
	extra  map[string]bool
	public []string
}

// NewNames returns the common names and those of extra. Case and the characters
// between words do not matter: apiKey, api_key and API-KEY are one name.
func NewNames(extra []string) *Names {
	n := &Names{extra: make(map[string]bool, len(extra))}
	for _, e := range extra {
		n.extra[strings.Join(splitWords(e), "")] = true
	}
	return n
}

// NewPublicNames returns the common names, and variables that are no secrets whatever they hold.
func NewPublicNames(variables []string) *Names { return &Names{public: slices.Clone(variables)} }

// Public reports whether the variable of this name is no secret. A value that has another name as
// well is one.
func (n *Names) Public(variable string) bool { return n != nil && slices.Contains(n.public, variable) }

// Sensitive reports whether an argument of this name holds a secret. It goes by
// the words of the name: access_token does, max_tokens and tokenizer do not.
func (n *Names) Sensitive(name string) bool {
	const longest = 256 // the rest of a longer name is ignored
	name = name[:min(len(name), longest)]
	few, count := splitPlain(name)
	words := few[:count]
	if len(words) == 0 {
		words = splitWords(name)
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
	if describesSecret(words[len(words)-1]) && len(words) > 1 {
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

// secretWord reports whether a word means a secret after the word before it. more says
// that words follow.
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
		switch before {
		case "access", "refresh", "auth", "api", "session", "bearer":
			return true
		}
		return false
	case "key", "keys":
		return secretKey(before)
	case "string", "str", "url", "uri":
		return before == "connection" || before == "conn"
	case "session":
		return false
	case "id":
		return before == "session"
	case "code":
		return before == "pin" || before == "otp" || before == "mfa" || before == "verification"
	}
	for _, part := range []string{
		"password", "passwd", "passphrase", "apikey", "secretkey", "privatekey", "accesstoken", "authtoken",
		"clientsecret",
	} {
		if strings.HasSuffix(w, part) {
			return true
		}
	}
	return false
}

// harmlessToken reports whether a token of this kind is no secret: a position in a
// list, or a piece of a model's text.
func harmlessToken(kind string) bool {
	switch kind {
	case "page", "next", "prev", "previous", "continuation", "cursor", "sync", "start", "end",
		"pad", "eos", "bos", "unk", "sep", "cls", "mask", "stop", "special", "first", "last", "per", "new", "sub":
		return true
	}
	return false
}

// secretKey reports whether a key of this kind gives access to something.
func secretKey(kind string) bool {
	switch kind {
	case "api", "access", "private", "secret", "encryption", "decryption", "signing", "master", "auth", "ssh",
		"account", "shared", "storage", "service", "subscription", "session", "client", "admin", "host", "hmac",
		"aes", "rsa", "pgp", "gpg", "license", "app", "application", "consumer", "webhook", "deploy", "bot", "token":
		return true
	}
	return false
}

// describesSecret reports whether a last word means that the argument describes a
// secret and does not hold it, as in token_count.
func describesSecret(w string) bool {
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

// splitPlain is splitWords without allocations, for names of at most eight lower case
// words with one separator between two. It returns none for other names.
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

// splitWords returns the words of a name in lower case. Words end at case changes and at
// characters that are neither letters nor digits. Digits are dropped.
func splitWords(name string) []string {
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
// replaced, at any depth, and whether that changed it. A null stays: there is no secret.
// It fails if args is not valid JSON.
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
		start, end, kind := nextToken(args, at)
		if kind == tokenEnd {
			break
		}
		at = end
		if kind != tokenString {
			continue
		}
		_, colon, mark := nextToken(args, at)
		if mark != tokenPunctuation || args[colon-1] != ':' {
			continue
		}
		at = colon
		if name := args[start+1 : end-1]; bytes.IndexByte(name, '\\') < 0 {
			if !n.Sensitive(string(name)) {
				continue
			}
		} else if text, _ := appendUnquoted(nil, args[start:end]); !n.Sensitive(string(text)) {
			continue // valid JSON can always be unquoted
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

// valueAt returns the range of the value that follows at in a valid document.
func valueAt(doc []byte, at int) (start, end int) {
	start, _, _ = nextToken(doc, at)
	depth := 0
	for at = start; ; at = end {
		var kind tokenKind
		_, end, kind = nextToken(doc, at)
		if kind == tokenPunctuation {
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
