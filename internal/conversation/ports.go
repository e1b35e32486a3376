package conversation

import (
	"context"
	"io"

	"haft"
	"haft/internal/authority"
	"haft/internal/model"
)

// Turns keeps turns and their messages. Each sender has one turn of an agent at a time. Every method is one
// transaction.
type Turns interface {
	// BeginTurn begins a turn of t.Agent for t.Principal that owner runs, with its first message. It keeps Model,
	// Budget, Parent and Depth of t; the rest is the store's to say. If that principal has sent the agent a message
	// with this key before, it returns the turn of that message, and false. It returns [haft.CodeConflict] if the
	// principal has another turn of the agent that has not ended.
	BeginTurn(ctx context.Context, owner string, t haft.Turn, key string, first haft.Message) (turn *haft.Turn,
		begun bool, err error)
	// AdvanceTurn keeps how a turn stands, with further messages of it, and returns these as they are kept, with their
	// numbers. If the turn has ended or is not owner's it keeps nothing and returns [haft.CodeConflict].
	AdvanceTurn(ctx context.Context, owner string, t haft.Turn, list ...haft.Message) (kept []haft.Message, err error)
}

// Claims say which process runs which turn.
type Claims interface {
	// ClaimTurns gives owner turns that have not ended and whose process lives no more, a bounded number at a time.
	ClaimTurns(ctx context.Context, owner string) ([]haft.Turn, error)
	// OpenTurns lists the turns of owner that have not ended, in the order of their ids, from the one behind after on:
	// a bounded number, and none at the end of the list. CancelledTurns are those of them that are to end.
	OpenTurns(ctx context.Context, owner string, after haft.TurnID) ([]haft.Turn, error)
	CancelledTurns(ctx context.Context, owner string) ([]haft.TurnID, error)
	// CancelTurn notes that a turn is to end. It can be done twice.
	CancelTurn(ctx context.Context, org string, id haft.TurnID) error
}

// A History reads turns and messages, a bounded number at a time. Owner is that of the principal of the turns
// ([haft.Principal.Owner]); an empty one means those of everybody in the organisation.
type History interface {
	Turn(ctx context.Context, org string, id haft.TurnID) (*haft.Turn, error)
	Turns(ctx context.Context, org, owner string, agent haft.AgentID, after haft.TurnID, limit int) ([]haft.Turn, error)
	Messages(ctx context.Context, org, owner string, agent haft.AgentID, f haft.MessageFilter) ([]haft.Message, error)
}

// Agents finds agents.
type Agents interface {
	// Agent returns the agent of that name or id, or [haft.CodeNotFound].
	Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error)
	// Profile returns an agent with all that its model gets. It is asked before every request to the model.
	Profile(ctx context.Context, p haft.Principal, id haft.AgentID) (*Profile, error)
}

// A Profile is an agent as its model needs it.
type Profile struct {
	Agent        haft.Agent
	Instructions string
	Model        string
	Blocks       []haft.Block
	// Tools are those of the agent, in the version that calls run now.
	Tools []haft.Tool
}

// Models finds models.
type Models interface {
	// Model returns the model of that name, or [haft.CodeNotFound].
	Model(ctx context.Context, p haft.Principal, name string) (*Model, error)
}

// A Generator asks models. [model.Client] is one.
type Generator interface {
	Generate(ctx context.Context, req model.Request, emit func(model.Chunk)) (*model.Answer, error)
}

// A Model is a model with its bounds and prices.
type Model struct {
	Generator
	// Name is the vendor's, and Provider that of OpenTelemetry for the vendor.
	Name, Provider string
	// Context is how many tokens a request and its answer may have, and MaxOutput the answer.
	Context, MaxOutput int
	// Input, Cached and Output are prices of a million tokens, in millionths of the unit. Without a price for cached
	// ones they cost what others do.
	Input, Cached, Output int64
	// Images are the types of the images that it is sent; none if it sees no images.
	Images []string
}

// Calls are made by the engine.
type Calls interface {
	// Call runs a call to its end, or until it waits for a person. It returns [haft.CodeConflict] if there is a call
	// with its id.
	Call(ctx context.Context, c haft.Call) (*haft.Result, error)
	// Wait returns the result of a call when it has ended or waits for a person, or [haft.CodeNotFound].
	Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error)
	// Cancel stops a call and withdraws its request for approval.
	Cancel(ctx context.Context, p haft.Principal, id haft.CallID) error
	// Seen returns the record of a call as it stands, if one of the actions lets p have it, or [haft.CodeNotFound].
	Seen(ctx context.Context, p haft.Principal, id haft.CallID, actions ...haft.Action) (*haft.Record, error)
}

// Artifacts has the files that calls left.
type Artifacts interface {
	// ArtifactOf returns an artifact of a call, and a reader of its content, or [haft.CodeNotFound] if it is not kept
	// any more. Who may see the record may have its artifacts.
	ArtifactOf(ctx context.Context, rec *haft.Record, name string) (*haft.Artifact, io.ReadSeeker, error)
}

// An Authority decides who may do what. [authority.Rules] is one.
type Authority interface {
	Authorize(p haft.Principal, a haft.Action, res authority.Resource) error
}

// Observe begins a span for the operation invoke_agent, or chat for one request to a model, by the conventions of
// OpenTelemetry for generative AI. The function that it returns ends the span. The engine makes the spans of calls,
// within the context that Observe returns. Provider is that of the model, or empty as long as it is not known.
type Observe = func(ctx context.Context, operation, provider string, t haft.Turn) (within context.Context,
	end func(used model.Usage, stop string, err error))
