package chain

import (
	"encoding/json"
	"fmt"
	"slices"

	"haft"
)

// Ready is a step whose call is to be begun, with its arguments.
type Ready struct {
	Step haft.Step
	Args json.RawMessage
}

// A Todo says what is to be done next.
type Todo struct {
	// Ready are the steps to begin, all together, in the order of the plan. They
	// are running from the moment that this is written down.
	Ready []Ready
	// Skipped are the results of steps that end without a call: skipped, or done
	// with a failure that says why the call could not be made. Keep them all.
	Skipped []haft.StepResult
	// Done says that nothing runs and nothing more will.
	Done bool
	// Status is running or pending_approval until Done, and then success, error,
	// cancelled or unknown.
	Status haft.Status
	// Failure says why the chain did not succeed, once it is Done.
	Failure *haft.Failure
}

// Next says what is to be done in the state c, whose Plan is that of p. Of c it
// reads Steps and Status: a step that is not listed is waiting, and a chain whose
// status is final, such as one that was cancelled, begins nothing more.
//
// A step is ready only as long as it is waiting: one that runs or has ended is
// never given again. A step that is done and has no result counts as unknown.
//
// An error means that c is not a state of p.
func (p *Program) Next(c haft.Chain) (Todo, error) {
	r, err := p.load(c)
	if err != nil {
		return Todo{}, err
	}
	var todo Todo
	ready := map[int]json.RawMessage{}
	for _, i := range p.order {
		if r.results[i].State == haft.StepWaiting && r.free(i) && !r.stopped() {
			args, err := r.begin(i)
			if err != nil {
				return Todo{}, err
			}
			if args != nil {
				ready[i] = args
			}
		}
		r.bars[i] = r.barred(i)
	}
	if r.stopped() {
		clear(ready)
		r.skipRest()
	}
	for i, s := range p.steps {
		if args, ok := ready[i]; ok {
			todo.Ready = append(todo.Ready, Ready{s.Step, args})
		}
		if r.settled[i] {
			todo.Skipped = append(todo.Skipped, r.results[i])
		}
	}
	todo.Status = r.status(len(todo.Ready) > 0)
	if todo.Status.Final() {
		todo.Done = true
		todo.Failure = r.failure()
	}
	return todo, nil
}

// run is the state of a chain while the next steps are found.
type run struct {
	*Program
	final   haft.Status   // of the chain, if it was given
	cause   *haft.Failure // of the chain, if it was given
	results []haft.StepResult
	settled []bool // results that are ours
	bars    []bool // what [run.barred] said of steps that come earlier in order
	nodes   map[source]*node
}

// load reads the state of a chain.
func (p *Program) load(c haft.Chain) (*run, error) {
	r := &run{
		Program: p, cause: c.Error, results: p.Steps(), settled: make([]bool, len(p.steps)),
		bars: make([]bool, len(p.steps)), nodes: map[source]*node{},
	}
	if c.Status != "" && c.Status.Final() {
		r.final = c.Status
	}
	seen := make([]bool, len(p.steps))
	for _, s := range c.Steps {
		i, ok := p.index[s.ID]
		if !ok || seen[i] {
			return nil, fmt.Errorf("the state of the chain has a step that its plan has not, or has it twice")
		}
		seen[i] = true
		switch s.State {
		case "", haft.StepWaiting:
			continue
		case haft.StepRunning:
		case haft.StepDone:
			if s.Result == nil || !s.Result.Status.Final() {
				s.Result = &haft.Result{Call: s.Call, Tool: p.steps[i].Tool, Status: haft.StatusUnknown,
					Value: json.RawMessage("null")}
			}
		case haft.StepSkipped:
			s.Result = nil
		default:
			return nil, fmt.Errorf("the state of the chain has a step in no state that there is")
		}
		r.results[i] = s
	}
	return r, nil
}

// ended reports whether a step is done or skipped.
func (r *run) ended(i int) bool {
	return r.results[i].State == haft.StepDone || r.results[i].State == haft.StepSkipped
}

// failed reports whether a step ended without success.
func (r *run) failed(i int) bool {
	return r.results[i].State == haft.StepDone && r.results[i].Result.Status != haft.StatusSuccess
}

// stops reports whether a step stops the chain.
func (r *run) stops(i int) bool {
	if !r.failed(i) {
		return false
	}
	switch r.steps[i].OnError {
	case haft.OnErrorContinue:
		return false
	case haft.OnErrorSkip:
		return r.results[i].Result.Status == haft.StatusUnknown
	}
	return true
}

// stopped reports whether nothing more may begin.
func (r *run) stopped() bool {
	return r.final != "" || slices.ContainsFunc(r.order, r.stops)
}

// free reports whether a step waits for no other any more.
func (r *run) free(i int) bool {
	return !slices.ContainsFunc(r.steps[i].waits, func(j int) bool { return !r.ended(j) })
}

