package chat

import "testing"

// What a person is asked to agree to has no characters that cannot be told apart or change the order of a line.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"pay 7 €, at 10:00": "pay 7 €, at 10:00", "a\u3164b": `a\u3164b`, "a\u2800": `a\u2800`,
		"\u05d0\u05d1": `\u05d0\u05d1`, "a\u202eb": `a\u202eb`, "日本": "日本",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
