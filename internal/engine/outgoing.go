package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"haft"
	"haft/internal/egress/route"
	"haft/internal/outgoing"
	"haft/policy"
)

// filters hold arguments and results against the filters of policy.
type filters struct {
	screens chan struct{} // a place for each costly run of filters
}

// This file is the one place where what leaves a call is changed. Whatever a tool, an
// MCP server, a recovery or a cache gave is held against the output filters of policy
// by [Engine.screen], and whatever leaves, by whichever way, is redacted by
// [execution.redactResult], with the same list of texts: [outgoing.VisitResult]. Answers, records,
// events, the audit, webhooks and spans are made of what comes out of here. A test
// fills every text of every type that leaves, by reflection, and finds those that are
// not in the list.

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
	s := ex.rules.Screen(ex.request(ex.runArgs()), policy.Output)
	if s != nil {
		s.Clean = ex.env.Redactor.Text
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
	outgoing.CloseSets(res)
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
	s := &outgoing.Screening{Ctx: limited, Screen: screen}
	if leave, err := f.screenPlace(limited, screen.Steps()*outgoing.SizeOf(res)); err != nil {
		s.Err = err
	} else {
		defer leave()
		outgoing.VisitResult(res, s)
		ex.held.Visit(s)
		for i := ex.before; i < len(ex.notices); i++ {
			ex.notices[i] = s.Text("notices", ex.notices[i])
		}
		ex.connections = ex.keptConnections()
		route.Visit(ex.connections, func(text string) string { return s.Text("connections", text) })
		ex.touched.Visit(func(text string) string { return s.Text("touched", text) })
	}
	switch {
	case s.Refused != nil:
		ex.withhold(res, haft.StatusError, haft.FailFiltered, haft.MessageOf(s.Refused))
	case s.Err != nil:
		ex.withholdUnseen(ctx, res, s.Err)
	}
	for _, out := range s.Findings {
		ex.note(out)
	}
	ex.timeline.Serialise += haft.Millis(time.Since(began))
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
	ex.connections = route.Withhold(ex.connections, withheld)
	ex.touched.Withhold(withheld)
	ex.held.Take()
}

// withheld stands for a text that a filter refuses.
const withheld = "[withheld]"

// redactResult removes secrets from everything in a result.
func (ex *execution) redactResult(res *haft.Result) {
	outgoing.VisitResult(res, outgoing.Redacting{R: ex.env.Redactor})
}

// cleanError returns an error as it may be told and logged.
func (ex *execution) cleanError(err error) error {
	coded, ok := errors.AsType[*haft.Error](err)
	if !ok || ex.env.Redactor.Text(err.Error()) == err.Error() && !slices.ContainsFunc(coded.Misfits, ex.shows) {
		return err
	}
	c := *coded
	c.Message, c.Misfits = ex.env.Redactor.Text(c.Message), slices.Clone(c.Misfits)
	for i := range c.Misfits {
		m := &c.Misfits[i]
		m.Pointer, m.Message = ex.env.Redactor.Text(m.Pointer), ex.env.Redactor.Text(m.Message)
	}
	if c.Err != nil {
		if text := c.Err.Error(); ex.env.Redactor.Text(text) != text {
			c.Err = errors.New(ex.env.Redactor.Text(text))
		}
	}
	return &c
}

// shows reports whether a misfit holds something that is removed.
func (ex *execution) shows(m haft.Misfit) bool {
	return ex.env.Redactor.Text(m.Pointer) != m.Pointer || ex.env.Redactor.Text(m.Message) != m.Message
}
