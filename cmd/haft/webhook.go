package main

import (
	"context"
	"fmt"
	"strings"

	"haft"
	"haft/internal/exit"
)

// webhookCommand keeps webhooks.
func webhookCommand(*profile) command {
	var w haft.Webhook
	var types []string
	return command{
		use: "webhook", short: "Have events sent to an address, signed and in order",
		example: `  haft webhook add https://example.com/in --type tool_completed
  haft webhook list
  haft webhook dead ID                            what could not be delivered
  haft webhook redeliver ID [LETTER]`,
		missing: "see which there are with: haft webhook list",
		subs: []command{
			{use: "add URL", short: "Send events to an address from now on; its secret is printed once",
				flags: []flag{
					{&w.Description, "description", "what it is for"},
					{&types, "type", "a type of events, such as tool_completed; may be given again"},
					{&w.Tools, "for-tool", "the name of a tool; may be given again"},
					{&w.Agents, "for-agent", "the id of an agent; may be given again"},
					{&w.Users, "for-user", "a user; may be given again"},
				},
				run: func(ctx context.Context, s *session, args []string) error {
					w.URL = args[0]
					for _, t := range types {
						w.Types = append(w.Types, haft.EventType(t))
					}
					return addWebhook(ctx, s, w)
				}},
			{use: "list", short: "List webhooks, and how their deliveries go",
				run: listAll(system.WebhookList, listing[haft.Webhook]{
					"ID,ADDRESS,STATE,EVENTS,DELIVERED", func(w haft.Webhook) []any {
						return []any{cell{string(w.ID), bold}, w.URL, webhookState(w), eventsText(w),
							since(w.Delivered)}
					}, "there are no webhooks; add one with: haft webhook add URL"})},
			{use: "rm ID", short: "Remove a webhook with its dead letters",
				run: removeOne(system.RemoveWebhook, "webhook ", " is removed")},
			{use: "dead ID", short: "List what a webhook could not be sent",
				run: func(ctx context.Context, s *session, args []string) error {
					return printList(s.profile, s.DeadLetters(ctx, s.p, haft.WebhookID(args[0])),
						listing[haft.DeadLetter]{"ID,EVENT,CALL,TRIES,DIED,WHY", func(l haft.DeadLetter) []any {
							return []any{cell{l.ID, bold}, l.Event.Type, l.Event.Call, l.Tries, since(l.Died),
								l.Failure}
						}, "there are no dead letters"})
				}},
			{use: "redeliver ID [LETTER]", short: "Send dead letters again, now: one, or all until one fails",
				run: func(ctx context.Context, s *session, args []string) error {
					n, err := s.Redeliver(ctx, s.p, haft.WebhookID(args[0]), append(args, "")[1])
					if err != nil {
						return err
					}
					return s.printLine(map[string]int{"delivered": n}, fmt.Sprintf("%d delivered", n))
				}},
		},
	}
}

// addWebhook adds a webhook and prints its secret.
func addWebhook(ctx context.Context, s *session, w haft.Webhook) error {
	kept, secret, err := s.PutWebhook(ctx, s.p, w)
	if err != nil {
		return err
	}
	err = printSecret(s, struct {
		haft.Webhook
		Secret string `json:"secret"`
	}{*kept, secret}, secret, "the secret, by which the receiver knows us, is shown this once:",
		"webhook", cell{string(kept.ID), bold}, "address", kept.URL, "events", eventsText(*kept))
	if err != nil {
		return exit.Advise(fmt.Errorf("show the secret of webhook %s, which is kept: %w", kept.ID, err),
			"remove it and add another: haft webhook rm "+string(kept.ID))
	}
	return nil
}

// eventsText says which events a webhook is for.
func eventsText(w haft.Webhook) string {
	var parts []string
	for _, t := range w.Types {
		parts = append(parts, string(t))
	}
	for i, list := range [][]string{w.Tools, w.Agents, w.Users} {
		if len(list) > 0 {
			parts = append(parts, []string{"tools ", "agents ", "users "}[i]+strings.Join(list, ", "))
		}
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " ")
}

// webhookState says how a webhook goes.
func webhookState(w haft.Webhook) cell {
	switch {
	case w.Disabled && w.Reason != "":
		return cell{"disabled: " + w.Reason, yellow}
	case w.Disabled:
		return cell{"disabled", yellow}
	case !w.FailingSince.IsZero():
		return cell{"failing: " + w.Failure, yellow}
	}
	return cell{"good", green}
}
