package letta

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"haft"
)

// blockHandlers serve the routes of blocks of memory. Their ids are those of Haft.
type blockHandlers struct {
	memory haft.Memory // nil if the server has none
	share  haft.BlockSharer
}

// has reports whether the server keeps blocks.
func (h blockHandlers) has() bool { return h.memory != nil && h.share != nil }

// noMemory is the name of what is missing in a server without memory.
const noMemory = "memory of agents"

// maxWalk is how many blocks are looked at for one list.
const maxWalk = 10_000

// pageSize is how many items of memory one request to the service returns at most.
const pageSize = 100

// A wireBlock is a block in Letta's form.
type wireBlock struct {
	ID          haft.BlockID   `json:"id"`
	Label       string         `json:"label"`
	Value       string         `json:"value"`
	Limit       int            `json:"limit"`
	Description *string        `json:"description"`
	ReadOnly    bool           `json:"read_only"`
	IsTemplate  bool           `json:"is_template"`
	Template    *string        `json:"template_name"`
	Tags        []string       `json:"tags"`
	Metadata    map[string]any `json:"metadata"`
}

// showBlock converts a block.
func showBlock(b haft.Block) wireBlock {
	w := wireBlock{ID: b.ID, Label: b.Label, Value: b.Value, Limit: b.Limit, ReadOnly: b.ReadOnly, Tags: []string{},
		Metadata: map[string]any{"haft": map[string]any{"version": b.Version}}}
	if b.Description != "" {
		w.Description = &b.Description
	}
	return w
}

// blockBody describes a block to write. Fields that are not here are ignored, as they are in agents.
type blockBody struct {
	Label       *string `json:"label"`
	Value       *string `json:"value"`
	Limit       *int    `json:"limit"`
	Description *string `json:"description"`
	ReadOnly    *bool   `json:"read_only"`
}

// UnmarshalJSON implements [json.Unmarshaler]: unknown fields of blocks are accepted wherever blocks are.
func (b *blockBody) UnmarshalJSON(raw []byte) error {
	type plain blockBody
	return json.Unmarshal(raw, (*plain)(b))
}

// block is the block that a body describes.
func (b blockBody) block() (haft.Block, error) {
	if b.Label == nil || b.Value == nil {
		return haft.Block{}, unprocessable("body label, value: one of them is missing")
	}
	one := haft.Block{Label: *b.Label, Value: *b.Value}
	setIf(&one.Limit, b.Limit)
	setIf(&one.Description, b.Description)
	setIf(&one.ReadOnly, b.ReadOnly)
	return one, nil
}

// ofAgent shows the blocks of an agent.
func (h blockHandlers) ofAgent(ctx context.Context, p haft.Principal, a haft.Agent) ([]wireBlock, error) {
	list := []wireBlock{}
	if !h.has() {
		return list, nil
	}
	err := h.eachOf(ctx, p, a, func(b haft.Block) { list = append(list, showBlock(b)) })
	return list, err
}

// eachOf calls use for each block of an agent. A list of large blocks is short: only an empty one is the last.
func (h blockHandlers) eachOf(ctx context.Context, p haft.Principal, a haft.Agent, use func(haft.Block)) error {
	f := haft.BlockFilter{Agent: string(a.ID), Limit: haft.MaxBlocks}
	for {
		list, err := h.memory.Blocks(ctx, p, f)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, b := range list {
			f.After = b.ID
			use(b)
		}
	}
}

// described returns the blocks that the body of an agent describes, if it can have them and those that it names.
func (h blockHandlers) described(b agentBody) ([]haft.Block, error) {
	n := len(b.Blocks)
	if b.BlockIDs != nil {
		n += len(*b.BlockIDs)
	}
	switch {
	case n > haft.MaxBlocks:
		return nil, unprocessable("memory_blocks, block_ids: an agent has at most %d blocks", haft.MaxBlocks)
	case n > 0 && !h.has():
		return nil, missing(noMemory)
	}
	var blocks []haft.Block
	for _, body := range b.Blocks {
		one, err := body.block()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(blocks, func(other haft.Block) bool { return other.Label == one.Label }) {
			return nil, unprocessable("memory_blocks: two blocks have the same label")
		}
		blocks = append(blocks, one)
	}
	return blocks, nil
}

