package modelapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"haft"
)

// The bounds of what a model gets besides the value, in characters. The engine has cut
// the value as the settings of the tool say.
const (
	maxPrinted = haft.DefaultMaxChars // of stdout in place of a value
	maxTail    = 2000                 // of stdout, stderr and traceback of a failure
	maxMisfits = 20
	maxNotices = 8
	maxNotice  = 300
)

// An answer is what a model gets for one call, in no format yet.
type answer struct {
	// text is the value, or what is said in its place.
	text string
	// value is the value as JSON; nil where text stands in its place.
	value json.RawMessage
	// failed says that the call has ended without a value.
	failed bool
	// notes say what is missing or shown elsewhere.
	notes []string
	media []media
}

// textWithNotes is the text with the notes.
func (a answer) textWithNotes() string {
	parts := make([]string, 0, 1+len(a.notes))
	if a.text != "" {
		parts = append(parts, a.text)
	}
	return strings.Join(append(parts, a.notes...), "\n")
}

// note adds a note, in brackets to distinguish it from the output of the tool.
func (a *answer) note(format string, args ...any) {
	a.notes = append(a.notes, "["+fmt.Sprintf(format, args...)+"]")
}

// newAnswer says what became of a call.
func newAnswer(r *haft.Result, b *budget) answer {
	if r == nil {
		r = &haft.Result{Status: haft.StatusError,
			Error: &haft.Failure{Kind: haft.FailInternal, Message: "there is no result of this call"}}
	}
	var a answer
	switch {
	case r.Status == haft.StatusSuccess:
		a.success(r)
	case !r.Status.Final():
		a.text = waiting(r)
	default:
		a.failed = true
		a.failure(r)
	}
	a.files(r, b)
	if r.Truncated.Artifacts > 0 {
		a.note("%d files were left out", r.Truncated.Artifacts)
	}
	for i, n := range r.Notices {
		if i == maxNotices {
			a.note("%d more notices", len(r.Notices)-i)
			break
		}
		a.note("notice: %s", oneLine(n, maxNotice))
	}
	if a.text == "null" && a.value != nil && len(a.notes) > 0 {
		a.text = "" // the notes say more
	}
	return a
}

// success reports the value, or the printed text if there is no value.
func (a *answer) success(r *haft.Result) {
	a.text, a.value = valueText(r.Value)
	if a.text == "null" && strings.TrimSpace(r.Stdout) != "" && string(a.value) == "null" {
		text := strings.TrimRight(validUTF8(r.Stdout), "\n")
		head, left := head(text, maxPrinted)
		a.text, a.value = head, nil
		if left > 0 {
			a.note("cut: %d characters left out", left)
		}
		a.noteCut("stdout", r.Truncated.Stdout)
		return
	}
	// The engine's own note ends the text that it cut, if it fitted.
	if r.Truncated.Value > 0 && !strings.HasSuffix(a.text, " characters left out]") {
		a.note("cut: %d characters left out", r.Truncated.Value)
	}
}

// valueText returns a value as a text, and as JSON that is valid and compact.
func valueText(v json.RawMessage) (string, json.RawMessage) {
	v = bytes.TrimSpace(v)
	if len(v) == 0 {
		v = json.RawMessage("null")
	}
	if !json.Valid(v) || !utf8.Valid(v) {
		return validUTF8(string(v)), nil
	}
	if v[0] == '"' {
		var s string
		if json.Unmarshal(v, &s) == nil { // it is valid
			return s, v
		}
	}
	var b bytes.Buffer
	if json.Compact(&b, v) != nil { // it is valid
		return string(v), v
	}
	return b.String(), b.Bytes()
}

