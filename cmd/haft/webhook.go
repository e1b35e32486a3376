package main

import (
	"context"
	"fmt"
	"strings"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
)

// webhookCommand keeps webhooks.
func webhookCommand(*cli.Profile) cli.Command {
	var w haft.Webhook
	var types []string
	return cli.Command{
		Use: "webhook", Short: "Have events sent to an address, signed and in order",
		Example: `  haft webhook add https://example.com/in --type tool_completed
  haft webhook list
  haft webhook dead ID                            what could not be delivered
  haft webhook redeliver ID [LETTER]`,
		Missing: "see which there are with: haft webhook list",
		Subs: []cli.Command{
			{Use: "add URL", Short: "Send events to an address from now on; its secret is printed once",
				Flags: []cli.Flag{
					{&w.Description, "description", "what it is for"},
					{&types, "type", "a type of events, such as tool_completed; may be given again"},
					{&w.Tools, "for-tool", "the name of a tool; may be given again"},
					{&w.Agents, "for-agent", "the id of an agent; may be given again"},
					{&w.Users, "for-user", "a user; may be given again"},
				},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					w.URL = args[0]
					for _, t := range types {
						w.Types = append(w.Types, haft.EventType(t))
					}
					return addWebhook(ctx, s, w)
				}},
			{Use: "list", Short: "List webhooks, and how their deliveries go",
				Run: cli.ListAll(cli.System.WebhookList, cli.Listing[haft.Webhook]{
					"ID,ADDRESS,STATE,EVENTS,DELIVERED", func(w haft.Webhook) []any {
						return []any{cli.Shaded(string(w.ID), bold), w.URL, webhookState(w), eventsText(w),
							cli.Since(w.Delivered)}
					}, "there are no webhooks; add one with: haft webhook add URL"})},
			{Use: "remove ID", Old: []string{"rm"}, Short: "Remove a webhook with its dead letters",
				Run: cli.RemoveOne(cli.System.RemoveWebhook, "webhook ", " is removed")},
			{Use: "dead ID", Short: "List what a webhook could not be sent",
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return cli.PrintList(s.Profile, s.DeadLetters(ctx, s.Who, haft.WebhookID(args[0])),
						cli.Listing[haft.DeadLetter]{"ID,EVENT,CALL,TRIES,DIED,WHY", func(l haft.DeadLetter) []any {
							return []any{cli.Shaded(l.ID, bold), l.Event.Type, l.Event.Call, l.Tries, cli.Since(l.Died),
								l.Failure}
						}, "there are no dead letters"})
				}},
			{Use: "redeliver ID [LETTER]", Short: "Send dead letters again, now: one, or all until one fails",
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					n, err := s.Redeliver(ctx, s.Who, haft.WebhookID(args[0]), append(args, "")[1])
					if err != nil {
						return err
					}
					return s.PrintLine(map[string]int{"delivered": n}, fmt.Sprintf("%d delivered", n))
				}},
		},
	}
}

// addWebhook adds a webhook and prints its secret.
func addWebhook(ctx context.Context, s *cli.Session, w haft.Webhook) error {
	kept, secret, err := s.PutWebhook(ctx, s.Who, w)
	if err != nil {
		return err
	}
	err = printSecret(s, struct {
		haft.Webhook
		Secret string `json:"secret"`
	}{*kept, secret}, secret, "the secret, by which the receiver knows us, is shown this once:",
		"webhook", cli.Shaded(string(kept.ID), bold), "address", kept.URL, "events", eventsText(*kept))
	if err != nil {
		return exit.Advise(fmt.Errorf("show the secret of webhook %s, which is kept: %w", kept.ID, err),
			"remove it and add another: haft webhook remove "+string(kept.ID))
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
func webhookState(w haft.Webhook) cli.Cell {
	switch {
	case w.Disabled && w.Reason != "":
		return cli.Shaded("disabled: "+w.Reason, yellow)
	case w.Disabled:
		return cli.Shaded("disabled", yellow)
	case !w.FailingSince.IsZero():
		return cli.Shaded("failing: "+w.Failure, yellow)
	}
	return cli.Shaded("good", green)
}
