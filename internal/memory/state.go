package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"haft"
	"haft/internal/jsontree"
)

// The bounds of the state of an agent that a tool gets and may return.
const (
	maxState       = 4 << 20 // bytes
	maxStateDepth  = 6
	maxStateValues = 10_000
)

// A state is what a tool gets of an agent as agent_state. Its parts are named as in Letta. It never has variables or
// secrets.
type state struct {
	ID          haft.AgentID `json:"id"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	System      string       `json:"system"`
	Tags        []string     `json:"tags"`
	Tools       []string     `json:"tools"`
	Memory      stateMemory  `json:"memory"`
}

type stateMemory struct {
	Blocks []stateBlock `json:"blocks"`
}

type stateBlock struct {
	ID          haft.BlockID `json:"id"`
	Label       string       `json:"label"`
	Value       string       `json:"value"`
	Description string       `json:"description"`
	Limit       int          `json:"limit"`
	ReadOnly    bool         `json:"read_only"`
	Version     int64        `json:"version"`
}

// Snapshot returns the state of an agent for a tool.
func (t Tools) Snapshot(ctx context.Context, org string, id haft.AgentID) (json.RawMessage, error) {
	agent, err := t.Agents.Agent(ctx, org, string(id))
	if err != nil {
		return nil, err
	}
	blocks, err := t.Store.Blocks(ctx, org, haft.BlockFilter{Agent: string(agent.ID), Limit: haft.MaxBlocks})
	if err != nil {
		return nil, err
	}
	s := state{ID: agent.ID, Name: agent.Name, Description: agent.Description, System: agent.Instructions,
		Tags: append([]string{}, agent.Tags...), Tools: append([]string{}, agent.Tools...)}
	s.Memory.Blocks = make([]stateBlock, len(blocks))
	for i, b := range blocks {
		s.Memory.Blocks[i] = stateBlock{b.ID, b.Label, b.Value, b.Description, b.Limit, b.ReadOnly, b.Version}
	}
	var doc bytes.Buffer
	e := json.NewEncoder(&doc)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("encode the state of an agent: %w", err)
	}
	if doc.Len() > maxState {
		return nil, wrongState(fmt.Sprintf("the blocks of the agent are larger than %d bytes, too much for a tool "+
			"that takes agent_state", maxState), nil)
	}
	return doc.Bytes(), nil
}

// ApplyState keeps what a tool changed in the state of its agent. before is what [Tools.Snapshot] gave it, and after is
// what it returned: values of blocks that are not read-only may differ, and nothing else. All values are kept or none,
// and none if one of the blocks was changed meanwhile, which is [haft.CodeConflict].
func (t Tools) ApplyState(ctx context.Context, p haft.Principal, agent haft.AgentID,
	before, after json.RawMessage) error {
	self, err := agentOf(ctx, t.Agents, p)
	if err != nil {
		return err
	}
	was, err := readState(before)
	if err != nil {
		return err
	}
	if self.ID != agent {
		return denied("the state is that of another agent")
	}
	is, err := readState(after)
	if err != nil {
		return err
	}
	changed, err := changedBlocks(was, is)
	if err != nil || len(changed) == 0 {
		return err
	}
	labels := make([]string, len(changed))
	for i, b := range changed {
		labels[i] = b.Label
	}
	_, err = t.Store.EditBlocks(ctx, p.Org, agent, labels, func(now []haft.Block) ([]string, error) {
		values := make([]string, len(now))
		for i, b := range changed {
			if now[i].ID != b.ID || now[i].Version != b.Version {
				return nil, &haft.Error{Code: haft.CodeConflict, Message: "a block was changed while the tool ran: " +
					"nothing of what the tool changed is kept, call it again"}
			}
			values[i] = b.Value
		}
		return values, nil
	})
	return err
}

// readState reads a state strictly.
func readState(doc json.RawMessage) (*jsontree.Object, error) {
	tree, err := jsontree.Decode(doc, jsontree.Limits{Bytes: maxState, Depth: maxStateDepth, Values: maxStateValues})
	if err != nil {
		return nil, wrongState("the agent_state that the tool returned cannot be read", err)
	}
	o, ok := tree.(*jsontree.Object)
	if !ok {
		return nil, wrongState("the agent_state that the tool returned is not an object", nil)
	}
	return o, nil
}

// changedBlocks returns the blocks of a state whose values differ in another one, with those values. It changes both.
func changedBlocks(was, is *jsontree.Object) ([]stateBlock, error) {
	var changed []stateBlock
	had, _ := jsontree.At(was, []string{"memory", "blocks"})
	blocks, _ := had.([]any)
	for i, v := range blocks {
		path := []string{"memory", "blocks", strconv.Itoa(i), "value"}
		b, known := v.(*jsontree.Object)
		to, there := jsontree.At(is, path)
		value, isText := to.(string)
		if !known || !there || !isText {
			return nil, wrongState("the agent_state that the tool returned has no value of a block that it had", nil)
		}
		if value == b.String("value") {
			continue
		}
		if b.Value("read_only") != false {
			return nil, denied("the tool changed the block " + b.String("label") + ", which is read-only")
		}
		jsontree.Set(is, path, b.Value("value"))
		version, err := strconv.ParseInt(fmt.Sprint(b.Value("version")), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the version of a block: %w", err)
		}
		changed = append(changed, stateBlock{ID: haft.BlockID(b.String("id")), Label: b.String("label"), Value: value,
			Version: version})
	}
	if !reflect.DeepEqual(jsontree.Plain(was), jsontree.Plain(is)) {
		return nil, wrongState("the tool changed more of agent_state than values of blocks", nil)
	}
	return changed, nil
}

func wrongState(message string, err error) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message, Err: err}
}
