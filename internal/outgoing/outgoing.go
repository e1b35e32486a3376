// Package outgoing changes every text that leaves a call: it removes secrets, and holds texts
// against the output filters of policy, with the same list of texts.
package outgoing

import (
	"context"
	"encoding/json"
	"slices"

	"haft"
	"haft/internal/secret"
	"haft/policy"
)

// A Cleaner changes texts on their way out. The name says what a text is.
type Cleaner interface {
	Text(name, text string) string
	JSON(name string, raw json.RawMessage) json.RawMessage
	Bytes(name string, data []byte) []byte
}

// VisitResult gives every text of a result to a cleaner. What is not visited is set by
// the engine itself (the ids, the name and the digest of the tool), is a word of a
// closed set (see [CloseSets]), or is said by the sandbox provider of the operator's
// choice before the tool runs (Sandbox).
func VisitResult(res *haft.Result, c Cleaner) {
	res.Value = c.JSON("value", res.Value)
	res.Stdout, res.Stderr = c.Text("stdout", res.Stdout), c.Text("stderr", res.Stderr)
	if res.Error != nil {
		visitFailure(res.Error, c)
	}
	for i := range res.Content {
		p := &res.Content[i]
		for _, text := range []*string{&p.Text, &p.Artifact, &p.URI, &p.Name, &p.Title, &p.Description, &p.MIME} {
			*text = c.Text("content", *text)
		}
	}
	for i := range res.Artifacts {
		a := &res.Artifacts[i]
		a.Name, a.ContentType = c.Text("artifact", a.Name), c.Text("artifact", a.ContentType)
		a.File = haft.FileID(c.Text("artifact", string(a.File)))
		if len(a.Data) > 0 { // else the size is of what was not kept
			a.Data = cleanArtifact(a, c)
			a.Size = int64(len(a.Data))
		}
	}
	for i, n := range res.Notices {
		res.Notices[i] = c.Text("notices", n)
	}
	if w := res.Workspace; w != nil {
		w.Name, w.Enforced = c.Text("workspace", w.Name), c.Text("workspace", w.Enforced)
	}
}

// formsFile is the artifact that has the results of code in all their forms, as JSON.
const formsFile = "results.json"

// cleanArtifact gives the content of an artifact to a cleaner: as one text, or the texts of formsFile,
// because a filter does not match what is escaped in JSON. It is wrapped for filters of artifacts.
func cleanArtifact(a *haft.Artifact, c Cleaner) []byte {
	if a.Name != formsFile || !json.Valid(a.Data) {
		return c.Bytes("artifact", a.Data)
	}
	out := c.JSON("artifact", slices.Concat([]byte(`{"artifact":`), a.Data, []byte("}")))
	var wrapped struct{ Artifact json.RawMessage }
	if json.Unmarshal(out, &wrapped) != nil {
		return nil // it is refused, or masked as a whole
	}
	return wrapped.Artifact
}

// visitFailure gives every text of a failure to a cleaner.
func visitFailure(f *haft.Failure, c Cleaner) {
	f.Message, f.Type, f.Traceback = c.Text("error", f.Message), c.Text("error", f.Type), c.Text("error", f.Traceback)
	for i := range f.Misfits {
		m := &f.Misfits[i]
		m.Message, m.Pointer = c.Text("error", m.Message), c.Text("error", m.Pointer)
	}
}

