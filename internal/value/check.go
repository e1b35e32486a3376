package value

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"haft"
	"haft/internal/jsontree"
	"haft/schema"
)

// ErrTooLarge is wrapped by the error of [Check] for a value beyond its limit.
var ErrTooLarge = errors.New("the value is too large")

// Check verifies an encoded value that comes from a sandbox: it has at most limit
// bytes, is exactly one JSON value in valid UTF-8 without duplicate keys, nests
// at most [MaxDepth] deep and holds no number that readers would understand
// differently. A limit of 0 or less means that of [haft.DefaultLimits]. The error
// is a [*haft.Error] that says where, and quotes nothing.
func Check(raw json.RawMessage, limit int64) error {
	if limit <= 0 {
		limit = haft.DefaultLimits().Result
	}
	if int64(len(raw)) > limit {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the value has %d bytes, %d is the most", len(raw), limit), Err: ErrTooLarge}
	}
	_, err := decode(raw)
	return err
}

// Bound verifies that a value has at most [MaxParts] parts. It reads nothing but the
// marks between them, so that a value that is made to be costly is refused for a
// nanosecond a byte. The error wraps [ErrTooLarge].
func Bound(raw []byte) error {
	parts, text := 1, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == ',' || c == '[' || c == '{':
			parts++
		}
	}
	if parts <= MaxParts {
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Err: ErrTooLarge,
		Message: fmt.Sprintf("the value has more than %d parts; return less, or leave it in a file", MaxParts)}
}

// limits bound what is read of a value.
func limits() jsontree.Limits { return jsontree.Limits{Bytes: schema.MaxBytes, Depth: MaxDepth} }

// decode reads exactly one value.
func decode(raw []byte) (any, error) {
	if err := Bound(raw); err != nil {
		return nil, err
	}
	v, err := jsontree.Decode(raw, limits())
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the value is not JSON: " + err.Error(), Err: err}
	}
	return v, nil
}

// Misfits holds a value against the schema of what the tool returns. A nil schema
// accepts everything. Bytes may fit as the tag that the rule writes or as the
// base64 text in it, since schemas know bytes as a string. A number that is not
// finite fits no schema of numbers.
func Misfits(raw json.RawMessage, returns *schema.Compiled) []haft.Misfit {
	if returns == nil {
		return nil
	}
	v, err := decode(raw)
	if err != nil {
		return []haft.Misfit{{Message: haft.MessageOf(err)}}
	}
	misfits := returns.Check(v)
	if misfits == nil {
		return nil
	}
	t := tags{floats: map[string]bool{}}
	plain := t.strip(v, nil)
	if t.bytes {
		misfits = returns.Check(plain)
	}
	for i, m := range misfits {
		if t.floats[m.Pointer] {
			misfits[i].Message = "must be a finite number, is NaN or Infinity"
		}
	}
	return misfits
}

// tags finds the type tags of a value.
type tags struct {
	bytes  bool            // there are bytes
	floats map[string]bool // where numbers are not finite
}

// strip returns v with bytes as their base64 text.
func (t *tags) strip(v any, at []string) any {
	switch v := v.(type) {
	case *schema.Object:
		if text, ok := bytesTag(v); ok {
			t.bytes = true
			return text
		}
		if v.Len() == 2 && v.String("$type") == "float" && v.Has("value") {
			t.floats[schema.Pointer(at)] = true
		}
		out := &schema.Object{}
		for _, k := range v.Keys() {
			out.Set(k, t.strip(v.Value(k), append(at, k)))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = t.strip(v[i], append(at, strconv.Itoa(i)))
		}
		return out
	}
	return v
}

// bytesTag returns the text of {"$type":"bytes","base64":"…"}.
func bytesTag(o *schema.Object) (string, bool) {
	if o.Len() != 2 || o.String("$type") != "bytes" {
		return "", false
	}
	text, ok := o.Value("base64").(string)
	if !ok {
		return "", false
	}
	_, err := base64.StdEncoding.DecodeString(text)
	return text, err == nil
}