// barred reports whether what names the step must be skipped: it failed and its
// on_error is skip, or it names such a step itself. That it is seen from the
// results alone makes a chain that goes on after a crash the same as one that
// was never interrupted. Those that it waits for were asked before.
func (r *run) barred(i int) bool {
	if r.failed(i) {
		return r.steps[i].OnError == haft.OnErrorSkip
	}
	return r.results[i].State == haft.StepSkipped &&
		slices.ContainsFunc(r.steps[i].waits, func(j int) bool { return r.bars[j] })
}

// begin returns the arguments of a step that waits for no other, or settles it
// and returns nil.
func (r *run) begin(i int) (json.RawMessage, error) {
	s := &r.steps[i]
	for _, j := range s.waits {
		if r.bars[j] {
			why := "failed"
			if !r.failed(j) {
				why = "was skipped"
			}
			r.skip(i, fmt.Sprintf("step %s %s", r.steps[j].ID, why))
			return nil, nil
		}
	}
	for _, j := range s.needs {
		if r.results[j].State == haft.StepSkipped {
			r.skip(i, fmt.Sprintf("step %s was skipped", r.steps[j].ID))
			return nil, nil
		}
	}
	if s.cond != nil {
		truth, err := s.cond.holds(r.variable)
		if err != nil {
			return nil, r.fail(i, err)
		}
		if !truth {
			r.skip(i, "its condition is false")
			return nil, nil
		}
	}
	args, err := s.args.fill(r.value)
	if err != nil {
		return nil, r.fail(i, err)
	}
	return args, nil
}

// skip settles a step that is not to be called.
func (r *run) skip(i int, reason string) {
	r.results[i] = haft.StepResult{ID: r.steps[i].ID, State: haft.StepSkipped, Reason: reason}
	r.settled[i] = true
}

// fail settles a step whose call cannot be made. Only what is the plan's or the
// values' fault is; the rest is returned.
func (r *run) fail(i int, err error) error {
	if haft.CodeOf(err) != haft.CodeInvalid {
		return fmt.Errorf("step %s: %w", r.steps[i].ID, err)
	}
	r.results[i] = haft.StepResult{ID: r.steps[i].ID, State: haft.StepDone, Result: &haft.Result{
		Tool: r.steps[i].Tool, Status: haft.StatusValidation, Value: json.RawMessage("null"),
		Error: &haft.Failure{Kind: haft.FailValidation, Message: "the step was not called: " + haft.MessageOf(err),
			Retry: haft.RetryChanged},
	}}
	r.settled[i] = true
	return nil
}

// skipRest skips the steps that will never begin because the chain has stopped.
func (r *run) skipRest() {
	reason := "the chain has ended"
	if i := r.culprit(); i >= 0 {
		reason = fmt.Sprintf("the chain stopped, because step %s failed", r.steps[i].ID)
	} else if r.final == haft.StatusCancelled {
		reason = "the chain was cancelled"
	}
	for i := range r.results {
		if r.results[i].State == haft.StepWaiting {
			r.skip(i, reason)
		}
	}
}

// culprit returns the step that stopped the chain, or -1. Of several it is the
// first that may or may not have run, which somebody has to look at, or
// else the first that failed, or else the first that was cancelled.
func (r *run) culprit() int {
	for _, status := range []haft.Status{haft.StatusUnknown, "", haft.StatusCancelled} {
		for i := range r.results {
			if r.stops(i) && (r.results[i].Result.Status == status ||
				status == "" && r.results[i].Result.Status != haft.StatusCancelled) {
				return i
			}
		}
	}
	return -1
}

// status returns the status of the chain.
func (r *run) status(ready bool) haft.Status {
	running, pending := 0, 0
	for _, s := range r.results {
		if s.State == haft.StepRunning {
			running++
			if s.Result != nil && s.Result.Status == haft.StatusPending {
				pending++
			}
		}
	}
	switch i := r.culprit(); {
	case running > 0 && running == pending && !ready:
		return haft.StatusPending
	case running > 0 || ready:
		return haft.StatusRunning
	case r.final != "":
		return r.final
	case i < 0:
		return haft.StatusSuccess
	default:
		switch status := r.results[i].Result.Status; status {
		case haft.StatusUnknown, haft.StatusCancelled:
			return status
		}
		return haft.StatusError
	}
}

// failure says why the chain did not succeed, or nil if it did.
func (r *run) failure() *haft.Failure {
	i := r.culprit()
	switch {
	case r.final != "" && r.cause != nil:
		return r.cause
	case r.final == haft.StatusCancelled:
		return &haft.Failure{Kind: haft.FailCancelled, Message: "the chain was cancelled", Retry: haft.RetrySame}
	case i < 0:
		return nil
	}
	res, out := r.results[i].Result, haft.Failure{Kind: haft.FailInternal, Message: "it failed", Retry: haft.RetryNever}
	switch {
	case res.Error != nil:
		out = *res.Error
	case res.Status == haft.StatusUnknown:
		out.Kind, out.Message = haft.FailUnknown, "nobody can know whether it ran"
	case res.Status == haft.StatusCancelled:
		out.Kind, out.Message = haft.FailCancelled, "it was cancelled"
	}
	out.Message = "step " + r.steps[i].ID + ": " + out.Message
	return &out
}
