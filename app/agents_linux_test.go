package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/agents"
	"haft/internal/modelfile"
	"haft/internal/modeltest"
	"haft/schema"
)

// remember is a tool that reads and changes the memory of its agent.
const remember = `
def remember(agent_state, city: str) -> str:
    """Remember where somebody lives.

    Args:
        city: the name of the city
    """
    was = agent_state.memory.get_block("human").value
    agent_state.memory.update_block_value("human", was + " lives in " + city)
    return was
`

// talking opens a service whose model follows a script, in one of the formats.
func talking(t *testing.T, format schema.Form, steps ...modeltest.Step) (*app.Service, *modeltest.Server) {
	t.Helper()
	open(t, app.Config{}) // skips where there is no sandbox
	server := modeltest.Start(t, steps...)
	models, err := modelfile.Parse("models.toml", fmt.Sprintf("default = \"m\"\n[models.m]\nformat = %q\nmodel = "+
		"\"test\"\n"+
		"url = %q\nimages = true\n", format, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Config: app.Config{AllowReduced: true}, Data: t.TempDir(),
		Agents: agents.Config{Models: models}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, server
}

// An agent remembers by a built-in tool and by a tool of its own that runs in the sandbox, and its model is told.
func TestAgent_talks_calls_and_remembers(t *testing.T) {
	for _, format := range []schema.Form{"openai", "openai-responses", "anthropic", "gemini"} {
		t.Run(string(format), func(t *testing.T) {
			s, server := talking(t, format,
				modeltest.Step{Text: "Let me see.", Calls: []haft.ToolCall{
					{ID: "c1", Tool: "core_memory_append",
						Args: json.RawMessage(`{"label":"human","content":"Ann"}`)}}},
				modeltest.Step{Calls: []haft.ToolCall{{ID: "c2", Tool: "remember",
					Args: json.RawMessage(`{"city":"Oslo"}`)}}},
				modeltest.Step{Text: "Noted."})
			ctx, who := t.Context(), root()
			if _, err := s.PutTool(ctx, who, haft.Draft{Kind: haft.KindPython, Source: remember}); err != nil {
				t.Fatal(err)
			}
			a, err := s.PutAgent(ctx, who, haft.Agent{Name: "helper", Instructions: "Be kind.",
				Tools: []string{"core_memory_append", "remember"}})
			if err != nil {
				t.Fatal(err)
			}
			b, err := s.API.Memory.AddBlock(ctx, who, haft.Block{Label: "human", Value: "User:"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.API.Memory.AttachBlock(ctx, who, "helper", b.ID); err != nil {
				t.Fatal(err)
			}
			who.Agent = string(a.ID)
			var said []string
			var last *haft.Turn
			for e, err := range s.AgentLoop.Conversations().Send(ctx, who, "helper", haft.NewMessage{Text: "I am " +
				"Ann, of Oslo"}) {
				if err != nil {
					t.Fatal(err)
				}
				if m := e.Message; m != nil {
					said = append(said, fmt.Sprint(m.Role, " ", m.Name, m.Status))
				}
				if e.Turn != nil {
					last = e.Turn
				}
			}
			if last == nil || last.Status != haft.TurnCompleted {
				t.Fatalf("the turn ended as %+v after %q", last, said)
			}
			want := []string{"user ", "assistant ", "tool core_memory_appendsuccess", "assistant ", "tool " +
				"remembersuccess",
				"assistant "}
			if !slices.Equal(said, want) {
				t.Errorf("said %q", said)
			}
			if b, err = s.API.Memory.Block(ctx, root(), b.ID); err != nil || b.Value != "User:\nAnn lives in Oslo" {
				t.Errorf("the block is %+v, %v", b, err)
			}
			requests := server.Requests()
			system := requests[len(requests)-1].System
			if !strings.Contains(system, "Be kind.") || !strings.Contains(system, "Ann lives in Oslo") {
				t.Errorf("the model was told %q", system)
			}
		})
	}
}

// An agent's file tools and its script work on the same files, through the whole pipeline: policies see the workspace,
// the record has it, and an agent with :ro does not write.
func TestAgent_works_on_files(t *testing.T) {
	s, server := talking(t, "openai",
		modeltest.Step{Calls: []haft.ToolCall{{ID: "c1", Tool: "write_file",
			Args: json.RawMessage(`{"path":"notes/a.txt","content":"tea is green\n"}`)}}},
		modeltest.Step{Calls: []haft.ToolCall{{ID: "c2", Tool: "more"}}},
		modeltest.Step{Calls: []haft.ToolCall{
			{ID: "c3", Tool: "open_files", Args: json.RawMessage(`{"file_requests":[{"file_name":"notes/a.txt"}]}`)},
			{ID: "c4", Tool: "grep_files", Args: json.RawMessage(`{"pattern":"coffee"}`)},
			{ID: "c5", Tool: "semantic_search_files", Args: json.RawMessage(`{"query":"green tea"}`)},
			{ID: "c6", Tool: "list_files"}}},
		modeltest.Step{Text: "Done."})
	ctx, who := t.Context(), root()
	const more = "def more() -> str:\n    \"\"\"Add a line.\"\"\"\n    f = open('/workspace/notes/a.txt', 'a')\n    " +
		"f.write('coffee is black\\n')\n    return 'ok'\n"
	if _, err := s.PutTool(ctx, who, haft.Draft{Kind: haft.KindPython, Source: more}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.API.Workspaces.AddWorkspace(ctx, who, haft.NewWorkspace{Name: "desk", Shared: true}); err != nil {
		t.Fatal(err)
	}
	agent := haft.Agent{Name: "clerk", Workspace: "desk", Tools: []string{"write_file", "more", "open_files",
		"grep_files", "semantic_search_files", "list_files"}}
	a, err := s.PutAgent(ctx, who, agent)
	if err != nil {
		t.Fatal(err)
	}
	who.Agent = string(a.ID)
	results := map[string]string{}
	for e, err := range s.AgentLoop.Conversations().Send(ctx, who, "clerk", haft.NewMessage{Text: "note it"}) {
		if err != nil {
			t.Fatal(err)
		}
		if m := e.Message; m != nil && m.Role == haft.RoleTool {
			results[m.Name] = fmt.Sprint(m.Status, " ", m.Text)
		}
	}
	for tool, want := range map[string]string{"write_file": "Wrote 13 bytes.", "more": "ok",
		"open_files": `1: tea is green`, "grep_files": "coffee is black", "semantic_search_files": "by full text",
		"list_files": "notes/a.txt"} {
		if got := results[tool]; !strings.HasPrefix(got, "success") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if n := len(server.Requests()); n != 4 {
		t.Errorf("the model was asked %d times", n)
	}
	call := func(tool, args string) *haft.Result {
		res, err := s.Call(ctx, haft.Call{Principal: who, Tool: tool, Args: json.RawMessage(args)})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	rec, err := s.Record(ctx, root(), call("list_files", `{}`).Call)
	if err != nil || rec.Call.Workspace == nil || rec.Call.Workspace.Name != "desk" || !rec.Call.Workspace.ReadOnly {
		t.Errorf("the record has %+v, %v", rec, err)
	}
	policy := "version: 1\nrules:\n- {id: all, effect: allow}\n- {id: no, effect: deny, " +
		"tools: [\"tool:write_file\"], workspaces: [desk]}\n"
	if _, err := s.PutPolicy(ctx, root(), false, haft.PolicyText{Text: []byte(policy)}); err != nil {
		t.Fatal(err)
	}
	if res := call("write_file", `{"path":"b","content":""}`); res.Status != haft.StatusDenied {
		t.Errorf("the rule about the workspace does not hold: %s %+v", res.Status, res.Error)
	}
	agent.Workspace = "desk:ro"
	if _, err := s.PutAgent(ctx, root(), agent); err != nil {
		t.Fatal(err)
	}
	if res := call("more", `{}`); res.Status == haft.StatusSuccess {
		t.Error("a script of an agent that only reads has written")
	}
	agent.Workspace = "../x"
	if _, err := s.PutAgent(ctx, root(), agent); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// Many agents append to a block that they share, at once. The block has all of it.
func TestAgents_lose_no_update_of_a_shared_block(t *testing.T) {
	const many = 50
	s, _ := talking(t, "openai")
	ctx, who := t.Context(), root()
	b, err := s.API.Memory.AddBlock(ctx, who, haft.Block{Label: "team", Value: "Notes:"})
	if err != nil {
		t.Fatal(err)
	}
	calls := make([]haft.Call, many)
	for i := range calls {
		a, err := s.PutAgent(ctx, who, haft.Agent{Name: fmt.Sprintf("agent%d", i),
			Tools: []string{"core_memory_append"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.API.Memory.AttachBlock(ctx, who, a.Name, b.ID); err != nil {
			t.Fatal(err)
		}
		p := who
		p.Agent = string(a.ID)
		calls[i] = haft.Call{Principal: p, Tool: "core_memory_append",
			Args: json.RawMessage(fmt.Sprintf(`{"label":"team","content":"line %d"}`, i))}
	}
	var wg sync.WaitGroup
	for _, c := range calls {
		wg.Go(func() {
			if res, err := s.Call(ctx, c); err != nil || res.Status != haft.StatusSuccess {
				t.Errorf("%s: %+v, %v", c.Args, res, err)
			}
		})
	}
	wg.Wait()
	if b, err = s.API.Memory.Block(ctx, who, b.ID); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(strings.SplitSeq(b.Value, "\n"))
	want := []string{"Notes:"}
	for i := range many {
		want = append(want, fmt.Sprintf("line %d", i))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) || b.Version != many+1 {
		t.Errorf("version %d of the block has %d lines: %q", b.Version, len(got), b.Value)
	}
}

// draw is a tool that leaves two images, of which the record of the call has no room for one, and an SVG.
const draw = `
import struct, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def png(side, more=b""):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"\0" * (side + 1) * side)) + more + chunk(b"IEND", b""))

def draw():
    """Draw a plot."""
    open("small.png", "wb").write(png(2))
    open("large.gif", "wb").write(png(2, chunk(b"teXt", b"x" * 2_000_000)))
    open("plot.svg", "w").write("<svg xmlns='http://www.w3.org/2000/svg'/>")
`

// The images that a tool leaves reach the model in each vendor's format, in later turns too, and those of a call that
// was removed are named only.
func TestAgent_sees_images(t *testing.T) {
	for _, format := range []schema.Form{"openai", "openai-responses", "anthropic", "gemini"} {
		t.Run(string(format), func(t *testing.T) {
			s, server := talking(t, format, modeltest.Step{Calls: []haft.ToolCall{{ID: "c1", Tool: "draw"}}},
				modeltest.Step{Text: "Nice."}, modeltest.Step{Text: "As I said."})
			ctx, who := t.Context(), root()
			if _, err := s.PutTool(ctx, who, haft.Draft{Kind: haft.KindPython, Source: draw,
				Name: "draw"}); err != nil {
				t.Fatal(err)
			}
			a, err := s.PutAgent(ctx, who, haft.Agent{Name: "helper", Tools: []string{"draw"}})
			if err != nil {
				t.Fatal(err)
			}
			who.Agent = string(a.ID)
			for _, text := range []string{"draw", "what did you draw?"} {
				for e, err := range s.AgentLoop.Conversations().Send(ctx, who, "helper", haft.NewMessage{Text: text}) {
					if err != nil || e.Turn != nil && e.Turn.Status == haft.TurnFailed {
						t.Fatal(e.Turn, err)
					}
				}
			}
			for i, r := range server.Requests()[1:] {
				if len(r.Images) != 2 || r.Images[0].MIME != "image/png" || r.Images[1].MIME != "image/png" ||
					len(r.Images[0].Data)+len(r.Images[1].Data) < 2_000_000 {
					t.Errorf("request %d has %d images", i+1, len(r.Images))
				}
				if !strings.Contains(string(r.Body), "[image plot.svg, image/svg+xml, 41 bytes: not shown, it is "+
					"no PNG") {
					t.Errorf("request %d says nothing of the SVG", i+1)
				}
			}
		})
	}
}
