package haft

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// A Service is everything that an API can do. The engine implements it, and so
// does the client of a remote engine.
type Service interface {
	Calls
	Toolbox
	Agents
	Approver
	Watcher
	Operator
}

// Calls are made, planned and looked back at.
type Calls interface {
	Caller
	Planner
	CallHistory
}

// A Caller runs calls.
type Caller interface {
	// Call runs c to its end, or until it waits for a person, and returns its
	// result. An error means that there is no result: [CodeNotFound] for an
	// unknown tool, [CodeConflict] for a reused idempotency key.
	Call(ctx context.Context, c Call) (*Result, error)
	// Submit acknowledges c and returns: it runs whether or not ctx ends, and
	// also if this process does. The record says where it stands.
	Submit(ctx context.Context, c Call) (*Record, error)
	// Cancel stops a call. Cancelling a finished call changes nothing.
	Cancel(ctx context.Context, p Principal, id CallID) error
}

// A Planner runs several calls.
type Planner interface {
	// Batch runs calls, those that may beside each other and the others in
	// order, and returns their results in the order of the calls. A call without
	// a result has one that says why.
	Batch(ctx context.Context, calls []Call) ([]*Result, error)
	// Run runs a plan to its end, or until it waits for a person.
	Run(ctx context.Context, p Principal, plan Plan) (*Chain, error)
	// Chain returns where a chain stands, or [CodeNotFound].
	Chain(ctx context.Context, p Principal, id ChainID) (*Chain, error)
}

// CallHistory reads the calls that were made.
type CallHistory interface {
	// Record returns what is kept of a call, or [CodeNotFound].
	Record(ctx context.Context, p Principal, id CallID) (*Record, error)
	// Records lists the calls that p may see, newest first.
	Records(ctx context.Context, p Principal, f CallFilter) iter.Seq2[Record, error]
	// Replay calls the same version with the same arguments and environment
	// again, as a new call.
	Replay(ctx context.Context, p Principal, id CallID) (*Result, error)
}

// A Toolbox knows which tools there are.
type Toolbox interface {
	ToolReader
	// PutTool adds a tool, or a version to the tool of that name.
	PutTool(ctx context.Context, p Principal, d Draft) (*Change, error)
	// SetTool changes what is not part of a version.
	SetTool(ctx context.Context, p Principal, ref string, s ToolState) (*Tool, error)
	// RemoveTool removes a tool with its versions, or returns [CodeNotFound], or
	// [CodeConflict] if the tool is not of that revision; empty means any.
	RemoveTool(ctx context.Context, p Principal, ref, revision string) error
}

// A ToolReader reads tools and their versions.
type ToolReader interface {
	// Tool returns the tool of that name or id, or [CodeNotFound].
	Tool(ctx context.Context, p Principal, ref string) (*Tool, error)
	// Tools lists the tools that p may see, ordered by name, or if f has a text
	// to search for, the best first.
	Tools(ctx context.Context, p Principal, f ToolFilter) iter.Seq2[Tool, error]
	// Versions lists the versions of a tool, newest first.
	Versions(ctx context.Context, p Principal, ref string) iter.Seq2[Version, error]
}

// A Draft is what somebody gives to become a version of a tool. What is left out
// is read from the source.
type Draft struct {
	// Name is the tool's; empty means that of the function.
	Name        string       `json:"name,omitempty"`
	Kind        Kind         `json:"source_type,omitempty"`
	Source      string       `json:"source_code"`
	File        string       `json:"file,omitempty"`
	Files       []ToolFile   `json:"files,omitempty"`
	Function    string       `json:"function,omitempty"`
	Description string       `json:"description,omitempty"`
	Category    string       `json:"category,omitempty"`
	Tags        []string     `json:"tags,omitempty"`
	Annotations Annotations  `json:"annotations,omitzero"`
	Settings    Settings     `json:"settings,omitzero"`
	Needs       Requirements `json:"requirements,omitzero"`
	// Parameters is the schema, where it is not to be derived; ArgsSchema is the
	// same as args_json_schema, the form of others.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	ArgsSchema json.RawMessage `json:"args_json_schema,omitempty"`
	Returns    json.RawMessage `json:"returns,omitempty"`
	// Relock finds the newest packages that fit the requirements. Otherwise those
	// stay that the organisation has for the same requirements already.
	Relock bool `json:"relock,omitempty"`
	// DescriptionsRequired refuses a source whose function or parameters have no description.
	// Otherwise that is a warning.
	DescriptionsRequired bool `json:"descriptions_required,omitempty"`
	// KeepSettings keeps the settings, requirements, files and annotations of the tool that it replaces, where
	// the draft has none. Otherwise the draft replaces all of them.
	KeepSettings bool `json:"keep_settings,omitempty"`
	// Named lists what is not kept although the draft leaves it empty, such as "requires_approval",
	// "limits.wall_ms", "requirements" or "files".
	Named []string `json:"named_settings,omitempty"`
	// New refuses to add a version to a tool that exists.
	New bool `json:"new,omitempty"`
	// If is the digest that the current version must have, or the revision of the
	// tool; empty means any.
	If string `json:"if_digest,omitempty"`
}

