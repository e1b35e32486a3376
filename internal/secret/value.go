package secret

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
)

// shown is printed instead of a value.
const shown = "[secret]"

// A Value is text that must not be seen. Printing, logging or encoding it gives
// "[secret]". The zero Value is no secret: it reveals the empty text.
//
// The text is held by a function and not by a string, however deep: printers
// that go by reflection follow pointers and call no methods on unexported fields,
// but cannot look into a closure.
type Value struct {
	reveal func() string
}

// New returns the value of text. The empty text is no secret.
func New(text string) Value {
	if text == "" {
		return Value{}
	}
	return Value{func() string { return text }}
}

// Reveal returns the text. The caller is responsible for where it goes.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// IsZero reports whether v is no secret.
func (v Value) IsZero() bool { return v.reveal == nil }

// Equal reports whether both have the same text, in a time that depends only on their
// lengths.
func (v Value) Equal(w Value) bool {
	return subtle.ConstantTimeCompare([]byte(v.Reveal()), []byte(w.Reveal())) == 1
}

// String returns "[secret]".
func (v Value) String() string { return shown }

// GoString returns "[secret]".
func (v Value) GoString() string { return shown }

// Format writes "[secret]", whatever the verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(shown)) }

// LogValue returns "[secret]".
func (v Value) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalJSON returns "[secret]" as a JSON string.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + shown + `"`), nil }

// MarshalText returns "[secret]". YAML, XML and maps with values as keys use it.
func (v Value) MarshalText() ([]byte, error) { return []byte(shown), nil }

// MarshalBinary returns "[secret]". Gob uses it.
func (v Value) MarshalBinary() ([]byte, error) { return []byte(shown), nil }

// UnmarshalJSON takes a JSON string as the secret's text, so that a request can
// carry one. It does not give back what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		// The cause quotes its input.
		return errNotText
	}
	*v = New(text)
	return nil
}

// errNotText does not quote its input, which may be the secret.
var errNotText = fmt.Errorf("a secret is a JSON string")
