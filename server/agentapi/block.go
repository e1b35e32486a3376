package agentapi

import (
	"cmp"
	"context"
	"net/http"

	"haft"
	"haft/server"
)

// BlockRef names a block in a path.
type BlockRef struct {
	ID haft.BlockID `path:"id" maxLength:"200" doc:"The id of the block."`
}

// BlockBody describes a block to add.
type BlockBody struct {
	Label       string `json:"label" minLength:"1" maxLength:"64" doc:"What tools call it."`
	Value       string `json:"value,omitempty" maxLength:"1000000"`
	Description string `json:"description,omitempty" maxLength:"10000"`
	Limit       int    `json:"limit,omitempty" minimum:"0" maximum:"1000000" doc:"How many characters the value may have; 0 means 100,000."`
	ReadOnly    bool   `json:"read_only,omitempty" doc:"Tools cannot change it."`
}

// ChangeBlockBody changes a block.
type ChangeBlockBody struct {
	Label       *string `json:"label,omitempty" minLength:"1" maxLength:"64"`
	Value       *string `json:"value,omitempty" maxLength:"1000000"`
	Description *string `json:"description,omitempty" maxLength:"10000"`
	Limit       *int    `json:"limit,omitempty" minimum:"1" maximum:"1000000"`
	ReadOnly    *bool   `json:"read_only,omitempty"`
	Version     int64   `json:"version,omitempty" minimum:"0" doc:"The version that it replaces; 0 means whatever there is."`
}

// blocks registers the operations on blocks.
func (a *Resource) blocks(ops *server.Operations) {
	at := endpoints("blocks", a.cfg.Memory != nil, noMemory)
	server.Handle(ops, at("GET /v1/blocks", "list-blocks", "List blocks of memory by id", haft.AgentsRead),
		a.listBlocks)
	add := at("POST /v1/blocks", "add-block", "Add a block", haft.AgentsWrite)
	add.Status, add.Conflicts = http.StatusCreated, true
	server.Handle(ops, add, a.addBlock)
	server.Handle(ops, at("GET /v1/blocks/{id}", "show-block", "Show a block", haft.AgentsRead),
		func(ctx context.Context, who server.Identity, in *BlockRef) (*shown[haft.Block], error) {
			return show(a.cfg.Memory.Block(ctx, who.Principal, in.ID))
		})
	change := at("PATCH /v1/blocks/{id}", "set-block", "Change some of a block", haft.AgentsWrite)
	change.Conflicts = true
	change.About = "With `version` the change is refused with 409 if the block has another one by now."
	server.Handle(ops, change, a.setBlock)
	server.Handle(ops, at("DELETE /v1/blocks/{id}", "remove-block", "Remove a block, from all agents too",
		haft.AgentsWrite), func(ctx context.Context, who server.Identity, in *BlockRef) (*struct{}, error) {
		return nil, a.cfg.Memory.RemoveBlock(ctx, who.Principal, in.ID)
	})
	server.Handle(ops, at("GET /v1/agents/{agent}/blocks", "list-agent-blocks", "List the blocks of an agent by id",
		haft.AgentsRead), a.agentBlocks)
}

// sharing registers the operations that give blocks to agents.
func (a *Resource) sharing(ops *server.Operations) {
	at := endpoints("blocks", a.cfg.Blocks != nil, noMemory)
	server.Handle(ops, at("GET /v1/blocks/{id}/agents", "list-block-agents",
		"List the ids of the agents that have a block", haft.AgentsRead),
		func(ctx context.Context, who server.Identity, in *BlockRef) (*listed[haft.AgentID], error) {
			return all(a.cfg.Blocks.BlockAgents(ctx, who.Principal, in.ID))
		})
	attach := at("PUT /v1/agents/{agent}/blocks/{id}", "attach-block", "Give an agent a block", haft.AgentsWrite)
	attach.Conflicts = true
	server.Handle(ops, attach, func(ctx context.Context, who server.Identity, in *agentBlock) (*struct{}, error) {
		return nil, a.cfg.Blocks.AttachBlock(ctx, who.Principal, in.Agent, in.ID)
	})
	server.Handle(ops, at("DELETE /v1/agents/{agent}/blocks/{id}", "detach-block", "Take a block from an agent",
		haft.AgentsWrite), func(ctx context.Context, who server.Identity, in *agentBlock) (*struct{}, error) {
		return nil, a.cfg.Blocks.DetachBlock(ctx, who.Principal, in.Agent, in.ID)
	})
}

type agentBlock struct {
	server.AgentRef
	BlockRef
}

// BlockPaging is what lists of blocks take.
type BlockPaging struct {
	server.Paging
	Label string       `query:"label" maxLength:"64" doc:"The label that they have."`
	After haft.BlockID `query:"after" maxLength:"200" doc:"An id: only blocks behind it are listed. The cursor of a page does the same."`
}

type listBlocks struct {
	BlockPaging
	Agent string `query:"agent" maxLength:"200" doc:"The name or id of an agent that has them."`
}

type agentBlocks struct {
	server.AgentRef
	BlockPaging
}

func (a *Resource) listBlocks(ctx context.Context, who server.Identity, in *listBlocks) (*server.Listed[haft.Block],
	error) {
	return a.blockPage(ctx, who, in.BlockPaging, in.Agent)
}

func (a *Resource) agentBlocks(ctx context.Context, who server.Identity, in *agentBlocks) (*server.Listed[haft.Block],
	error) {
	return a.blockPage(ctx, who, in.BlockPaging, in.Agent)
}

// blockPage lists the blocks of an agent, or of all if that is empty.
func (a *Resource) blockPage(ctx context.Context, who server.Identity, in BlockPaging,
	agent string) (*server.Listed[haft.Block], error) {
	return server.FetchPage(in.Paging, maxPage, "blocks", func(b haft.Block) string { return string(b.ID) },
		func(after string, limit int) ([]haft.Block, error) {
			return a.cfg.Memory.Blocks(ctx, who.Principal, haft.BlockFilter{Agent: agent, Label: in.Label,
				After: cmp.Or(haft.BlockID(after), in.After), Limit: limit})
		})
}

type addBlock struct{ Body BlockBody }

func (a *Resource) addBlock(ctx context.Context, who server.Identity, in *addBlock) (*stored[haft.Block], error) {
	b := in.Body
	added, err := a.cfg.Memory.AddBlock(ctx, who.Principal, haft.Block{Label: b.Label, Value: b.Value,
		Description: b.Description, Limit: b.Limit, ReadOnly: b.ReadOnly})
	if err != nil {
		return nil, err
	}
	return &stored[haft.Block]{"/v1/blocks/" + string(added.ID), *added}, nil
}

type setBlock struct {
	BlockRef
	Body ChangeBlockBody
}

func (a *Resource) setBlock(ctx context.Context, who server.Identity, in *setBlock) (*shown[haft.Block], error) {
	return show(a.cfg.Memory.ChangeBlock(ctx, who.Principal, in.ID, haft.BlockChange(in.Body)))
}
