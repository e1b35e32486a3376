package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"haft"
)

// decode reads a request whose fields are all known: vendors refuse others.
func decode(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("the request is not of the format: %w", err)
	}
	return nil
}

// options are fields of requests that tests may set, of any format.
type options struct {
	Temperature json.RawMessage `json:"temperature"`
	Thinking    json.RawMessage `json:"thinking"`
	Reasoning   json.RawMessage `json:"reasoning"`
	Metadata    json.RawMessage `json:"metadata"`
}

var (
	validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`) })
	validID   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]+$`) }) // Anthropic's
)

// check reports what all vendors refuse.
func check(r Request) error {
	if r.Model == "" {
		return errors.New("there is no model")
	}
	if len(r.Messages) == 0 {
		return errors.New("there are no messages")
	}
	offered := map[string]bool{}
	for _, t := range r.Tools {
		if !validName().MatchString(t) || offered[t] {
			return fmt.Errorf("tools: the name %q is not valid, or stands there twice", t)
		}
		offered[t] = true
	}
	switch r.Choice {
	case "auto", "required", "none":
	default:
		if !offered[r.Choice] {
			return fmt.Errorf("tool_choice: the tool %q is not offered", r.Choice)
		}
	}
	return checkMessages(r)
}

// checkMessages reports messages that are empty, and calls that are not answered right after they were made.
func checkMessages(r Request) error {
	open, ids := map[string]haft.ToolCall{}, map[string]bool{}
	for i, m := range r.Messages {
		if m.Role != haft.RoleTool && len(open) > 0 {
			return fmt.Errorf("messages[%d]: %d calls before have no answer", i, len(open))
		}
		if strings.TrimSpace(m.Text) == "" && len(m.Calls) == 0 {
			return fmt.Errorf("messages[%d]: it is empty", i)
		}
		for _, c := range m.Calls {
			switch {
			case !validName().MatchString(c.Tool):
				return fmt.Errorf("messages[%d]: the name %q is not valid", i, c.Tool)
			case c.ID == "" || len(c.ID) > 64 || r.Format == "anthropic" && !validID().MatchString(c.ID):
				return fmt.Errorf("messages[%d]: the id %q is not valid", i, c.ID)
			case ids[c.ID]:
				return fmt.Errorf("messages[%d]: the id %q is not unique", i, c.ID)
			case !json.Valid(c.Args) || c.Args[0] != '{':
				return fmt.Errorf("messages[%d]: the arguments are not an object", i)
			}
			ids[c.ID], open[c.ID] = true, c
		}
		if m.Role == haft.RoleTool {
			c, ok := open[m.Answers]
			if !ok {
				return fmt.Errorf("messages[%d]: the id %q is of no call that waits for an answer", i, m.Answers)
			}
			if m.Name != "" && m.Name != c.Tool {
				return fmt.Errorf("messages[%d]: the answer is of %q, the call of %q", i, m.Name, c.Tool)
			}
			delete(open, m.Answers)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d calls have no answer", len(open))
	}
	if r.Format == "anthropic" || r.Format == "gemini" {
		if r.Messages[0].Role != haft.RoleUser {
			return errors.New("messages: the first one is not of the user")
		}
		if r.Messages[len(r.Messages)-1].Role == haft.RoleAssistant {
			return errors.New("messages: the conversation must end with a user message")
		}
	}
	return nil
}

// alternates reports roles that do not.
func alternates(roles []string) error {
	for i := 1; i < len(roles); i++ {
		if roles[i] == roles[i-1] {
			return fmt.Errorf("messages[%d]: roles must alternate", i)
		}
	}
	return nil
}
