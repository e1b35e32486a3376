package haft

import (
	"context"
	"time"
)

// BlockID identifies a block of memory. It begins with "block-".
type BlockID string

// A Block is a text that an agent has before it in every request to its model, and that tools can change. Several
// agents can have the same one.
type Block struct {
	ID  BlockID `json:"id"`
	Org string  `json:"org"`
	// Label is what tools call it. An agent has no two blocks of one label.
	Label       string `json:"label"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
	// Limit is how many characters the value may have at most.
	Limit    int       `json:"limit"`
	ReadOnly bool      `json:"read_only,omitempty"`
	Created  time.Time `json:"created_at"`
	Updated  time.Time `json:"updated_at"`
	// Version counts the writes. One that replaces another version than the last is refused.
	Version int64 `json:"version"`
}

// The bounds of blocks.
const (
	DefaultBlockLimit = 100_000
	MaxBlockLimit     = 1_000_000
	MaxBlocks         = 100   // of one agent
	MaxBlockAgents    = 1_000 // that have one block
)

// A BlockChange says what is to become of a block: fields that are nil stay. Version is the one that it replaces, or 0
// for whatever there is.
type BlockChange struct {
	Label       *string `json:"label,omitempty"`
	Value       *string `json:"value,omitempty"`
	Description *string `json:"description,omitempty"`
	Limit       *int    `json:"limit,omitempty"`
	ReadOnly    *bool   `json:"read_only,omitempty"`
	Version     int64   `json:"version,omitempty"`
}

// A BlockFilter selects blocks: those of an agent, of a label, after another in the order of their ids.
type BlockFilter struct {
	Agent string
	Label string
	After BlockID
	Limit int
}

// PassageID identifies a passage. It begins with "passage-".
type PassageID string

// A Passage is a text in the archive of an agent, which it finds by search.
type Passage struct {
	ID      PassageID `json:"id"`
	Agent   AgentID   `json:"agent_id"`
	Text    string    `json:"text"`
	Tags    []string  `json:"tags,omitempty"`
	Created time.Time `json:"created_at"`
	// Score is how well it fits a search, the best first.
	Score float64 `json:"score,omitempty"`
}

// The bounds of passages.
const (
	MaxPassage     = 100_000 // characters
	MaxPassageTags = 50
	MaxPassages    = 1_000_000 // of one agent
	MaxSearchTags  = 10        // that a search names
)

// MaxMemoryBytes bounds the passages and messages of one agent.
const MaxMemoryBytes = 1 << 30

// A PassageFilter selects passages of an agent. Without a query they are in the order of their times.
type PassageFilter struct {
	Query string
	Tags  []string
	// AllTags demands all of Tags, and not one. Of the tag that the fewest passages have, 2,000 are looked at.
	AllTags     bool
	Since, Till time.Time
	After       PassageID
	Newest      bool
	Limit       int
}

// A Memory keeps the blocks of agents. Agents are named by id or name.
type Memory interface {
	AddBlock(ctx context.Context, p Principal, b Block) (*Block, error)
	Block(ctx context.Context, p Principal, id BlockID) (*Block, error)
	Blocks(ctx context.Context, p Principal, f BlockFilter) ([]Block, error)
	ChangeBlock(ctx context.Context, p Principal, id BlockID, c BlockChange) (*Block, error)
	RemoveBlock(ctx context.Context, p Principal, id BlockID) error
}

// A BlockSharer says which agents have which blocks.
type BlockSharer interface {
	// AttachBlock and DetachBlock can be done twice.
	AttachBlock(ctx context.Context, p Principal, agent string, id BlockID) error
	DetachBlock(ctx context.Context, p Principal, agent string, id BlockID) error
	// BlockAgents are the agents that have a block.
	BlockAgents(ctx context.Context, p Principal, id BlockID) ([]AgentID, error)
}

// An Archive keeps the passages of agents.
type Archive interface {
	AddPassage(ctx context.Context, p Principal, agent string, text string, tags []string) (*Passage, error)
	Passages(ctx context.Context, p Principal, agent string, f PassageFilter) ([]Passage, error)
	RemovePassage(ctx context.Context, p Principal, agent string, id PassageID) error
	PassageTags(ctx context.Context, p Principal, agent string) ([]string, error)
}