// A Change says what became of a draft.
type Change struct {
	Tool Tool `json:"tool"`
	// Created says that there was no such tool, Same that nothing is new.
	Created bool `json:"created,omitempty"`
	Same    bool `json:"unchanged,omitempty"`
	// Waiting is the number of the version that waits for review, if one does.
	Waiting int `json:"waiting,omitempty"`
	// Schema lists how the schema differs from that of the version before, in
	// words, such as "/city: required now".
	Schema []string `json:"schema_changes,omitempty"`
	// Files lists how the files differ from those of the version before, such as
	// "core/menu.py: changed".
	Files []string `json:"file_changes,omitempty"`
	// Kept lists, in words, the settings that the draft left out and that stay as they were.
	Kept []string `json:"kept,omitempty"`
	// Warnings are for the one who registers.
	Warnings []string `json:"warnings,omitempty"`
}

// A ToolState is what can be changed without a new version. Nil leaves it.
type ToolState struct {
	Disabled *bool     `json:"disabled,omitempty"`
	Category *string   `json:"category,omitempty"`
	Tags     *[]string `json:"tags,omitempty"`
	// Metadata replaces all of it.
	Metadata *map[string]json.RawMessage `json:"metadata,omitempty"`
	// Version is the number of the version that calls are to run from now on.
	Version *int `json:"version,omitempty"`
	// Review accepts or refuses the version that waits for it.
	Review *Answer `json:"review,omitempty"`
	// If is the [Tool.Revision] that the tool must have; empty means any.
	If string `json:"if_revision,omitempty"`
}

// A ToolFilter says which tools to list. Empty fields match all.
type ToolFilter struct {
	Category string `json:"category,omitempty"`
	Tag      string `json:"tag,omitempty"`
	Kind     Kind   `json:"kind,omitempty"`
	// Search finds tools by words of their name, description, tags and category.
	Search string `json:"search,omitempty"`
	// After is a name: only tools behind it are listed. If they are sorted by
	// time, AfterTime is that of the tool.
	After     string    `json:"after,omitempty"`
	AfterTime time.Time `json:"after_time,omitzero"`
	// Limit is the most to give; 0 means 100 of a search and else all.
	Limit int `json:"limit,omitempty"`
	// Disabled lists those too, and Enabled, if it is set, only those that are or
	// only those that are not.
	Disabled bool  `json:"disabled,omitempty"`
	Enabled  *bool `json:"enabled,omitempty"`
	// Recent lists those first that were changed last, instead of by name.
	Recent bool `json:"recent,omitempty"`
}

// Shows reports whether tools are listed that are disabled, or that are not.
func (f ToolFilter) Shows(disabled bool) bool {
	if f.Enabled != nil {
		return *f.Enabled == !disabled
	}
	return f.Disabled || !disabled
}

// An AgentFilter says which agents to list. Empty fields match all.
type AgentFilter struct {
	// Tool is the name of a tool that they have.
	Tool string `json:"tool,omitempty"`
	// Enabled, if it is set, lists only those that are, or only those that are not.
	Enabled *bool `json:"enabled,omitempty"`
	// Prefix is how their names begin.
	Prefix string `json:"prefix,omitempty"`
	// After is a name: only agents behind it are listed.
	After string `json:"after,omitempty"`
	// Limit is the most to give; 0 means all.
	Limit int `json:"limit,omitempty"`
}

// An ApprovalFilter says which requests to list. Empty fields match all.
type ApprovalFilter struct {
	// State is [ApprovalPending] if it is empty; Any lists those of all states.
	State ApprovalState `json:"state,omitempty"`
	Any   bool          `json:"any,omitempty"`
	Tool  string        `json:"tool,omitempty"`
	// User and Agent are who asks.
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
	// After and AfterID are creation and id of a request: only those behind it are
	// listed.
	After   time.Time  `json:"after,omitzero"`
	AfterID ApprovalID `json:"after_id,omitempty"`
	// Limit is the most to give; 0 means all.
	Limit int `json:"limit,omitempty"`
}

// An EventFilter says which events to watch. Empty fields match all.
type EventFilter struct {
	Call CallID `json:"call_id,omitempty"`
	User string `json:"user,omitempty"`
	// Agent is an id.
	Agent string      `json:"agent,omitempty"`
	Tool  string      `json:"tool,omitempty"`
	Types []EventType `json:"types,omitempty"`
	// Marks also yields events without a type, now and then: their Cursor says how
	// far was looked, also where nothing fitted.
	Marks bool `json:"-"`
}

