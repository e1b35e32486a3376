package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
)

// webhookCommand keeps webhooks.
func webhookCommand(std streams) *cobra.Command {
	cmd := group("webhook", "Have events sent to an address, signed and in order",
		`  haft webhook add https://example.com/in --type tool_completed
  haft webhook list
  haft webhook dead ID                            what could not be delivered
  haft webhook redeliver ID [LETTER]`)
	p := attach(cmd)
	cmd.AddCommand(webhookAdd(p, std), webhookList(p, std), webhookRemove(p, std), webhookDead(p, std),
		webhookRedeliver(p, std))
	return cmd
}

// noWebhook says what to do about a webhook that is not there.
func noWebhook(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	return advise(err, "see which there are with: haft webhook list")
}

// webhookAdd adds a webhook.
func webhookAdd(p *persona, std streams) *cobra.Command {
	var w haft.Webhook
	var types []string
	cmd := p.command(std, "add URL", "Send events to an address from now on; its secret is printed once",
		cobra.ExactArgs(1), func(ctx context.Context, s *session, args []string) error {
			w.URL = args[0]
			for _, t := range types {
				w.Types = append(w.Types, haft.EventType(t))
			}
			kept, secret, err := s.PutWebhook(ctx, s.p, w)
			if err != nil {
				return err
			}
			if s.as.json {
				return printJSON(s.std.out, struct {
					haft.Webhook
					Secret string `json:"secret"`
				}{*kept, secret})
			}
			printFacts(s.std.err, fact{"webhook", cell{string(kept.ID), bold}}, fact{"address", kept.URL},
				fact{"events", wants(*kept)})
			fmt.Fprintln(s.std.err, "the secret, by which the receiver knows us, is shown this once:")
			if _, err := fmt.Fprintln(s.std.out, secret); err != nil {
				return advise(fmt.Errorf("show the secret of webhook %s, which is kept: %w", kept.ID, err),
					"remove it and add another: haft webhook rm "+string(kept.ID))
			}
			return nil
		})
	f := cmd.Flags()
	f.StringVar(&w.Description, "description", "", "what it is for")
	f.StringArrayVar(&types, "type", nil, "a type of events, such as tool_completed; may be given again")
	f.StringArrayVar(&w.Tools, "for-tool", nil, "the name of a tool; may be given again")
	f.StringArrayVar(&w.Agents, "for-agent", nil, "the id of an agent; may be given again")
	f.StringArrayVar(&w.Users, "for-user", nil, "a user; may be given again")
	return cmd
}

// wants says which events a webhook is for.
func wants(w haft.Webhook) string {
	var parts []string
	for _, t := range w.Types {
		parts = append(parts, string(t))
	}
	for what, list := range map[string][]string{"tools ": w.Tools, "agents ": w.Agents, "users ": w.Users} {
		if len(list) > 0 {
			parts = append(parts, what+strings.Join(list, ", "))
		}
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " ")
}

// webhookList lists webhooks.
func webhookList(p *persona, std streams) *cobra.Command {
	return p.command(std, "list", "List webhooks, and how their deliveries go", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			now := time.Now()
			return printList(s, s.WebhookList(ctx, s.p), "there are no webhooks; add one with: haft webhook add URL",
				[]string{"ID", "ADDRESS", "STATE", "EVENTS", "DELIVERED"}, func(tab *table, w haft.Webhook) {
					tab.row(cell{string(w.ID), bold}, w.URL, webhookState(w), wants(w), ago(w.Delivered, now))
				})
		})
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

// webhookRemove removes a webhook.
func webhookRemove(p *persona, std streams) *cobra.Command {
	return p.command(std, "rm ID", "Remove a webhook with its dead letters", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if err := s.RemoveWebhook(ctx, s.p, haft.WebhookID(args[0]), ""); err != nil {
				return noWebhook(err)
			}
			return tell(s, map[string]string{"removed": args[0]}, "webhook "+args[0]+" is removed")
		})
}

// webhookDead lists what could not be delivered.
func webhookDead(p *persona, std streams) *cobra.Command {
	return p.command(std, "dead ID", "List what a webhook could not be sent", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			letters := []haft.DeadLetter{}
			for l, err := range s.DeadLetters(ctx, s.p, haft.WebhookID(args[0])) {
				if err != nil {
					return noWebhook(err)
				}
				letters = append(letters, l)
			}
			if s.as.json {
				return printJSON(s.std.out, letters)
			}
			now := time.Now()
			tab := newTable(s.std.out, "ID", "EVENT", "CALL", "TRIES", "DIED", "WHY")
			for _, l := range letters {
				tab.row(cell{l.ID, bold}, string(l.Event.Type), string(l.Event.Call), l.Tries, ago(l.Died, now),
					l.Failure)
			}
			tab.print("there are no dead letters")
			return nil
		})
}

// webhookRedeliver sends dead letters again.
func webhookRedeliver(p *persona, std streams) *cobra.Command {
	return p.command(std, "redeliver ID [LETTER]", "Send dead letters again, now: one, or all until one fails",
		cobra.RangeArgs(1, 2), func(ctx context.Context, s *session, args []string) error {
			letter := ""
			if len(args) == 2 {
				letter = args[1]
			}
			n, err := s.Redeliver(ctx, s.p, haft.WebhookID(args[0]), letter)
			if err != nil {
				return noWebhook(err)
			}
			return tell(s, map[string]int{"delivered": n}, fmt.Sprintf("%d delivered", n))
		})
}
