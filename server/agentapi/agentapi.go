// Package agentapi has the operations of the HTTP API on what agents remember and on conversations with them: blocks,
// passages, messages, turns and models. It is a [server.Resource], and decides nothing that the interfaces behind it
// decide: who sees which agent, block or turn, and what may be changed.
//
// Only sending a message acts as the agent, by [server.Identity.As]. Everything else is asked by the caller.
package agentapi

import (
	"context"

	"haft"
	"haft/server"
)

// Config is what the operations work on. The operations of a field that is nil answer 404.
type Config struct {
	// Agents finds the agent that a caller acts as. It is needed where Conversations are.
	Agents        haft.Agents
	Memory        haft.Memory
	Blocks        haft.BlockSharer
	Archive       haft.Archive
	Conversations haft.Conversations
	Models        haft.Models
}

// A Resource has the operations.
type Resource struct{ cfg Config }

// New returns the operations on what is in cfg.
func New(cfg Config) *Resource { return &Resource{cfg} }

// maxPage is how many blocks, passages, messages or turns are on one page. They can be large.
const maxPage = 50

// What a server without it lacks.
const (
	noMemory        = "memory of agents"
	noConversations = "conversations with agents: start it with haft serve --models"
)

// endpoints returns what makes the endpoints of one tag. If the server was not given what they need, they say what it
// lacks.
func endpoints(tag string, given bool, lack string) func(pattern, id, summary string, a haft.Action) server.Endpoint {
	if given {
		lack = ""
	}
	return func(pattern, id, summary string, a haft.Action) server.Endpoint {
		return server.Endpoint{Pattern: pattern, ID: id, Tag: tag, Summary: summary, Action: a, Missing: lack}
	}
}

// Register implements [server.Resource].
func (a *Resource) Register(ops *server.Operations) {
	a.blocks(ops)
	a.sharing(ops)
	a.passages(ops)
	a.messages(ops)
	a.turns(ops)
	at := endpoints("models", a.cfg.Models != nil, "language models: start it with haft serve --models")
	server.Handle(ops, at("GET /v1/models", "list-models", "List the language models that agents can be given",
		haft.AgentsRead),
		func(ctx context.Context, who server.Identity, _ *struct{}) (*listed[haft.Model], error) {
			return all(a.cfg.Models.Models(ctx, who.Principal))
		})
}

// A listed answer has a whole list.
type listed[T any] struct{ Body server.Page[T] }

// all answers with a list, unless it could not be had.
func all[T any](list []T, err error) (*listed[T], error) {
	if err != nil {
		return nil, err
	}
	return &listed[T]{server.Page[T]{Data: append([]T{}, list...)}}, nil
}

// stored answers with what was added.
type stored[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// shown answers with what there is.
type shown[T any] struct{ Body T }

// show answers with a value, unless it could not be had.
func show[T any](v *T, err error) (*shown[T], error) {
	if err != nil {
		return nil, err
	}
	return &shown[T]{*v}, nil
}

// onePage reports why a search cannot go on: its best results are on one page.
func onePage(query string, p server.Paging, after bool) error {
	if query != "" && (p.Cursor != "" || after) {
		return &haft.Error{Code: haft.CodeInvalid, Message: "a search has one page: ask for more with limit"}
	}
	return nil
}

// few is how many items to fetch for a page: one more than fit shows that there is another page, which a search does
// not have.
func few(query string, limit int) int {
	if query != "" {
		return limit - 1
	}
	return limit
}
