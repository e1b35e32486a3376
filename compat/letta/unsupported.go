package letta

import (
	"net/http"
	"strings"
)

// An absentPart is a part of Letta's API that is not here. docs/letta.md lists its name with the reason. A path that
// ends in /* stands for itself and all that is below, a path without a method for every method.
type absentPart struct {
	name, why string
	paths     string
}

// absentParts are what Letta's clients can ask for and Haft does not have.
func absentParts() []absentPart {
	const tryServer = "add the server, whose metadata_.haft says whether it answers; users log in at it with haft " +
		"mcp-server login"
	return []absentPart{
		{"folders, files and sources", "agents have no folders", "/folders/* /sources/* /agents/{agent}/folders/* " +
			"/agents/{agent}/files/* /agents/{agent}/sources/*"},
		{"conversations", "an agent has one conversation with each user", "/conversations/*"},
		{"groups", "agents send each other messages with their tools", "/groups/* /agents/{agent}/groups/*"},
		{"identities", "agents have no identities: an API key has a user",
			"/identities/* /agents/{agent}/identities/*"},
		{"archives of their own", "an archive belongs to one agent", "/archives/* /agents/{agent}/archives/*"},
		{"searching all archives", "search the archive of one agent", "/passages/*"},
		{"changing passages", "delete the passage and add another",
			"PATCH /agents/{agent}/archival-memory/{passage}"},
		{"changing messages", "messages cannot be changed", "PATCH /agents/{agent}/messages/{message}"},
		{"resetting messages", "conversations are kept: create another agent", "/agents/{agent}/reset-messages"},
		{"messages of all agents", "list the messages of an agent", "/messages/*"},
		{"batches of messages", "send the messages one by one, with async", "/messages/batches/*"},
		{"schedules", "messages cannot be scheduled", "/agents/{agent}/schedule/*"},
		{"summarizing on demand", "conversations are summarised when it is needed", "/agents/{agent}/summarize"},
		{"context and prompt of an agent", "they are made anew for each request to the model",
			"/agents/{agent}/context /agents/{agent}/recompile POST /agents/{agent}/messages/preview-raw-payload"},
		{"searching agents", "list them with query_text, tags or a name", "POST /agents/search"},
		{"variables in memory", "blocks are text without variables", "/agents/{agent}/core-memory/variables"},
		{"templates", "export an agent as an agent file and import it", "/templates/* /agents/{agent}/template " +
			"/agents/{agent}/version-template /agents/{agent}/migrate"},
		{"steps by themselves", "list the steps of one run", "/steps/* /telemetry/*"},
		{"traces of runs", "traces go to the collector of the operator", "/runs/{run}/trace"},
		{"deleting runs", "runs are kept as long as the operator says", "DELETE /runs/{run}"},
		{"jobs", "list the runs", "/jobs/*"},
		{"providers and models of embeddings", "the operator of the server chooses them",
			"/providers/* /models/embedding /models/embeddings"},
		{"projects", "an API key belongs to one organisation", "/projects/*"},
		{"client-side access tokens", "make an API key with haft key add", "/client-side-access-tokens/*"},
		{"environments", "agents run on the server", "/environments/*"},
		{"voice", "agents read and write text", "/voice-beta/*"},
		{"composio", "add its MCP server", "/tools/composio/*"},
		{"generate-tool", "no model writes tools here: write the source, and send it to /v1/tools/",
			"/tools/generate-tool"},
		{"trying an MCP server without adding it", tryServer,
			"/tools/mcp/servers/test /tools/mcp/servers/connect /tools/mcp/oauth/callback /mcp-servers/connect/*"},
	}
}

// absences answer requests for what is not here.
type absences struct {
	gaps    *http.ServeMux
	reasons map[string]error // by pattern
}

func newAbsences() absences {
	a := absences{http.NewServeMux(), map[string]error{}}
	for _, part := range absentParts() {
		method := ""
		for _, path := range strings.Fields(part.paths) {
			if !strings.HasPrefix(path, "/") {
				method = path + " "
				continue
			}
			base, below := strings.CutSuffix(path, "/*")
			patterns := []string{method + Prefix + "/v1" + base}
			if below {
				patterns = append(patterns, patterns[0]+"/{rest...}")
			}
			for _, pattern := range patterns {
				a.gaps.Handle(pattern, http.NotFoundHandler()) // which is only found, and never asked
				a.reasons[pattern] = notHere("not supported here: %s: %s", part.name, part.why)
			}
			method = ""
		}
	}
	return a
}

// unsupported returns why what r asks for is not here, or nil if no client of Letta asks for it.
func (a absences) unsupported(r *http.Request) error {
	_, pattern := a.gaps.Handler(r)
	return a.reasons[pattern]
}
