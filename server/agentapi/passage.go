package agentapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"haft"
	"haft/server"
)

// PassageBody describes a passage to add.
type PassageBody struct {
	Text string   `json:"text" minLength:"1" maxLength:"100000"`
	Tags []string `json:"tags,omitempty" maxItems:"50" maxLength:"100"`
}

// passages registers the operations on the archives of agents.
func (a *Resource) passages(ops *server.Operations) {
	at := endpoints("passages", a.cfg.Archive != nil, "archive of agents")
	server.Handle(ops, at("GET /v1/agents/{agent}/passages", "list-passages",
		"List passages of the archive of an agent by time, or search them", haft.AgentsRead), a.listPassages)
	add := at("POST /v1/agents/{agent}/passages", "add-passage", "Add a passage to the archive of an agent",
		haft.AgentsWrite)
	add.Status, add.Conflicts = http.StatusCreated, true
	server.Handle(ops, add, a.addPassage)
	server.Handle(ops, at("DELETE /v1/agents/{agent}/passages/{id}", "remove-passage",
		"Remove a passage from the archive of an agent", haft.AgentsWrite),
		func(ctx context.Context, who server.Identity, in *passageRef) (*struct{}, error) {
			return nil, a.cfg.Archive.RemovePassage(ctx, who.Principal, in.Agent, in.ID)
		})
	server.Handle(ops, at("GET /v1/agents/{agent}/passages/tags", "list-passage-tags",
		"List the tags of the passages of an agent", haft.AgentsRead),
		func(ctx context.Context, who server.Identity, in *server.AgentRef) (*listed[string], error) {
			return all(a.cfg.Archive.PassageTags(ctx, who.Principal, in.Agent))
		})
}

type passageRef struct {
	server.AgentRef
	ID haft.PassageID `path:"id" maxLength:"200" doc:"The id of the passage."`
}

type listPassages struct {
	server.AgentRef
	server.Paging
	Query   string         `query:"query" maxLength:"1000" doc:"Words; the passages that fit best come first, on one page."`
	Tags    []string       `query:"tags" maxItems:"50" maxLength:"100" doc:"Tags of which they have one, with commas between."`
	AllTags bool           `query:"all_tags" doc:"They have all of the tags."`
	Since   time.Time      `query:"since"`
	Till    time.Time      `query:"till"`
	After   haft.PassageID `query:"after" maxLength:"200" doc:"An id: only passages behind it are listed. The cursor of a page does the same."`
	Newest  bool           `query:"newest" doc:"The newest come first."`
}

func (a *Resource) listPassages(ctx context.Context, who server.Identity,
	in *listPassages) (*server.Listed[haft.Passage], error) {
	if err := onePage(in.Query, in.Paging, in.After != ""); err != nil {
		return nil, err
	}
	return server.FetchPage(in.Paging, maxPage, "passages", func(p haft.Passage) string { return string(p.ID) },
		func(after string, limit int) ([]haft.Passage, error) {
			if after != "" && in.Query != "" {
				return nil, nil // a search has one page
			}
			return a.cfg.Archive.Passages(ctx, who.Principal, in.Agent, haft.PassageFilter{Query: in.Query,
				Tags: in.Tags, AllTags: in.AllTags, Since: in.Since, Till: in.Till,
				After: cmp.Or(haft.PassageID(after), in.After), Newest: in.Newest, Limit: few(in.Query, limit)})
		})
}

type addPassage struct {
	server.AgentRef
	Body PassageBody
}

func (a *Resource) addPassage(ctx context.Context, who server.Identity, in *addPassage) (*shown[haft.Passage], error) {
	return show(a.cfg.Archive.AddPassage(ctx, who.Principal, in.Agent, in.Body.Text, in.Body.Tags))
}
