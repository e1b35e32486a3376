package haft

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// MessageID identifies a message. It begins with "message-".
type MessageID string

// TurnID identifies a turn. It begins with "run-".
type TurnID string

// A MessageRole says whose a message is.
type MessageRole string

// The roles of messages.
const (
	RoleUser      MessageRole = "user"
	RoleAssistant MessageRole = "assistant"
	RoleTool      MessageRole = "tool"    // the answer to one tool call
	RoleSummary   MessageRole = "summary" // what stands for the messages before it, which the model gets no more
)

// A Message is one of the conversation of an agent, in the order of Seq.
type Message struct {
	ID    MessageID `json:"id"`
	Agent AgentID   `json:"agent_id"`
	Turn  TurnID    `json:"turn_id"`
	// Seq counts the messages of the agent from 1.
	Seq  int64       `json:"seq"`
	Role MessageRole `json:"role"`
	// Name is of the tool that is answered, or of the agent that sent a message to this one.
	Name string `json:"name,omitempty"`
	Text string `json:"text,omitempty"`
	// Reasoning is what the model showed of its reasoning.
	Reasoning string `json:"reasoning,omitempty"`
	// Calls are the tool calls that an assistant asks for.
	Calls []ToolCall `json:"tool_calls,omitempty"`
	// Answers is the id of the tool call that a message of a tool answers, and Call that of the call.
	Answers string `json:"tool_call_id,omitempty"`
	Call    CallID `json:"call_id,omitempty"`
	Status  Status `json:"status,omitempty"`
	// Replaces is the Seq of the last message that a summary stands for.
	Replaces int64     `json:"replaces_seq,omitempty"`
	Created  time.Time `json:"created_at"`
	// Opaque is what the vendor of the model wants back as it was, such as signatures of its reasoning.
	Opaque json.RawMessage `json:"-"`
	// Images are those of the answer of a tool that models are shown.
	Images []MessageImage `json:"-"`
}

// A MessageImage is an artifact of a call that models are shown with the answer of the call.
type MessageImage struct {
	Call        CallID `json:"call_id"`
	Name        string `json:"name"`
	ContentType string `json:"content_type"` // read from the content
	Size        int64  `json:"size"`
	// Data is the content while a model is asked. It is not kept with the message.
	Data []byte `json:"-"`
}

