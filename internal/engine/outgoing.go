package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"haft"
	"haft/internal/secret"
	"haft/policy"
)

// filters hold arguments and results against the filters of policy.
type filters struct {
	screens chan struct{} // a place for each costly run of filters
}

// This file is the one place where what leaves a call is changed. Whatever a tool, an
// MCP server, a recovery or a cache gave is held against the output filters of policy
// by [Engine.screen], and whatever leaves, by whichever way, is redacted by
// [execution.redactResult], with the same list of texts: [visitResult]. Answers, records,
// events, the audit, webhooks and spans are made of what comes out of here. A test
// fills every text of every type that leaves, by reflection, and finds those that are
// not in the list.

// A cleaner changes texts on their way out. The name says what a text is.
type cleaner interface {
	text(name, text string) string
	json(name string, raw json.RawMessage) json.RawMessage
	bytes(name string, data []byte) []byte
}

// visitResult gives every text of a result to a cleaner. What is not visited is set by
// the engine itself (the ids, the name and the digest of the tool), is a word of a
// closed set (see [closeSets]), or is said by the sandbox provider of the operator's
// choice before the tool runs (Sandbox).
func visitResult(res *haft.Result, c cleaner) {
	res.Value = c.json("value", res.Value)
	res.Stdout, res.Stderr = c.text("stdout", res.Stdout), c.text("stderr", res.Stderr)
	if res.Error != nil {
		visitFailure(res.Error, c)
	}
	for i := range res.Content {
		p := &res.Content[i]
		for _, text := range []*string{&p.Text, &p.Artifact, &p.URI, &p.Name, &p.Title, &p.Description, &p.MIME} {
			*text = c.text("content", *text)
		}
	}
	for i := range res.Artifacts {
		a := &res.Artifacts[i]
		a.Name, a.ContentType = c.text("artifact", a.Name), c.text("artifact", a.ContentType)
		if len(a.Data) > 0 { // else the size is of what was not kept
			a.Data = c.bytes("artifact", a.Data)
			a.Size = int64(len(a.Data))
		}
	}
	for i, n := range res.Notices {
		res.Notices[i] = c.text("notices", n)
	}
}

// visitFailure gives every text of a failure to a cleaner.
func visitFailure(f *haft.Failure, c cleaner) {
	f.Message, f.Type, f.Traceback = c.text("error", f.Message), c.text("error", f.Type), c.text("error", f.Traceback)
	for i := range f.Misfits {
		m := &f.Misfits[i]
		m.Message, m.Pointer = c.text("error", m.Message), c.text("error", m.Pointer)
	}
}

// visitContacts gives every text of connection records to a cleaner: a tool chooses
// the names that it asks for.
func visitContacts(contacts []Connection, c cleaner) {
	for i := range contacts {
		x := &contacts[i]
		x.To, x.Rule, x.Refused = c.text("connections", x.To), c.text("connections", x.Rule),
			c.text("connections", x.Refused)
		for j, s := range x.Secrets {
			x.Secrets[j] = c.text("connections", s)
		}
	}
}