// waiting says that a call has not ended.
func waiting(r *haft.Result) string {
	call := ""
	if r.Call != "" {
		call = " (call " + oneLine(string(r.Call), 100) + ")"
	}
	switch r.Status {
	case haft.StatusPending:
		if r.Approval != "" {
			call = " (approval " + oneLine(string(r.Approval), 100) + strings.Replace(call, " (", ", ", 1)
			if r.Call == "" {
				call += ")"
			}
		}
		return "pending_approval: a person has to agree to this call before it runs" + call +
			". It has not run. Do not call it again; go on without its result, or tell the user what it waits for."
	case haft.StatusQueued:
		return "queued: the call was accepted and has not begun" + call +
			". Do not call it again; its result comes later."
	default:
		return string(r.Status) + ": the call has not ended" + call + ". Do not call it again; its result comes later."
	}
}

// failure says what went wrong, where, and what to do about it.
func (a *answer) failure(r *haft.Result) {
	f := r.Error
	if f == nil {
		f = &haft.Failure{Kind: haft.FailureKind(r.Status), Message: "the call failed"}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Error (%s): %s", validUTF8(string(f.Kind)), validUTF8(f.Message))
	listed := 0
	for _, m := range f.Misfits {
		// The message of a refusal has them already, in the same words.
		if strings.Contains(f.Message, m.Message) && strings.Contains(f.Message, m.Pointer) {
			continue
		}
		if listed++; listed > maxMisfits {
			fmt.Fprintf(&b, "\n- and more places")
			break
		}
		at := m.Pointer
		if at == "" {
			at = "the whole"
		}
		fmt.Fprintf(&b, "\n- %s: %s", oneLine(at, maxNotice), oneLine(m.Message, maxNotice))
	}
	if s := advice(r.Status, f); s != "" {
		b.WriteString("\n" + s)
	}
	for _, p := range []struct{ name, text string }{{"Traceback", f.Traceback}, {"stdout", r.Stdout},
		{"stderr", r.Stderr}} {
		if text := strings.TrimSpace(validUTF8(p.text)); text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s", p.name, tail(text, maxTail))
		}
	}
	a.text = b.String()
	a.noteCut("stdout", r.Truncated.Stdout)
	a.noteCut("stderr", r.Truncated.Stderr)
}

// noteCut notes how many bytes of what was printed the engine left out.
func (a *answer) noteCut(stream string, n int64) {
	if n > 0 {
		a.note("cut: %d bytes of %s left out", n, stream)
	}
}

// advice says whether trying again can help.
func advice(s haft.Status, f *haft.Failure) string {
	if s == haft.StatusUnknown {
		return "It may have run. Do not call it again before you know that it did not."
	}
	wait := ""
	if f.RetryAfter > 0 {
		wait = fmt.Sprintf(" after %v", f.RetryAfter)
	}
	switch f.Retry {
	case haft.RetrySame:
		return "The same call may succeed" + wait + "."
	case haft.RetryChanged:
		return "Call it again" + wait + " with arguments that fit."
	case haft.RetryNever:
		return "Calling it again will not help."
	}
	return ""
}

// validUTF8 makes text valid UTF-8.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// oneLine makes text one line of at most n characters.
func oneLine(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, validUTF8(text))
	if short, left := head(text, n); left > 0 {
		return short + "…"
	}
	return text
}

// head returns the first n characters, and how many are left out.
func head(text string, n int) (string, int) {
	if len(text) <= n {
		return text, 0
	}
	for i := range text {
		if n == 0 {
			return text[:i], utf8.RuneCountInString(text[i:])
		}
		n--
	}
	return text, 0
}

// tail returns the last n characters of text, with a note if there are more.
func tail(text string, n int) string {
	all := utf8.RuneCountInString(text)
	if all <= n {
		return text
	}
	_, skip := head(text, n)
	i := 0
	for range skip {
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	return fmt.Sprintf("[cut: %d characters left out] …%s", skip, text[i:])
}

// ResultText returns the answer to a call as text alone, and whether the call has ended
// without a value. It does not mention files.
func ResultText(r *haft.Result) (text string, failed bool) {
	if r != nil && len(r.Artifacts) > 0 {
		bare := *r
		bare.Artifacts = nil
		r = &bare
	}
	a := newAnswer(r, &budget{textOnly: true})
	return a.textWithNotes(), a.failed
}