// A ToolCall is a call that a model asks for.
type ToolCall struct {
	// ID is the model's, and Call is that of the call, which is decided before it is made.
	ID   string          `json:"id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	Call CallID          `json:"call_id,omitempty"`
	// Malformed says why the arguments cannot be read; then Args is what the model wrote, as a string.
	Malformed string `json:"malformed,omitempty"`
}

// A TurnStatus says how far a turn is.
type TurnStatus string

// The states of turns. A turn that waits needs an answer to a request for approval.
const (
	TurnRunning   TurnStatus = "running"
	TurnWaiting   TurnStatus = "waiting"
	TurnCompleted TurnStatus = "completed"
	TurnFailed    TurnStatus = "failed"
	TurnCancelled TurnStatus = "cancelled"
)

// A StopReason says why a turn ended.
type StopReason string

// The reasons.
const (
	StopEnd       StopReason = "end_turn"
	StopRule      StopReason = "tool_rule" // an exit_loop rule, or no tool is allowed any more
	StopSteps     StopReason = "max_steps"
	StopTokens    StopReason = "max_tokens"
	StopTime      StopReason = "max_time"
	StopCost      StopReason = "max_cost"
	StopRefusal   StopReason = "refusal"
	StopModel     StopReason = "model_error"
	StopLoop      StopReason = "loop" // the same calls again and again
	StopCancelled StopReason = "cancelled"
	StopInternal  StopReason = "error"
)

// A Budget bounds a turn. Zero fields are what the server allows.
type Budget struct {
	Steps  int    `json:"max_steps,omitempty"`
	Tokens int    `json:"max_tokens,omitempty"`
	Time   Millis `json:"max_time_ms,omitempty"`
	// Cost is in millionths of the unit in which the prices of models are.
	Cost int64 `json:"max_cost_micros,omitempty"`
}

// TurnUsage is what a turn took so far, and what the turns took that it began. What a server of models does not say is
// estimated.
type TurnUsage struct {
	Steps  int   `json:"steps"`
	Input  int   `json:"input_tokens"`
	Output int   `json:"output_tokens"`
	Cached int   `json:"cached_tokens,omitempty"`
	Cost   int64 `json:"cost_micros,omitempty"`
	// Time is that of the turn itself, without waiting for people.
	Time Millis `json:"time_ms,omitempty"`
}

// A Turn is what an agent does with one message: it asks its model, makes the calls that the model wants, and goes on
// until the model has answered.
type Turn struct {
	ID     TurnID     `json:"id"`
	Agent  AgentID    `json:"agent_id"`
	Status TurnStatus `json:"status"`
	Stop   StopReason `json:"stop_reason,omitempty"`
	// Error says what went wrong, for people.
	Error string `json:"error,omitempty"`
	Model string `json:"model"`
	// Parent is the turn in which another agent sent the message, and Depth how many such turns are above this one.
	Parent TurnID    `json:"parent_id,omitempty"`
	Depth  int       `json:"depth,omitempty"`
	Budget Budget    `json:"budget,omitzero"`
	Usage  TurnUsage `json:"usage"`
	// Approvals are the requests that a turn waits for.
	Approvals []ApprovalID `json:"approval_ids,omitempty"`
	Created   time.Time    `json:"created_at"`
	Ended     time.Time    `json:"ended_at,omitzero"`
	// Principal is who sent the message, as the agent.
	Principal Principal `json:"-"`
}

// Final reports whether the turn has ended.
func (t Turn) Final() bool { return t.Status != TurnRunning && t.Status != TurnWaiting }

// A NewMessage is what somebody says to an agent.
type NewMessage struct {
	Text string `json:"text"`
	// Model replaces that of the agent for this turn.
	Model  string `json:"model,omitempty"`
	Budget Budget `json:"budget,omitzero"`
	// Key makes sending idempotent: of several messages with one key the first counts.
	Key string `json:"idempotency_key,omitempty"`
}

// A TurnEvent is what is seen of a turn while it goes on. One of its fields is set.
type TurnEvent struct {
	// Delta is a piece of the text that the model writes, and Thinking of its reasoning. The message has all of it.
	Delta    string `json:"delta,omitempty"`
	Thinking string `json:"thinking,omitempty"`
	// Message is one that is kept.
	Message *Message `json:"message,omitempty"`
	// Result is of a call that has ended, and Event of one that runs.
	Result *Result `json:"result,omitempty"`
	Event  *Event  `json:"event,omitempty"`
	// Notice says what happened to the model or to the turn, such as that a request is tried again.
	Notice string `json:"notice,omitempty"`
	// Turn is how it stands; the last event has it.
	Turn *Turn `json:"turn,omitempty"`
}

// A MessageFilter selects messages of an agent.
type MessageFilter struct {
	// Query is words that they have, and Roles whose they are.
	Query       string
	Roles       []MessageRole
	Turn        TurnID
	Since, Till time.Time
	// After and Before are sequence numbers; Newest has the last ones first.
	After, Before int64
	Newest        bool
	Limit         int
}

// Conversations are what people and agents say to agents. Agents are named by id or name.
type Conversations interface {
	// Send begins a turn and yields what happens in it until it ends or waits. Whoever stops listening does not stop
	// the turn. It returns [CodeDenied] if p does not act as the agent: Principal.Agent must be its id or name.
	Send(ctx context.Context, p Principal, agent string, m NewMessage) iter.Seq2[TurnEvent, error]
	// Follow yields what happens in a turn from now on, after its state.
	Follow(ctx context.Context, p Principal, id TurnID) iter.Seq2[TurnEvent, error]
	Turn(ctx context.Context, p Principal, id TurnID) (*Turn, error)
	Turns(ctx context.Context, p Principal, agent string, after TurnID, limit int) ([]Turn, error)
	CancelTurn(ctx context.Context, p Principal, id TurnID) error
	Messages(ctx context.Context, p Principal, agent string, f MessageFilter) ([]Message, error)
}
