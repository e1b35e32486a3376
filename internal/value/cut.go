package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/schema"
)

// Cut shortens a value to maxChars characters and returns how many were left out.
// A maxChars of 0 or less means [haft.DefaultMaxChars].
//
// A string keeps its beginning. Any other value that is too long becomes the
// beginning of its JSON text, as a string: half an object is no object. Either
// ends with a note, "… [cut: 120 of 5000 characters left out]", which counts
// among the maxChars; where it does not fit there is none. The result is always
// valid JSON; null, true and false stay. Characters of a string are those of the text that it stands for.
func Cut(v json.RawMessage, maxChars int) (json.RawMessage, int64) {
	if maxChars <= 0 {
		maxChars = haft.DefaultMaxChars
	}
	v = bytes.TrimSpace(v)
	switch string(v) {
	case "":
		return json.RawMessage("null"), 0
	case "null", "true", "false":
		return v, 0
	}
	var text string
	switch {
	case !json.Valid(v) || !utf8.Valid(v):
		text = strings.ToValidUTF8(string(v), "\ufffd")
	case v[0] == '"':
		if err := json.Unmarshal(v, &text); err != nil {
			text = string(v) // not reached: it is valid
		}
		if utf8.RuneCountInString(text) <= maxChars {
			return v, 0
		}
	default:
		var b bytes.Buffer
		if err := json.Compact(&b, v); err != nil || utf8.RuneCount(b.Bytes()) <= maxChars {
			return v, 0
		}
		text = b.String()
	}
	text, left := cutText(text, maxChars)
	out, err := schema.Encode(text)
	if err != nil {
		return json.RawMessage(`""`), left // not reached: every text can be encoded
	}
	return out, left
}

// cutText shortens text to n characters, with a note if it fits.
func cutText(text string, n int) (string, int64) {
	all := utf8.RuneCountInString(text)
	if all <= n {
		return text, 0
	}
	note := func(left int) string { return fmt.Sprintf("… [cut: %d of %d characters left out]", left, all) }
	keep, end := n-utf8.RuneCountInString(note(all)), ""
	if keep < 0 {
		keep = n
	} else {
		end = note(all - keep)
	}
	for i := range text {
		if keep == 0 {
			text = text[:i]
			break
		}
		keep--
	}
	return text + end, int64(all - utf8.RuneCountInString(text))
}
