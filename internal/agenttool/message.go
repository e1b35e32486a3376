package agenttool

import (
	"context"
	"errors"
	"strings"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
)

type historyIn struct {
	Query string   `json:"query,omitempty" jsonschema:"What to search for. Without it the last messages are returned."`
	Roles []string `json:"roles,omitempty" jsonschema:"Optional list of roles: user, assistant, tool."`
	Limit *int     `json:"limit,omitempty" jsonschema:"Maximum number of results to return."`
	Since string   `json:"start_date,omitempty" jsonschema:"Only messages after this time, such as 2024-01-15T14:30."`
	Till  string   `json:"end_date,omitempty" jsonschema:"Only messages before this time, such as 2024-01-15."`
}

// A foundMessage is one that fits a search.
type foundMessage struct {
	Timestamp string `json:"timestamp"`
	Role      string `json:"role"`
	Content   string `json:"content"`
	Tool      string `json:"tool,omitempty"`
}

type sendIn struct {
	Message string `json:"message" jsonschema:"Message contents. All unicode (including emojis) are supported."`
}

type sendToIn struct {
	Message string `json:"message" jsonschema:"The content of the message to be sent to the target agent."`
	Other   string `json:"other_agent_id" jsonschema:"The unique identifier of the target agent to send the message to."`
}

// addHistoryTools adds the search of what was said.
func addHistoryTools(s *builtin.Set, history History) error {
	d := builtin.Def{Name: "conversation_search", Version: "1", Category: category, Annotations: harmless(true),
		Description: "Search prior conversation history by words, roles and times."}
	return builtin.Add(s, d, func(ctx context.Context, c builtin.Call, in historyIn) ([]foundMessage, error) {
		p, err := agentOf(c)
		if err != nil {
			return nil, err
		}
		f := haft.MessageFilter{Query: in.Query, Newest: true}
		if f.Since, f.Till, err = span(in.Since, in.Till, "start_date", "end_date"); err != nil {
			return nil, err
		}
		if f.Limit, err = bound(in.Query, in.Limit, "limit"); err != nil {
			return nil, err
		}
		for _, r := range in.Roles {
			switch role := haft.MessageRole(r); role {
			case haft.RoleUser, haft.RoleAssistant, haft.RoleTool:
				f.Roles = append(f.Roles, role)
			default:
				return nil, invalid("roles: they are user, assistant and tool")
			}
		}
		messages, err := history.Messages(ctx, p, f)
		out := make([]foundMessage, 0, len(messages))
		for _, m := range messages {
			// What it found before would be found in what it found.
			if strings.TrimSpace(m.Text) != "" && m.Name != d.Name && m.Role != haft.RoleSummary {
				out = append(out, foundMessage{m.Created.UTC().Format(time.RFC3339), string(m.Role), m.Text, m.Name})
			}
		}
		return out, err
	})
}

// addMessageTools adds the tools that send messages.
func addMessageTools(s *builtin.Set, mail Mailbox) error {
	const about = "messages"
	send := builtin.Def{Name: "send_message", Version: "1", Category: about, Annotations: harmless(false),
		Description: "Sends a message to the human user."}
	deliver := builtin.Def{Name: "send_message_to_agent_async", Version: "1", Category: about,
		Annotations: harmless(false), Description: "Sends a message to a specific agent and does not wait for " +
			"its answer."}
	wait := builtin.Def{Name: "send_message_to_agent_and_wait_for_reply", Version: "1", Category: about,
		Annotations: harmless(false), Description: "Sends a message to a specific agent and waits for its answer.",
		Settings: haft.Settings{Limits: haft.Limits{Wall: haft.Millis(10 * time.Minute)}}}
	return errors.Join(
		builtin.Add(s, send, func(_ context.Context, c builtin.Call, in sendIn) (string, error) {
			if _, err := agentOf(c); err != nil {
				return "", err
			}
			if strings.TrimSpace(in.Message) == "" {
				return "", invalid("message: it is empty")
			}
			return "Sent message successfully.", nil // the conversation shows what was sent
		}),
		builtin.Add(s, deliver, func(ctx context.Context, c builtin.Call, in sendToIn) (string, error) {
			p, err := agentOf(c)
			if err != nil {
				return "", err
			}
			if err = mail.Deliver(ctx, p, haft.TurnID(c.Turn), in.Other, in.Message); err != nil {
				return "", err
			}
			return "Successfully sent message", nil
		}),
		builtin.Add(s, wait, func(ctx context.Context, c builtin.Call, in sendToIn) (string, error) {
			p, err := agentOf(c)
			if err != nil {
				return "", err
			}
			executor.Yield(ctx) // the other agent may need the same slots
			return mail.Reply(ctx, p, haft.TurnID(c.Turn), in.Other, in.Message)
		}))
}