// addTo adds blocks to an agent, and those that have these ids.
func (h blockHandlers) addTo(ctx context.Context, q *request, agent haft.AgentID, blocks []haft.Block,
	named *[]haft.BlockID, made *undo) error {
	var ids []haft.BlockID
	setIf(&ids, named)
	ids = slices.Clone(ids)
	p := q.who.Principal
	for _, one := range blocks {
		kept, err := h.memory.AddBlock(ctx, p, one)
		if kept != nil { // also if it could not be written down in the audit log
			*made = append(*made, func(ctx context.Context) error { return h.memory.RemoveBlock(ctx, p, kept.ID) })
		}
		if err != nil {
			return err
		}
		ids = append(ids, kept.ID)
	}
	for _, id := range ids {
		if err := h.share.AttachBlock(ctx, p, string(agent), id); err != nil {
			return err
		}
	}
	return nil
}

// setBlocks gives an agent the blocks of these ids and no others. Made gets what takes back each change.
func (h blockHandlers) setBlocks(ctx context.Context, q *request, a haft.Agent, ids []haft.BlockID,
	made *undo) error {
	if !h.has() {
		return missing(noMemory)
	}
	var have []haft.BlockID
	if err := h.eachOf(ctx, q.who.Principal, a, func(b haft.Block) { have = append(have, b.ID) }); err != nil {
		return err
	}
	type sharer = func(ctx context.Context, p haft.Principal, agent string, id haft.BlockID) error
	p, agent := q.who.Principal, string(a.ID)
	change := func(do, back sharer, list, without []haft.BlockID) error {
		for _, id := range list {
			if slices.Contains(without, id) {
				continue
			}
			if err := do(ctx, p, agent, id); err != nil {
				return err
			}
			*made = append(*made, func(ctx context.Context) error { return back(ctx, p, agent, id) })
		}
		return nil
	}
	if err := change(h.share.DetachBlock, h.share.AttachBlock, have, ids); err != nil {
		return err
	}
	return change(h.share.AttachBlock, h.share.DetachBlock, ids, have)
}

// pathBlock is the block that the path names by its id.
func (h blockHandlers) pathBlock(ctx context.Context, q *request) (*haft.Block, error) {
	return h.memory.Block(ctx, q.who.Principal, haft.BlockID(q.PathValue("block")))
}

