package letta

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"haft"
)

// A wireMessage is a message in Letta's form. Which of the last fields it has depends on its type. One of Haft's
// messages becomes several, which have the same id.
type wireMessage struct {
	ID     haft.MessageID `json:"id"`
	Date   time.Time      `json:"date"`
	Type   string         `json:"message_type"`
	Name   *string        `json:"name"`
	OTID   *string        `json:"otid"`
	Sender *string        `json:"sender_id"`
	Step   *string        `json:"step_id"`
	Run    haft.TurnID    `json:"run_id"`
	// Seq is where a stream of the run can be resumed.
	Seq   *int64 `json:"seq_id"`
	IsErr *bool  `json:"is_err"`

	Content   *string    `json:"content,omitempty"`
	Reasoning *string    `json:"reasoning,omitempty"`
	Source    string     `json:"source,omitempty"`
	Summary   *string    `json:"summary,omitempty"`
	ToolCall  *wireCall  `json:"tool_call,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
	*oneReturn
	Returns []oneReturn `json:"tool_returns,omitempty"`
}

// A wireCall is a call that a model asks for. Its id is Haft's: a model may choose the same id for different calls, and
// an approval of one of them must not be taken for that of another.
type wireCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	ID        string `json:"tool_call_id"`
}

// The types of messages.
const (
	userType      = "user_message"
	assistantType = "assistant_message"
	reasoningType = "reasoning_message"
	callType      = "tool_call_message"
	returnType    = "tool_return_message"
	approvalType  = "approval_request_message"
	summaryType   = "summary_message"
)

// maxTypes is how many types of messages a request names; it is more than there are.
const maxTypes = 20

// A view says how messages are shown.
type view struct {
	// Assistant shows the text of calls of Tool, in the argument Kwarg, as what the agent says.
	Assistant *bool    `json:"use_assistant_message"`
	Tool      *string  `json:"assistant_message_tool_name"`
	Kwarg     *string  `json:"assistant_message_tool_kwarg"`
	Types     []string `json:"include_return_message_types"`
}

// viewOf reads one from a query.
func viewOf(query url.Values) (view, error) {
	v := view{Types: listParam(query, "include_return_message_types")}
	if len(v.Types) > maxTypes {
		return v, unprocessable("query include_return_message_types: expected at most %d", maxTypes)
	}
	if query.Get("use_assistant_message") != "" {
		yes, err := boolParam(query, "use_assistant_message")
		if err != nil {
			return v, err
		}
		v.Assistant = &yes
	}
	for name, to := range map[string]**string{"assistant_message_tool_name": &v.Tool,
		"assistant_message_tool_kwarg": &v.Kwarg} {
		if text := query.Get(name); text != "" {
			*to = &text
		}
	}
	return v, nil
}

// speaks reports whether calls of a tool are shown as what the agent says.
func (v view) speaks(tool string) bool {
	name := "send_message"
	setIf(&name, v.Tool)
	return tool == name && (v.Assistant == nil || *v.Assistant)
}

// said is the text of a call that is shown as what the agent says.
func (v view) said(c haft.ToolCall) (text string, ok bool) {
	if !v.speaks(c.Tool) || c.Malformed != "" {
		return "", false
	}
	name, args := "message", map[string]any{}
	setIf(&name, v.Kwarg)
	if json.Unmarshal(c.Args, &args) != nil {
		return "", false
	}
	text, ok = args[name].(string)
	return text, ok
}

// show converts a message. Calls that are pending wait for a person.
func (v view) show(m haft.Message, pending map[haft.CallID]bool) []wireMessage {
	base := wireMessage{ID: m.ID, Date: m.Created.UTC(), Run: m.Turn}
	if m.Seq > 0 {
		base.Seq = &m.Seq
	}
	var all []wireMessage
	add := func(kind string, set func(w *wireMessage)) {
		w := base
		w.Type = kind
		set(&w)
		if len(v.Types) == 0 || slices.Contains(v.Types, kind) {
			all = append(all, w)
		}
	}
	switch m.Role {
	case haft.RoleUser:
		add(userType, func(w *wireMessage) {
			if w.Content = &m.Text; m.Name != "" { // of another agent
				sender := agentID(haft.AgentID(m.Name))
				w.Sender = &sender
			}
		})
	case haft.RoleSummary:
		add(summaryType, func(w *wireMessage) { w.Summary = &m.Text })
	case haft.RoleTool:
		if !v.speaks(m.Name) {
			add(returnType, func(w *wireMessage) { w.setReturn(m) })
		}
	case haft.RoleAssistant:
		step := stepID(m.ID)
		base.Step = &step
		v.showAnswer(m, pending, add)
	}
	return all
}

// showAnswer converts a message of the model.
func (v view) showAnswer(m haft.Message, pending map[haft.CallID]bool, add func(string, func(*wireMessage))) {
	if m.Reasoning != "" {
		add(reasoningType, func(w *wireMessage) { w.Reasoning, w.Source = &m.Reasoning, "reasoner_model" })
	}
	if m.Text != "" {
		add(assistantType, func(w *wireMessage) { w.Content = &m.Text })
	}
	var waiting []wireCall
	for _, c := range m.Calls {
		call := wireCall{Name: c.Tool, Arguments: string(c.Args), ID: cmp.Or(string(c.Call), c.ID)}
		if c.Call != "" && pending[c.Call] {
			waiting = append(waiting, call)
		} else if text, ok := v.said(c); ok {
			add(assistantType, func(w *wireMessage) { w.Content = &text })
		} else {
			add(callType, func(w *wireMessage) { w.ToolCall, w.ToolCalls = &call, []wireCall{call} })
		}
	}
	if len(waiting) > 0 {
		add(approvalType, func(w *wireMessage) {
			w.ID, w.ToolCall, w.ToolCalls = requestID(m.ID, waiting), &waiting[0], waiting
		})
	}
}

// requestID is the id of the request about these calls of a message. An answer that names no calls is for all of them,
// so that it must not fit a later request about other calls of the same message.
func requestID(id haft.MessageID, calls []wireCall) haft.MessageID {
	var ids []string
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return id + haft.MessageID(requestSign+digestID("", ids...))
}

// messageOf is the id of the message that an id of a message or of a request is about.
func messageOf(id haft.MessageID) haft.MessageID {
	base, _, _ := strings.Cut(string(id), requestSign)
	return haft.MessageID(base)
}

// requestSign stands in ids of requests between that of the message and that of the calls.
const requestSign = "-for-"

// setReturn makes w the answer to a call.
func (w *wireMessage) setReturn(m haft.Message) {
	one := oneReturn{Return: m.Text, Status: "error", Call: cmp.Or(string(m.Call), m.Answers),
		Stdout: []string{}, Stderr: []string{}}
	if m.Status == haft.StatusSuccess {
		one.Status = "success"
	}
	part := one
	part.Kind = "tool"
	failed := one.Status == "error"
	w.Name, w.oneReturn, w.Returns, w.IsErr = &m.Name, &one, []oneReturn{part}, &failed
}

// stepID is the id of the step that a message of the model is: every request to the model is one.
func stepID(id haft.MessageID) string { return "step-" + strings.TrimPrefix(string(id), messageWord) }

// messageWord begins the ids of messages.
const messageWord = "message-"

// stopOf is Letta's word for why a turn ended, or waits.
func stopOf(t haft.Turn) *string {
	words := map[haft.StopReason]string{
		haft.StopEnd: "end_turn", haft.StopRule: "tool_rule", haft.StopSteps: "max_steps", haft.StopTime: "max_steps",
		haft.StopTokens: "max_tokens_exceeded", haft.StopCost: "insufficient_credits",
		haft.StopRefusal: "invalid_llm_response", haft.StopModel: "llm_api_error", haft.StopCancelled: "cancelled",
	}
	word, ok := words[t.Stop]
	switch {
	case t.Status == haft.TurnWaiting:
		word = "requires_approval"
	case t.Status == haft.TurnRunning:
		return nil
	case !ok:
		word = "error"
	}
	return &word
}

// A wireStop says why a turn ended.
type wireStop struct {
	Type   string  `json:"message_type"`
	Reason *string `json:"stop_reason"`
	Detail string  `json:"detail,omitempty"` // what went wrong
}

func showStop(t haft.Turn) wireStop { return wireStop{"stop_reason", stopOf(t), t.Error} }

// A wireUsage is what a turn took.
type wireUsage struct {
	Type   string        `json:"message_type"`
	Output int           `json:"completion_tokens"`
	Input  int           `json:"prompt_tokens"`
	Total  int           `json:"total_tokens"`
	Cached int           `json:"cached_input_tokens"`
	Steps  int           `json:"step_count"`
	Runs   []haft.TurnID `json:"run_ids"`
}

func showUsage(t haft.Turn) wireUsage {
	u := t.Usage
	return wireUsage{"usage_statistics", u.Output, u.Input, u.Input + u.Output, u.Cached, u.Steps, []haft.TurnID{t.ID}}
}