// Agents are kept.
type Agents interface {
	// Agent returns the agent of that name or id, or [CodeNotFound].
	Agent(ctx context.Context, p Principal, ref string) (*Agent, error)
	// AgentList lists the agents of p's organisation, ordered by name.
	AgentList(ctx context.Context, p Principal, f AgentFilter) iter.Seq2[Agent, error]
	// PutAgent adds an agent, or replaces the one of that name if it is what a.If
	// says, and else returns [CodeConflict].
	PutAgent(ctx context.Context, p Principal, a Agent) (*Agent, error)
	// RemoveAgent removes one, or returns [CodeNotFound], or [CodeConflict] if it is
	// not of that revision; empty means any.
	RemoveAgent(ctx context.Context, p Principal, ref, revision string) error
}

// An Approver answers the requests that wait for a person.
type Approver interface {
	// Approval returns a request that p may see, or [CodeNotFound].
	Approval(ctx context.Context, p Principal, id ApprovalID) (*Approval, error)
	// Approvals lists the requests that p may see, oldest first; if f does not say
	// otherwise, those that wait.
	Approvals(ctx context.Context, p Principal, f ApprovalFilter) iter.Seq2[Approval, error]
	// Decide answers one, or returns [CodeConflict] if it is answered already.
	// The call goes on in the background; its record says what became of it.
	Decide(ctx context.Context, p Principal, id ApprovalID, a Answer) (*Approval, error)
}

// A Watcher tells what happens.
type Watcher interface {
	// Watch yields the events that p may see and that fit f, from the one after
	// that [Event.Cursor] on, until ctx ends. 0 means all that are still kept, and
	// less than 0 only those to come.
	Watch(ctx context.Context, p Principal, f EventFilter, after int64) iter.Seq2[Event, error]
}

// Sandboxes keeps how the calls of an organisation run where tools do not say.
type Sandboxes interface {
	// SandboxConfig returns the configuration of that type or id, or
	// [CodeNotFound].
	SandboxConfig(ctx context.Context, p Principal, ref string) (*SandboxConfig, error)
	// SandboxConfigs lists the configurations of p's organisation, ordered by type.
	SandboxConfigs(ctx context.Context, p Principal) iter.Seq2[SandboxConfig, error]
	// PutSandboxConfig adds a configuration, or replaces the one of that type if it
	// is what c.If says, and else returns [CodeConflict].
	PutSandboxConfig(ctx context.Context, p Principal, c SandboxConfig) (*SandboxConfig, error)
	// RemoveSandboxConfig removes one, or returns [CodeNotFound], or [CodeConflict] if
	// it is not of that revision; empty means any.
	RemoveSandboxConfig(ctx context.Context, p Principal, ref, revision string) error
}

// A Meter knows what was used.
type Meter interface {
	// Usage sums up what the calls of p's organisation used, ordered by period.
	Usage(ctx context.Context, p Principal, q UsageQuery) ([]UsageSum, error)
}

// Webhooks has events sent to where an organisation wants them.
type Webhooks interface {
	// Webhook returns one, or [CodeNotFound].
	Webhook(ctx context.Context, p Principal, id WebhookID) (*Webhook, error)
	// WebhookList lists those of p's organisation, ordered by id.
	WebhookList(ctx context.Context, p Principal) iter.Seq2[Webhook, error]
	// PutWebhook adds a webhook, whose id is empty, and returns the secret by which
	// its receiver knows us, which nobody can get again; or it replaces the one of
	// that id if it is what w.If says, and else returns [CodeConflict].
	PutWebhook(ctx context.Context, p Principal, w Webhook) (kept *Webhook, secret string, err error)
	// RemoveWebhook removes one with its dead letters, or returns [CodeNotFound], or
	// [CodeConflict] if it is not of that revision; empty means any.
	RemoveWebhook(ctx context.Context, p Principal, id WebhookID, revision string) error
	WebhookAdmin
}

// A WebhookAdmin lists and redelivers events that could not be delivered.
type WebhookAdmin interface {
	// DeadLetters lists what a webhook could not be sent, oldest first.
	DeadLetters(ctx context.Context, p Principal, id WebhookID) iter.Seq2[DeadLetter, error]
	// Redeliver tries to send dead letters again, now: one, or with an empty id all
	// until one fails. It returns how many were received and are not dead any more.
	Redeliver(ctx context.Context, p Principal, id WebhookID, letter string) (int, error)
}

// An Operator keeps the whole in order.
type Operator interface {
	// CancelAll cancels the calls of an organisation's user or agent, whatever
	// is set in of, and returns how many there were. If others run on another
	// server, it returns [CodeUnavailable] besides.
	CancelAll(ctx context.Context, p Principal, of Principal) (int, error)
	// Stop refuses new calls of everybody until [Operator.Resume], also after a
	// restart. Kill ends those that run; else they may finish.
	Stop(ctx context.Context, p Principal, reason string, kill bool) error
	Resume(ctx context.Context, p Principal) error
}
