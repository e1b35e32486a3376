package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/terminal"
)

// maxRequest is how many bytes of a request are shown. Nobody can agree here to one that is longer.
const maxRequest = 16 << 10

// ask asks the person about the requests that a turn waits for.
func (s *session) ask(ctx context.Context, v *turnView) error {
	switch {
	case v.turn.Status != haft.TurnWaiting:
		v.until = time.Time{}
		return nil
	case !s.TTY && s.unanswered(ctx, v.turn):
		return s.waiting(v.turn)
	case !s.TTY:
		if v.until.IsZero() {
			v.until = time.Now().Add(answeredWait)
		}
		return v.overdue()
	}
	for _, id := range v.turn.Approvals {
		if _, done := v.asked[id]; done {
			continue
		}
		v.asked[id] = struct{}{}
		if err := s.askOne(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// answeredWait is how long a turn may take to go on after its requests are answered.
const answeredWait = 30 * time.Second

// overdue returns an error if a turn has not gone on after its requests were answered.
func (v *turnView) overdue() error {
	if v.until.IsZero() || time.Now().Before(v.until) {
		return nil
	}
	return &haft.Error{Code: haft.CodeUnavailable,
		Message: "the requests of the turn are answered, but it does not go on; follow it again with --resume"}
}

// unanswered reports whether a turn waits for an answer that nobody has given. A turn whose requests are answered goes
// on soon. Whoever cannot see a request takes it for one that waits.
func (s *session) unanswered(ctx context.Context, t *haft.Turn) bool {
	return s.Approvals == nil || len(t.Approvals) == 0 ||
		slices.ContainsFunc(t.Approvals, func(id haft.ApprovalID) bool {
			a, err := s.Approvals.Approval(ctx, s.Approver, id)
			return err != nil || a.State == haft.ApprovalPending
		})
}

// askOne asks about one request. One that is not for this person waits for others.
func (s *session) askOne(ctx context.Context, id haft.ApprovalID) error {
	others := "the turn waits until somebody answers: haft approvals show " + string(id)
	if s.Approvals == nil {
		s.view.note(others)
		return nil
	}
	a, err := s.Approvals.Approval(ctx, s.Approver, id)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		s.view.problem(err.Error(), others)
		return nil
	case a.State != haft.ApprovalPending:
		return nil
	}
	list, err := facts(a)
	if err != nil {
		return err
	}
	whole := s.showRequest(a.ID, list)
	s.keys.discard()
	answer, err := s.answer(whole)
	if err != nil {
		return err
	}
	switch _, err = s.Approvals.Decide(ctx, s.Approver, id, answer); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case haft.CodeOf(err) == haft.CodeConflict:
		s.view.problem(err.Error(), "somebody has answered before, or the request has expired")
	case err != nil:
		s.view.problem(err.Error(), others)
	}
	return nil
}

// answer reads yes or no, and a reason. Nothing else is an answer.
func (s *session) answer(whole bool) (haft.Answer, error) {
	prompt := paint(s.Colour, terminal.Yellow, "? ") + "y or n, and a reason if you like: "
	for {
		line, _, err := s.edit.readLine(prompt)
		if err != nil {
			return haft.Answer{}, err
		}
		word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word = strings.ToLower(word); {
		case (word == "y" || word == "yes") && whole:
			return haft.Answer{Approve: true, Reason: strings.TrimSpace(reason)}, nil
		case word == "n" || word == "no":
			return haft.Answer{Reason: strings.TrimSpace(reason)}, nil
		}
	}
}

// showRequest shows everything that a person agrees to, and reports whether it could. Every line begins with our mark,
// and every special character is visible.
func (s *session) showRequest(id haft.ApprovalID, list []fact) (whole bool) {
	mark := paint(s.Colour, terminal.Yellow, "? ")
	s.view.line(mark + paint(s.Colour, terminal.Bold, "the agent wants to make a call, and somebody has to agree"))
	size := 0
	for _, f := range list {
		if f.text == "" {
			continue
		}
		if size += len(f.text); size > maxRequest {
			s.view.line(mark + "and more, which is too long to be shown: you cannot agree here")
			s.view.line(mark + "see everything with: haft approvals show " + oneLine(string(id), 80))
			return false
		}
		lines := wrap(visible(f.text), s.view.width()-18)
		if len(f.name) > 14 {
			lines = slices.Insert(lines, 0, "")
		}
		for _, line := range lines {
			s.view.line(mark + paint(s.Colour, terminal.Dim, fmt.Sprintf("%-14s ", f.name)) + line)
			f.name = ""
		}
	}
	return true
}

// A fact is something that a person agrees to.
type fact struct{ name, text string }

// facts returns everything that a request binds. The terms are shown as they are, so that none is left out.
func facts(a *haft.Approval) ([]fact, error) {
	var args bytes.Buffer
	if json.Compact(&args, a.Args) != nil {
		args = *bytes.NewBuffer(a.Args)
	}
	list := []fact{{"tool", a.Tool}, {"arguments", args.String()}, {"asked by", a.Rule},
		{"for", strings.TrimSpace(a.Requester.User + " as agent " + a.Requester.Agent)},
		{"expires", terminal.Ago(a.Expires, time.Now())}}
	if a.Terms == nil {
		return append(list, fact{"risk", "it is not known what else the call gets: refuse it if you do not know"}), nil
	}
	document, err := json.Marshal(a.Terms)
	if err != nil {
		return nil, fmt.Errorf("show the terms of a request: %w", err)
	}
	var terms map[string]json.RawMessage
	if err := json.Unmarshal(document, &terms); err != nil {
		return nil, fmt.Errorf("show the terms of a request: %w", err)
	}
	delete(terms, "binds") // which is the digest of the others
	for _, name := range slices.Sorted(maps.Keys(terms)) {
		list = append(list, fact{strings.ReplaceAll(name, "_", " "), valueText(terms[name])})
	}
	return list, nil
}