// labelled is the block of an agent that the path names by its label.
func (h blockHandlers) labelled(ctx context.Context, q *request, a haft.Agent) (*haft.Block, error) {
	list, err := h.memory.Blocks(ctx, q.who.Principal,
		haft.BlockFilter{Agent: string(a.ID), Label: q.PathValue("label"), Limit: 1})
	if err == nil && len(list) == 0 {
		err = notFound("the agent has no block with that label")
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

func (h blockHandlers) createBlock(ctx context.Context, q *request, b blockBody) (any, error) {
	one, err := b.block()
	if err != nil {
		return nil, err
	}
	kept, err := h.memory.AddBlock(ctx, q.who.Principal, one)
	if err != nil {
		return nil, err
	}
	return showBlock(*kept), nil
}

// changeBlock changes a block as the body says.
func (h blockHandlers) changeBlock(ctx context.Context, q *request, one haft.Block) (any, error) {
	var b blockBody
	if err := q.read(&b); err != nil {
		return nil, err
	}
	kept, err := h.memory.ChangeBlock(ctx, q.who.Principal, one.ID, haft.BlockChange{Label: b.Label, Value: b.Value,
		Description: b.Description, Limit: b.Limit, ReadOnly: b.ReadOnly})
	if err != nil {
		return nil, err
	}
	return showBlock(*kept), nil
}

func (h blockHandlers) deleteBlock(ctx context.Context, q *request, b haft.Block) (any, error) {
	return nil, h.memory.RemoveBlock(ctx, q.who.Principal, b.ID)
}

// wantedBlocks yields the blocks that a query wants in the order of their ids, which is that of their creation.
func (h blockHandlers) wantedBlocks(ctx context.Context, q *request, after string,
	yield func(haft.Block) bool) error {
	query := q.URL.Query()
	f := haft.BlockFilter{Label: query.Get("label"), After: haft.BlockID(after), Limit: pageSize}
	fits := func(name, text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(query.Get(name)))
	}
	for n := 0; n < maxWalk; {
		list, err := h.memory.Blocks(ctx, q.who.Principal, f)
		if err != nil {
			return err
		}
		for _, b := range list {
			f.After, n = b.ID, n+1
			if fits("label_search", b.Label) && fits("value_search", b.Value) &&
				fits("description_search", b.Description) && !yield(b) {
				return nil
			}
		}
		if len(list) == 0 {
			return nil
		}
	}
	return unprocessable("there are more than %d blocks: give a label, or ask for them in ascending order", maxWalk)
}

// listBlocks lists blocks, oldest first unless the query says otherwise.
func (h blockHandlers) listBlocks(ctx context.Context, q *request) (any, error) {
	query := q.URL.Query()
	pg, err := paging(query, 50)
	if err != nil {
		return nil, err
	}
	if len(query["tags"]) > 0 || query.Get("name") != "" {
		return []wireBlock{}, nil // no block has them
	}
	if pg.oldest = query.Get("order") != "desc"; pg.oldest && pg.before == "" {
		part, size := make([]wireBlock, 0, min(pg.limit, pageSize)), 0
		err := h.wantedBlocks(ctx, q, pg.after, func(b haft.Block) bool {
			part, size = append(part, showBlock(b)), size+len(b.Value)
			return len(part) < pg.limit && size < maxPageBytes
		})
		return part, err
	}
	var all []item[haft.BlockID] // without the values, of which there may be many
	err = h.wantedBlocks(ctx, q, "", func(b haft.Block) bool {
		all = append(all, item[haft.BlockID]{b.Created, string(b.ID), b.ID})
		return true
	})
	if err != nil {
		return nil, err
	}
	ids, err := cut(pg, all, among(all, notFound("there is no block with that id")))
	if err != nil {
		return nil, err
	}
	return within(pg, ids, func(id haft.BlockID) (any, error) {
		b, err := h.memory.Block(ctx, q.who.Principal, id)
		if err != nil {
			return nil, err
		}
		return showBlock(*b), nil
	})
}

func (h blockHandlers) countBlocks(ctx context.Context, q *request) (any, error) {
	n := 0
	err := h.wantedBlocks(ctx, q, "", func(haft.Block) bool { n++; return true })
	return n, err
}

// agentBlocks lists the blocks of an agent.
func (h blockHandlers) agentBlocks(ctx context.Context, q *request, a haft.Agent) (any, error) {
	pg, err := paging(q.URL.Query(), haft.MaxBlocks)
	if err != nil {
		return nil, err
	}
	var all []item[wireBlock]
	if err := h.eachOf(ctx, q.who.Principal, a, func(b haft.Block) {
		all = append(all, item[wireBlock]{b.Created, string(b.ID), showBlock(b)})
	}); err != nil {
		return nil, err
	}
	part, err := cut(pg, all, among(all, notFound("the agent has no block with that id")))
	if err != nil {
		return nil, err
	}
	return within(pg, part, func(b wireBlock) (any, error) { return b, nil })
}

// shareBlock attaches the block of the path to an agent or detaches it, and shows the agent.
func (h agentHandlers) shareBlock(how func(ctx context.Context, p haft.Principal, agent string,
	id haft.BlockID) error) handler {
	return withFound(h.pathAgent, func(ctx context.Context, q *request, a haft.Agent) (any, error) {
		if err := how(ctx, q.who.Principal, string(a.ID), haft.BlockID(q.PathValue("block"))); err != nil {
			return nil, err
		}
		return h.showAgent(ctx, q, a)
	})
}

// blockAgents lists the agents that have the block of the path.
func (h agentHandlers) blockAgents(ctx context.Context, q *request) (any, error) {
	pg, err := paging(q.URL.Query(), 50, byUpdate)
	if err != nil {
		return nil, err
	}
	ids, err := h.blocks.share.BlockAgents(ctx, q.who.Principal, haft.BlockID(q.PathValue("block")))
	if err != nil {
		return nil, err
	}
	var all []item[haft.AgentID]
	for _, id := range ids {
		a, err := h.agents.Agent(ctx, q.who.Principal, string(id))
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, agentItem(*a, q.URL.Query()))
	}
	return h.pageOfAgents(ctx, q, pg, all)
}
