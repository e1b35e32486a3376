package toolrule

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"haft"
)

// follow returns the tools that a conditional rule lets follow the call last, or
// all = true for any.
func follow(r haft.ToolRule, last Past) (tools []string, all bool) {
	text, ok := output(last)
	if ok {
		hit := ""
		for key, tool := range r.Outputs {
			switch {
			case !matches(text, key):
			case hit != "" && hit != tool:
				return nil, false // which one is meant cannot be said
			default:
				hit = tool
			}
		}
		if hit != "" {
			return []string{hit}, false
		}
	}
	switch {
	case r.RequireOutput:
		return nil, false
	case r.Default != "":
		return []string{r.Default}, false
	}
	return nil, ok
}

// output returns the text that a conditional rule looks at: what the tool gave,
// or its member "message" if it gave an object that has one. A text stands for
// itself, another value for its JSON. There is none if the call did not succeed.
func output(last Past) (text string, ok bool) {
	if last.Status != haft.StatusSuccess || !utf8.Valid(last.Value) || !json.Valid(last.Value) {
		return "", false
	}
	raw := bytes.TrimSpace(last.Value)
	var object map[string]json.RawMessage
	if raw[0] == '{' && json.Unmarshal(raw, &object) == nil && object["message"] != nil {
		raw = object["message"]
	}
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	return string(raw), true
}

// matches reports whether an output is the one that a key means. The keys true
// and false match in any case, because Python writes True. A key that is a number
// matches the same number, a whole one only whole ones. Any other key matches
// itself.
func matches(text, key string) bool {
	switch lower := strings.ToLower(key); {
	case lower == "true" || lower == "false":
		return strings.ToLower(text) == lower
	case !isNumber(key):
		return text == key
	}
	text = strings.TrimSpace(text)
	if len(text) > maxOutput || !isNumber(text) {
		return false
	}
	if want, ok := new(big.Int).SetString(key, 10); ok {
		got, ok := new(big.Int).SetString(text, 10)
		return ok && got.Cmp(want) == 0
	}
	want, err := strconv.ParseFloat(key, 64)
	if err != nil {
		return text == key // out of range
	}
	got, err := strconv.ParseFloat(text, 64)
	return err == nil && got == want
}

// isNumber reports whether text is a number as JSON writes it: 007 is a name and
// no number.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	return json.Valid([]byte(text))
}
