package letta

import (
	"haft"
	"haft/internal/lettaid"
)

// The words that Letta's ids begin with.
const (
	toolWord     = lettaid.ToolWord
	agentWord    = lettaid.AgentWord
	orgWord      = "org-"
	userWord     = "user-"
	sandboxWord  = "sandbox-"
	variableWord = "sandbox-env-"
	secretWord   = "agent-env-"
	serverWord   = "mcp_server-"
)

// The beginnings of our ids.
const (
	toolPrefix  = lettaid.ToolPrefix
	agentPrefix = lettaid.AgentPrefix
)

// digestID is an id that is made of what it names.
func digestID(word string, parts ...string) string { return lettaid.Digest(word, parts...) }

// readID reads an id of Letta's form, or one of ours. Made says that it is the digest of one.
// The error is what a client gets for an id that cannot be one.
func readID(word, prefix, s string) (id string, isMade bool, err error) {
	id, isMade, ok := lettaid.Read(word, prefix, s)
	if !ok {
		err = unprocessable("an id here is %q and a UUID of version 4", word)
	}
	return id, isMade, err
}

// toolID is Letta's id of a tool.
func toolID(id haft.ToolID) string { return lettaid.Tool(id) }

// agentID is Letta's id of an agent.
func agentID(id haft.AgentID) string { return lettaid.Agent(id) }
