package chat

import (
	"context"
	"fmt"
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
	if !s.TTY || v.turn.Status != haft.TurnWaiting {
		return nil
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
	whole := s.showRequest(a)
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
func (s *session) showRequest(a *haft.Approval) (whole bool) {
	mark := paint(s.Colour, terminal.Yellow, "? ")
	s.view.line(mark + paint(s.Colour, terminal.Bold, "the agent wants to make a call, and somebody has to agree"))
	size := 0
	for _, f := range facts(a) {
		if f.text == "" {
			continue
		}
		if size += len(f.text); size > maxRequest {
			s.view.line(mark + "and more, which is too long to be shown: you cannot agree here")
			s.view.line(mark + "see everything with: haft approvals show " + oneLine(string(a.ID), 80))
			return false
		}
		for i, line := range visible(f.text, s.view.width()-15) {
			name := f.name
			if i > 0 {
				name = ""
			}
			s.view.line(mark + paint(s.Colour, terminal.Dim, fmt.Sprintf("%-11s ", name)) + line)
		}
	}
	return true
}

// A fact is something that a person agrees to.
type fact struct{ name, text string }

// facts returns everything that a request binds.
func facts(a *haft.Approval) []fact {
	who := strings.Trim(a.Requester.User+" as "+a.Requester.Agent, " ")
	list := []fact{{"tool", a.Tool}, {"arguments", string(a.Args)}, {"asked by", a.Rule}, {"for", who},
		{"expires", terminal.Ago(a.Expires, time.Now())}}
	t := a.Terms
	if t == nil {
		return append(list, fact{"risk", "the request does not say what else the call gets: refuse it if you do not know"})
	}
	env := joined(t.Env, haft.Variable.String)
	if t.MoreEnv > 0 {
		env += fmt.Sprintf(", and %d more variables", t.MoreEnv)
	}
	if t.Webhook {
		env += ", and what the credentials webhook adds"
	}
	within := joined(t.Within, func(hosts []string) string { return "[" + strings.Join(hosts, ", ") + "]" })
	packages := slices.Concat(t.Requirements.Pip, t.Requirements.NPM, t.OrgRequirements.Pip, t.OrgRequirements.NPM)
	list = append(list, fact{"version", t.Digest}, fact{"network", strings.Join(t.Network, ", ")}, fact{"within", within},
		fact{"programs", strings.Join(t.Programs, ", ")}, fact{"environment", strings.TrimPrefix(env, ", ")},
		fact{"packages", strings.Join(packages, ", ")}, fact{"sandbox", t.Sandbox},
		fact{"isolation", string(t.MinIsolation)},
		fact{"files", joined(t.Files, func(f haft.CallFile) string { return f.Path + " (" + f.SHA256 + ")" })})
	if w := t.Workspace; w != nil {
		list = append(list, fact{"workspace", w.Name + map[bool]string{true: " (read-only)", false: " (writable)"}[w.ReadOnly]})
	}
	if m := t.Server; m != nil {
		mounts := joined(m.Mounts, func(d haft.MCPMount) string {
			return d.Dir + map[bool]string{true: " (writable)"}[d.Writable]
		})
		list = append(list, fact{"server", m.Name}, fact{"at", m.URL}, fact{"command", strings.Join(m.Command, " ")},
			fact{"mounts", mounts}, fact{"its network", strings.Join(m.Network, ", ")})
	}
	if t.Limits.Wall > 0 {
		list = append(list, fact{"time", t.Limits.Wall.String()})
	}
	if t.Limits.Memory > 0 {
		list = append(list, fact{"memory", fmt.Sprintf("%d bytes", t.Limits.Memory)})
	}
	return list
}

// joined joins the texts of a list.
func joined[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = text(v)
	}
	return strings.Join(texts, ", ")
}
