package letta

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"haft"
)

// noModel is what is missing in a server without models.
const noModel = "language model: its operator names one with haft serve --models"

// maxModelNames is how many models an error lists.
const maxModelNames = 20

// handleOf is Letta's name of a model, PROVIDER/NAME.
func handleOf(m haft.Model) string {
	if strings.Contains(m.Name, "/") || m.Provider == "" {
		return m.Name
	}
	return m.Provider + "/" + m.Model
}

// checkModel refuses the name of a model that the server does not have. An empty one is the default.
func (h agentHandlers) checkModel(ctx context.Context, q *request, name string) error {
	if h.models == nil || name == "" {
		return nil
	}
	list, err := h.models.Models(ctx, q.who.Principal)
	if err != nil || slices.ContainsFunc(list, func(m haft.Model) bool { return m.Is(name) }) {
		return err
	}
	var names []string
	for _, m := range list[:min(len(list), maxModelNames)] {
		names = append(names, fmt.Sprintf("%s (%s)", m.Name, handleOf(m)))
	}
	return notFound("model: this server has no model of that name; it has " + strings.Join(names, ", "))
}

// A wireModel is a model in Letta's form.
type wireModel struct {
	Handle   string `json:"handle"`
	Name     string `json:"name"`
	Display  string `json:"display_name"`
	Provider string `json:"provider_type"`
	Window   int    `json:"max_context_window"`
	Kind     string `json:"model_type"`
	// Older clients read these.
	Model     string `json:"model"`
	Endpoint  string `json:"model_endpoint_type"`
	OldWindow int    `json:"context_window"`
}

// listModels lists the models of the server.
func (h agentHandlers) listModels(ctx context.Context, q *request) (any, error) {
	list, err := h.models.Models(ctx, q.who.Principal)
	if err != nil {
		return nil, err
	}
	all := []wireModel{}
	for _, m := range list {
		provider := m.Provider
		if provider == "gemini" {
			provider = "google_ai"
		}
		all = append(all, wireModel{handleOf(m), m.Model, m.Name, provider, m.Context, "llm", m.Model, provider,
			m.Context})
	}
	return all, nil
}

// listTags lists the tags of agents by name.
func (h agentHandlers) listTags(ctx context.Context, q *request) (any, error) {
	query := q.URL.Query()
	pg, err := paging(query, 50, "name")
	if err != nil {
		return nil, err
	}
	pg.oldest = query.Get("order") != "desc"
	part := strings.ToLower(query.Get("name") + query.Get("query_text"))
	seen, all := map[string]bool{}, []item[string](nil)
	for a, err := range h.agents.AgentList(ctx, q.who.Principal, haft.AgentFilter{}) {
		if err != nil {
			return nil, err
		}
		for _, tag := range a.Tags {
			if !seen[tag] && strings.Contains(strings.ToLower(tag), part) {
				seen[tag], all = true, append(all, item[string]{id: tag, value: tag})
			}
		}
	}
	return cut(pg, all, func(tag string) (item[string], error) { return item[string]{id: tag}, nil })
}
