package backend

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/chat"
	"haft/internal/modelfile"
	"haft/internal/terminal"
)

// A Memory is all that agents remember.
type Memory struct {
	haft.Memory
	haft.BlockSharer
	haft.Archive
}

// MemoryOf returns the memory of the agents of a system.
func MemoryOf(s System) Memory {
	if r, ok := s.(*Remote); ok {
		return Memory{r.Client.Memory, r.Client.Memory, r.Client.Memory}
	}
	kept := s.(*Local).API.Memory
	return Memory{kept, kept, kept}
}

// ConversationsOf returns the conversations of a system, or says why there are none.
func ConversationsOf(s System) (haft.Conversations, error) {
	if r, ok := s.(*Remote); ok {
		return r.Client.Conversations, nil
	}
	if c := s.(*Local).AgentLoop.Conversations(); c != nil {
		return c, nil
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "this process runs no agents"}
}

// ModelsOf returns the language models of a system.
func ModelsOf(s System) haft.Models {
	if r, ok := s.(*Remote); ok {
		return r.Client.Conversations
	}
	return s.(*Local).AgentLoop
}

// Assistant is the name of the agent of those who name none.
const Assistant = "assistant"

// assistant is how the agent of those who name none is made.
func assistant(tools []string) haft.Agent {
	return haft.Agent{Name: Assistant, Description: "The agent of haft chat", Tools: tools, If: haft.IfNone,
		Instructions: "You are a helpful assistant. Use your tools where they help, and say what you did. Keep " +
			"what is " +
			"worth knowing for later in your memory blocks, and details in the archive."}
}

// offered reports whether the assistant has a tool: those of the organisation, and the built-in ones that need no
// person's care.
func offered(t haft.Tool) bool {
	return !t.Disabled && t.Unavailable == "" && (t.Version.Kind != haft.KindBuiltin || slices.Contains([]string{
		"core_memory_append", "core_memory_replace", "archival_memory_insert", "archival_memory_search",
		"conversation_search", "run_code", "fetch_webpage", "web_search"}, t.Name))
}

// A Talk is a conversation with an agent at a terminal or through pipes.
type Talk struct {
	Agent, Model string
	Resume, JSON bool
	Budget       haft.Budget
	Since        time.Time // when the process began
	In           io.Reader
	Out, Err     io.Writer
}

// Run talks until the person leaves or the input ends.
func (t *Talk) Run(ctx context.Context, s System, p haft.Principal) error {
	talks, err := ConversationsOf(s)
	if err != nil {
		return err
	}
	person := p
	person.Agent = ""
	a, err := t.agent(ctx, s, person)
	if err != nil {
		return err
	}
	as := p
	as.Agent = string(a.ID)
	return chat.Run(ctx, chat.Config{Conversations: talks, Approvals: s, Memory: MemoryOf(s), Agents: s, Principal: as,
		Approver: person, Agent: a.Name, Model: t.Model, Budget: t.Budget, In: t.In, Out: t.Out, Notes: t.Err,
		TTY: terminal.Is(t.In) && terminal.Is(t.Out), Width: func() int { return terminal.Width(t.Out) },
		Colour: os.Getenv("NO_COLOR") == "", JSON: t.JSON, Resume: t.Resume, Since: t.Since})
}

// answered reports why no model answers the assistant.
func (t *Talk) answered(ctx context.Context, s System, p haft.Principal) error {
	list, err := ModelsOf(s).Models(ctx, p)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound { // which is a server without models
		return err
	}
	vendor, _, _ := strings.Cut(t.Model, "/") // of the environment, which has any model of a vendor
	i := slices.IndexFunc(list, func(m haft.Model) bool {
		return m.Name == t.Model || t.Model == "" && m.Default || m.Name == vendor
	})
	why := ""
	switch {
	case err != nil:
		why = haft.MessageOf(err)
	case len(list) == 0:
		why = haft.MessageOf(modelfile.None())
	case i < 0:
		why = "there is no model of that name: name another with --model"
	case list[i].Unavailable != "":
		why = list[i].Unavailable
	default:
		return nil
	}
	return &haft.Error{Code: haft.CodeUnavailable, Message: why}
}

// agent returns the agent to talk to. Whoever names none gets the assistant, which is made the first time.
func (t *Talk) agent(ctx context.Context, s System, p haft.Principal) (*haft.Agent, error) {
	a, err := s.Agent(ctx, p, cmp.Or(t.Agent, Assistant))
	if t.Agent != "" || haft.CodeOf(err) != haft.CodeNotFound {
		return a, err
	}
	if err := t.answered(ctx, s, p); err != nil { // nothing is made for an agent that cannot answer
		return nil, err
	}
	var tools []string
	for tool, err := range s.Tools(ctx, p, haft.ToolFilter{}) {
		if err != nil {
			return nil, err
		}
		if offered(tool) {
			tools = append(tools, tool.Name)
		}
	}
	if a, err = s.PutAgent(ctx, p, assistant(tools)); err != nil {
		return nil, err
	}
	fmt.Fprintf(t.Err, "made the agent %s with %d tools: see haft agent show %s\n", a.Name, len(tools), a.Name)
	memory := MemoryOf(s)
	for label, description := range map[string]string{"human": "What you know of the person you talk to",
		"persona": "Who you are and how you behave"} {
		b, err := memory.AddBlock(ctx, p, haft.Block{Label: label, Description: description})
		if err == nil {
			err = memory.AttachBlock(ctx, p, string(a.ID), b.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("give the agent its memory: %w", err)
		}
	}
	return a, nil
}