// closeSets makes words of closed sets what they can be. An executor has them from a
// fixed list; what is not of it may be anything.
func closeSets(res *haft.Result) {
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

// redacting removes secrets. It is a [cleaner].
type redacting struct{ r *secret.Redactor }

func (c redacting) text(_, text string) string { return c.r.Text(text) }

func (c redacting) json(_ string, raw json.RawMessage) json.RawMessage {
	raw, _ = c.r.JSON(raw)
	return raw
}

func (c redacting) bytes(_ string, data []byte) []byte { return c.r.Bytes(data) }

// screening holds texts against the output filters of policy. It is a [cleaner], and
// stops at the first refusal or error.
type screening struct {
	ctx      context.Context //nolint:containedctx // of one result
	screen   *policy.Screen
	findings []policy.Filtered
	refused  error
	err      error
}

// take keeps what the filters say of a text, and reports whether the text may go on.
func (s *screening) take(out policy.Filtered, err error) bool {
	s.findings = append(s.findings, out)
	s.err = err
	if out.Refused {
		s.refused = out.Err()
	}
	return err == nil && !out.Refused
}

func (s *screening) text(name, text string) string {
	if text == "" || s.err != nil || s.refused != nil {
		return text
	}
	out, err := s.screen.Text(s.ctx, name, text)
	if !s.take(out, err) {
		return ""
	}
	return out.Text
}

func (s *screening) json(_ string, raw json.RawMessage) json.RawMessage {
	if s.err != nil || s.refused != nil {
		return raw
	}
	out, err := s.screen.JSON(s.ctx, raw)
	if !s.take(out, err) {
		return nil
	}
	return out.Value
}

func (s *screening) bytes(name string, data []byte) []byte {
	if s.err != nil || s.refused != nil || len(data) == 0 {
		return data
	}
	out, err := s.screen.Text(s.ctx, name, string(data))
	switch {
	case !s.take(out, err):
		return nil
	case !out.Masked:
		return data
	}
	return []byte(out.Text)
}

const (
	// screenTime is how long the filters may take for one result.
	screenTime = 2 * time.Second
	// screenGrace is how long they may take once the call is over anyway: what the tool
	// printed before it was stopped is still of use.
	screenGrace = 200 * time.Millisecond
	// screenCostly is from how many steps on filters wait for one of a few places, so
	// that those of one organisation cannot take all processors.
	screenCostly = 16 << 20
)

// outputScreen returns the output filters that concern a call, or nil if there are
// none.
func (ex *execution) outputScreen() *policy.Screen {
	if ex.tool == nil || !ex.rules.Filters(policy.Output) {
		return nil
	}
	s := ex.rules.Screen(ex.request(ex.args), policy.Output)
	if s != nil {
		s.Clean = ex.redactor.Text
	}
	return s
}

// screen holds a result, and all that is known of its run, against the output filters.
// What they mask is replaced. If they refuse it, or cannot look at all of it, it is
// withheld: nothing of the tool leaves. It does nothing to a result that was screened.
func (f *filters) screen(ctx context.Context, ex *execution, res *haft.Result) {
	if ex.screened == res {
		return
	}
	ex.screened = res
	closeSets(res)
	screen := ex.outputScreen()
	if screen == nil {
		return
	}
	began := time.Now()
	limited, stop := context.WithTimeout(ctx, screenTime)
	if ctx.Err() != nil {
		stop()
		limited, stop = context.WithTimeout(context.WithoutCancel(ctx), screenGrace)
	}
	defer stop()
	s := &screening{ctx: limited, screen: screen}
	if leave, err := f.screenPlace(limited, screen.Steps()*sizeOf(res)); err != nil {
		s.err = err
	} else {
		defer leave()
		visitResult(res, s)
		ex.held.visitProgress(s)
		for i := ex.before; i < len(ex.notices); i++ {
			ex.notices[i] = s.text("notices", ex.notices[i])
		}
		ex.contacts = ex.keptContacts()
		visitContacts(ex.contacts, s)
	}
	switch {
	case s.refused != nil:
		ex.withhold(res, haft.StatusError, haft.FailFiltered, haft.MessageOf(s.refused))
	case s.err != nil:
		ex.withholdUnseen(ctx, res, s.err)
	}
	for _, out := range s.findings {
		ex.note(out)
	}
	ex.timeline.Serialise += haft.Millis(time.Since(began))
}

// sizeOf is about how much text a result has.
func sizeOf(res *haft.Result) int {
	n := len(res.Value) + len(res.Stdout) + len(res.Stderr)
	for _, a := range res.Artifacts {
		n += len(a.Data)
	}
	for _, c := range res.Content {
		n += len(c.Text)
	}
	return n
}

// screenPlace waits for a place, if so many steps need one.
func (f *filters) screenPlace(ctx context.Context, steps int) (leave func(), err error) {
	if steps < screenCostly {
		return func() {}, nil
	}
	select {
	case f.screens <- struct{}{}:
		return func() { <-f.screens }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withholdUnseen withholds a result that could not be looked at, and says why.
func (ex *execution) withholdUnseen(ctx context.Context, res *haft.Result, err error) {
	switch {
	case errors.Is(err, policy.ErrTooMuch):
		ex.withhold(res, haft.StatusError, haft.FailFiltered,
			"the result is withheld: it is larger than filters look at; return less")
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		ex.withhold(res, haft.StatusError, haft.FailFiltered,
			"the result is withheld: it cannot be held against the filters")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		ex.withhold(res, haft.StatusTimeout, haft.FailTimeout,
			"the result is withheld: the deadline passed before the filters had looked at it")
	case ctx.Err() != nil:
		ex.withhold(res, haft.StatusCancelled, haft.FailCancelled,
			"the result is withheld: the call was stopped before the filters had looked at it")
	default:
		ex.withhold(res, haft.StatusError, haft.FailFiltered,
			"the result is withheld: the filters take too long for it; return less, or use simpler patterns")
	}
}

// withhold takes back everything that the tool gave, and what the engine noted of its
// run. A call that did not run keeps its status.
func (ex *execution) withhold(res *haft.Result, status haft.Status, kind haft.FailureKind, message string) {
	if !ex.begun && !res.Cached {
		status = res.Status
		if res.Error != nil {
			kind = res.Error.Kind
		}
	}
	retry := haft.RetryNever
	if kind == haft.FailTimeout || kind == haft.FailCancelled {
		retry = haft.RetrySame
	}
	res.Status, res.Value, res.Stdout, res.Stderr = status, json.RawMessage("null"), "", ""
	res.Content, res.Artifacts = nil, nil
	res.Error = &haft.Failure{Kind: kind, Message: message, Retry: retry}
	res.Notices = nil
	ex.notices = ex.notices[:min(ex.before, len(ex.notices))]
	ex.contacts = withheldContacts(ex.contacts)
	ex.held.take()
}

// withheldContacts keeps of connections that they were made.
func withheldContacts(contacts []Connection) []Connection {
	out := make([]Connection, len(contacts))
	for i, c := range contacts {
		out[i] = Connection{To: withheld, Up: c.Up, Down: c.Down, Took: c.Took}
		if c.Refused != "" {
			out[i].Refused = withheld
		}
	}
	return out
}

// withheld stands for a text that a filter refuses.
const withheld = "[withheld]"

// redactResult removes secrets from everything in a result.
func (ex *execution) redactResult(res *haft.Result) { visitResult(res, redacting{ex.redactor}) }

// cleanError returns an error as it may be told and logged.
func (ex *execution) cleanError(err error) error {
	coded, ok := errors.AsType[*haft.Error](err)
	if !ok || ex.redactor.Text(err.Error()) == err.Error() && !slices.ContainsFunc(coded.Misfits, ex.shows) {
		return err
	}
	c := *coded
	c.Message, c.Misfits = ex.redactor.Text(c.Message), slices.Clone(c.Misfits)
	for i := range c.Misfits {
		m := &c.Misfits[i]
		m.Pointer, m.Message = ex.redactor.Text(m.Pointer), ex.redactor.Text(m.Message)
	}
	if c.Err != nil {
		if text := c.Err.Error(); ex.redactor.Text(text) != text {
			c.Err = errors.New(ex.redactor.Text(text))
		}
	}
	return &c
}

// shows reports whether a misfit holds something that is removed.
func (ex *execution) shows(m haft.Misfit) bool {
	return ex.redactor.Text(m.Pointer) != m.Pointer || ex.redactor.Text(m.Message) != m.Message
}
