package conversation

import (
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/toolrule"
)

// A moment is what the rules of the agent allow now.
type moment struct {
	tools []haft.Tool     // all that there are for the agent
	state *toolrule.State // nil if no tool is allowed
	must  error           // why the turn may not end yet
	end   haft.StopReason // of a turn that ends with the next answer
}

// evaluate says what the rules allow now, or that the turn has ended.
func (r *run) evaluate(prof *Profile) (*moment, error) {
	rules := prof.Agent.Rules
	now := &moment{end: haft.StopEnd}
	var names []string
	for _, t := range prof.Tools {
		if !t.Disabled {
			now.tools, names = append(now.tools, t), append(names, t.Name)
		}
	}
	past, err := r.past(rules)
	if err != nil {
		return nil, err
	}
	state, err := toolrule.Evaluate(rules, past, names)
	switch {
	case haft.CodeOf(err) == haft.CodeDenied:
		if len(names) > 0 {
			now.end = haft.StopRule
		}
		return now, nil
	case err != nil:
		return nil, &ending{stop: haft.StopInternal, why: haft.MessageOf(err)}
	case state.Ended:
		return nil, &ending{stop: haft.StopRule}
	}
	now.state, now.must = state, state.Exit()
	if state.Forced && now.must == nil {
		now.must = &haft.Error{Code: haft.CodeDenied, Message: "The tool rules demand that you call one of these " +
			"tools now: " + strings.Join(state.Allowed, ", ") + "."}
	}
	_, answers := r.asked()
	if now.must == nil && !state.Continues(sendMessage) && slices.ContainsFunc(answers, func(m haft.Message) bool {
		return m.Name == sendMessage && m.Status == haft.StatusSuccess
	}) {
		return nil, &ending{stop: haft.StopEnd}
	}
	return now, nil
}

// past is what was called in the turn, for the rules. They look at the value of the last call only.
func (r *run) past(rules []haft.ToolRule) (list []toolrule.Past, err error) {
	var last haft.CallID
	for _, m := range r.own {
		if m.Call != "" {
			list, last = append(list, toolrule.Past{Tool: m.Name, Status: m.Status}), m.Call
		}
	}
	if len(rules) == 0 || last == "" {
		return list, nil
	}
	if r.last.Call != last {
		res, err := r.s.cfg.Calls.Wait(r.ctx, r.turn.Principal, last)
		if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
			return nil, fmt.Errorf("read the value that tool rules look at: %w", err)
		}
		if r.last = (haft.Result{Call: last}); err == nil {
			r.last.Value = res.Value
		}
	}
	list[len(list)-1].Value = r.last.Value
	return list, nil
}