// CloseSets makes words of closed sets what they can be. An executor has them from a
// fixed list; what is not of it may be anything.
func CloseSets(res *haft.Result) {
	if !slices.Contains(haft.Statuses(), res.Status) {
		res.Status = haft.StatusError
	}
	switch res.Timeline.Cell {
	case "", "hit", "miss", "cold":
	default:
		res.Timeline.Cell = ""
	}
	if f := res.Error; f != nil {
		if !slices.Contains(haft.FailureKinds(), f.Kind) {
			f.Kind = haft.FailException
		}
		switch f.Retry {
		case haft.RetryNever, haft.RetrySame, haft.RetryChanged:
		default:
			f.Retry = haft.RetryNever
		}
		if !slices.Contains(haft.Severities(), f.Severity) {
			f.Severity = "" // the engine says it
		}
	}
	for i := range res.Content {
		c := &res.Content[i]
		switch c.Type {
		case haft.ContentText, haft.ContentImage, haft.ContentAudio, haft.ContentResource, haft.ContentLink:
		default:
			c.Type = haft.ContentText
		}
		c.Audience = slices.DeleteFunc(c.Audience, func(s string) bool { return s != "user" && s != "assistant" })
	}
}

// Redacting removes secrets. It is a [Cleaner].
type Redacting struct{ R *secret.Redactor }

// Text implements [Cleaner].
func (c Redacting) Text(_, text string) string { return c.R.Text(text) }

// JSON implements [Cleaner].
func (c Redacting) JSON(_ string, raw json.RawMessage) json.RawMessage {
	raw, _ = c.R.JSON(raw)
	return raw
}

// Bytes implements [Cleaner].
func (c Redacting) Bytes(_ string, data []byte) []byte { return c.R.Bytes(data) }

// Screening holds texts against the output filters of policy. It is a [Cleaner], and
// stops at the first refusal or error.
type Screening struct {
	Ctx      context.Context //nolint:containedctx // of one result
	Screen   *policy.Screen
	Findings []policy.Filtered
	Refused  error
	Err      error
}

// take keeps what the filters say of a text, and reports whether the text may go on.
func (s *Screening) take(out policy.Filtered, err error) bool {
	s.Findings = append(s.Findings, out)
	s.Err = err
	if out.Refused {
		s.Refused = out.Err()
	}
	return err == nil && !out.Refused
}

// Text implements [Cleaner].
func (s *Screening) Text(name, text string) string {
	if text == "" || s.Err != nil || s.Refused != nil {
		return text
	}
	out, err := s.Screen.Text(s.Ctx, name, text)
	if !s.take(out, err) {
		return ""
	}
	return out.Text
}

// JSON implements [Cleaner].
func (s *Screening) JSON(_ string, raw json.RawMessage) json.RawMessage {
	if s.Err != nil || s.Refused != nil {
		return raw
	}
	out, err := s.Screen.JSON(s.Ctx, raw)
	if !s.take(out, err) {
		return nil
	}
	return out.Value
}

// Bytes implements [Cleaner].
func (s *Screening) Bytes(name string, data []byte) []byte {
	if s.Err != nil || s.Refused != nil || len(data) == 0 {
		return data
	}
	out, err := s.Screen.Text(s.Ctx, name, string(data))
	switch {
	case !s.take(out, err):
		return nil
	case !out.Masked:
		return data
	}
	return []byte(out.Text)
}

// SizeOf is about how much text a result has.
func SizeOf(res *haft.Result) int {
	n := len(res.Value) + len(res.Stdout) + len(res.Stderr)
	for _, a := range res.Artifacts {
		n += len(a.Data)
	}
	for _, c := range res.Content {
		n += len(c.Text)
	}
	return n
}

// maxParts bounds how many parts of content are kept.
const maxParts = 256

// BoundContent cuts the texts of the content of a result as its value is cut, together to left characters; 0 means
// [haft.DefaultMaxChars]. It reports whether parts were left out because there were too many.
func BoundContent(res *haft.Result, left int) (omitted bool) {
	if omitted = len(res.Content) > maxParts; omitted {
		res.Content = res.Content[:maxParts]
	}
	if left <= 0 {
		left = haft.DefaultMaxChars
	}
	for i := range res.Content {
		text := []rune(res.Content[i].Text)
		if over := len(text) - left; over > 0 {
			res.Content[i].Text = string(text[:left])
			res.Truncated.Value += int64(over)
			text = text[:left]
		}
		left -= len(text)
	}
	return omitted
}
