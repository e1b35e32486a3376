package haft

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// AgentID identifies an agent for as long as it exists. It begins with
// [AgentIDPrefix].
type AgentID string

// AgentIDPrefix begins the id of every agent.
const AgentIDPrefix = "ag_"

// IsAgentID reports whether text has the form of the id of an agent. No agent is
// named like that.
func IsAgentID(text string) bool {
	rest, ok := strings.CutPrefix(text, AgentIDPrefix)
	return ok && len(rest) == RandomID && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// An Agent is somebody's program that calls tools. It is part of the [Principal]
// of its calls, by ID.
type Agent struct {
	ID   AgentID `json:"id"`
	Org  string  `json:"org"`
	Name string  `json:"name"`
	// Title is what people call it. Several agents can have the same one, and nothing is decided by it. Empty
	// means Name.
	Title string `json:"title,omitempty"`
	// Description says what it is for.
	Description string `json:"description,omitempty"`
	// Instructions are what its model gets before everything else, and Model is the name of that model.
	Instructions string   `json:"instructions,omitempty"`
	Model        string   `json:"model,omitempty"`
	Tags         []string `json:"tags,omitempty"`
	// Tools are the names of the tools it may call; others do not exist for it.
	Tools []string `json:"tools,omitempty"`
	// Workspace is that of its calls which name none, if their tool takes one: the name of a workspace, or NAME:ro.
	Workspace string `json:"workspace,omitempty"`
	// Sandbox names the sandbox of its calls for which neither call nor tool names one.
	Sandbox string `json:"sandbox,omitempty"`
	// Env is added to the environment of its calls.
	Env map[string]string `json:"env,omitempty"`
	// Rules say in which order it may call its tools.
	Rules []ToolRule `json:"tool_rules,omitempty"`
	// Disabled agents keep their settings, and their calls are refused.
	Disabled bool `json:"disabled,omitempty"`
	// Metadata is what programs keep with it. Nothing is decided by it.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	// CreatedBy is the user who added it.
	CreatedBy string    `json:"created_by,omitempty"`
	Created   time.Time `json:"created_at"`
	Updated   time.Time `json:"updated_at"`
	// If is the revision that the one to be replaced must have, or [IfNone]. It is
	// for writing, and never kept.
	If string `json:"if_revision,omitempty"`
}

// Revision changes with every write.
func (a Agent) Revision() string { return revision(a.Updated) }

// A Model is a language model that agents can be given.
type Model struct {
	// Name is what agents call it, and Model is the name that its vendor gave it.
	Name  string `json:"name"`
	Model string `json:"model"`
	// Provider is whose API it has: openai, anthropic or gemini.
	Provider string `json:"provider,omitempty"`
	// Context is how many tokens it reads; 0 if that is not known.
	Context int `json:"context_tokens,omitempty"`
	// Default is set for the model of agents that name none.
	Default bool `json:"default,omitempty"`
	// Unavailable says why it cannot be used, such as that its key is missing.
	Unavailable string `json:"unavailable,omitempty"`
}

// Is reports whether an agent that names a model so means this one: by its name, by that of its vendor, or by either of
// them after a provider, as in "openai/gpt-4.1". The provider may also be the name of the model, such as "ollama".
func (m Model) Is(name string) bool {
	if name == m.Name || name == m.Model {
		return true
	}
	provider, rest, _ := strings.Cut(name, "/")
	switch provider {
	case "google_ai", "google_vertex":
		provider = "gemini"
	}
	return (rest == m.Name || rest == m.Model) && rest != "" && (provider == m.Provider || provider == m.Name)
}

// Models are the language models of a server.
type Models interface {
	// Models lists them in the order in which they are to be shown. It returns an error if p may not read agents.
	Models(ctx context.Context, p Principal) ([]Model, error)
}

// RuleType names what a [ToolRule] demands.
type RuleType string

// The types of tool rules.
const (
	RuleFirst       RuleType = "run_first"             // before all others
	RuleChildren    RuleType = "constrain_child_tools" // after the tool only its children
	RuleParent      RuleType = "parent_last_tool"      // the children only right after the tool
	RuleConditional RuleType = "conditional"           // the tool's output chooses what follows
	RuleExit        RuleType = "exit_loop"             // the turn ends after the tool
	RuleContinue    RuleType = "continue_loop"         // the turn goes on after the tool
	RuleRequired    RuleType = "required_before_exit"  // the turn cannot end without the tool
	RuleMaxCount    RuleType = "max_count_per_step"    // at most so often in one turn
	RuleApproval    RuleType = "requires_approval"     // a person has to agree
)

// RuleTypes lists every type.
func RuleTypes() []RuleType {
	return []RuleType{
		RuleFirst, RuleChildren, RuleParent, RuleConditional, RuleExit,
		RuleContinue, RuleRequired, RuleMaxCount, RuleApproval,
	}
}

// A ToolRule constrains the order of an agent's calls within one turn. Which
// fields count depends on Type.
type ToolRule struct {
	Type RuleType `json:"type"`
	Tool string   `json:"tool_name"`
	// Args are arguments that replace those of the model (run_first).
	Args map[string]json.RawMessage `json:"args,omitempty"`
	// Children are tools (constrain_child_tools, parent_last_tool).
	Children []string `json:"children,omitempty"`
	// ChildArgs prefill the arguments of children (constrain_child_tools).
	ChildArgs []ChildArgs `json:"child_arg_nodes,omitempty"`
	// Outputs maps what the tool gave to the tool that follows (conditional).
	Outputs map[string]string `json:"child_output_mapping,omitempty"`
	// Default follows where no output matches (conditional); empty means any.
	Default string `json:"default_child,omitempty"`
	// RequireOutput lets nothing follow where no output matches (conditional).
	RequireOutput bool `json:"require_output_mapping,omitempty"`
	// MaxCount bounds the calls in one turn (max_count_per_step).
	MaxCount int `json:"max_count_limit,omitempty"`
	// Prompt is shown to the model; it decides nothing.
	Prompt string `json:"prompt_template,omitempty"`
}

// ChildArgs are the prefilled arguments of one child.
type ChildArgs struct {
	Name string                     `json:"name"`
	Args map[string]json.RawMessage `json:"args,omitempty"`
}
