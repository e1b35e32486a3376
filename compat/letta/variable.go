package letta

import (
	"context"
	"slices"
	"time"

	"haft"
)

// variableHandlers serve the routes of variables of sandbox configurations.
type variableHandlers struct {
	variables Variables
	sandboxes sandboxHandlers
}

// A Variable is stored for all calls of an organisation. Its value cannot be read.
type Variable struct {
	Name             string
	Created, Updated time.Time
}

// Variables keeps those of organisations.
type Variables interface {
	Variables(ctx context.Context, p haft.Principal) ([]Variable, error)
	// PutVariable stores a value and replaces an existing one.
	PutVariable(ctx context.Context, p haft.Principal, name, value string) error
	RemoveVariable(ctx context.Context, p haft.Principal, name string) error
}

// A sandboxVariable is a variable in Letta's form: it belongs to a sandbox configuration. Its
// value is never shown again.
type sandboxVariable struct {
	ID          string    `json:"id"`
	Key         string    `json:"key"`
	Value       string    `json:"value"`
	Description *string   `json:"description"`
	Org         string    `json:"organization_id"`
	Config      *string   `json:"sandbox_config_id"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
}

// showVariable writes a variable of an organisation.
func showVariable(org string, config *string, v Variable) sandboxVariable {
	return sandboxVariable{
		ID: digestID(variableWord, org, v.Name), Key: v.Name, Org: digestID(orgWord, org), Config: config,
		Created: v.Created.UTC(), Updated: v.Updated.UTC(),
	}
}

// variableBody describes a variable to write. A description is accepted and not stored.
type variableBody struct {
	Key         *string `json:"key"`
	Value       *string `json:"value"`
	Description *string `json:"description"`
}

// createVariable stores a variable. It is the organisation's, whichever of its
// configurations the path names.
func (h variableHandlers) createVariable(ctx context.Context, q *request, b variableBody) (any, error) {
	if b.Key == nil || b.Value == nil {
		return nil, unprocessable("body key, value: one of them is missing")
	}
	c, err := h.sandboxes.pathConfig(ctx, q)
	if err != nil {
		return nil, err
	}
	id := configID(*c)
	return h.putVariable(ctx, q, *b.Key, *b.Value, &id)
}

// putVariable stores a variable and shows it.
func (h variableHandlers) putVariable(ctx context.Context, q *request, name, value string,
	config *string) (any, error) {
	if err := h.variables.PutVariable(ctx, q.who.Principal, name, value); err != nil {
		return nil, err
	}
	all, err := h.variables.Variables(ctx, q.who.Principal)
	if err != nil {
		return nil, err
	}
	v := Variable{Name: name} // if it was removed since
	if i := slices.IndexFunc(all, func(v Variable) bool { return v.Name == name }); i >= 0 {
		v = all[i]
	}
	return showVariable(q.who.Principal.Org, config, v), nil
}

func (h variableHandlers) listVariables(ctx context.Context, q *request, c haft.SandboxConfig) (any, error) {
	pg, err := paging(q.URL.Query(), maxPage)
	if err != nil {
		return nil, err
	}
	list, err := h.variables.Variables(ctx, q.who.Principal)
	if err != nil {
		return nil, err
	}
	config := configID(c)
	var all []item[sandboxVariable]
	for _, v := range list {
		w := showVariable(q.who.Principal.Org, &config, v)
		all = append(all, item[sandboxVariable]{v.Created, w.ID, w})
	}
	return cut(pg, all, among(all, errNoVariable))
}

// errNoVariable is the error for an id of no variable.
var errNoVariable = notFound("there is no variable with that id")

// pathVariable is the variable that the path names.
func (h variableHandlers) pathVariable(ctx context.Context, q *request) (*Variable, error) {
	id := q.PathValue("variable")
	if _, _, err := readID(variableWord, "", id); err != nil {
		return nil, err
	}
	all, err := h.variables.Variables(ctx, q.who.Principal)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if digestID(variableWord, q.who.Principal.Org, v.Name) == id {
			return &v, nil
		}
	}
	return nil, errNoVariable
}

func (h variableHandlers) updateVariable(ctx context.Context, q *request, b variableBody) (any, error) {
	v, err := h.pathVariable(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case b.Value == nil && b.Key != nil && *b.Key != v.Name:
		return nil, invalid("a variable gets another name only with its value, which cannot be read here: send both")
	case b.Value == nil:
		return nil, unprocessable("body value: it is missing")
	case b.Key == nil || *b.Key == v.Name:
		return h.putVariable(ctx, q, v.Name, *b.Value, nil)
	}
	renamed, err := h.putVariable(ctx, q, *b.Key, *b.Value, nil)
	if err != nil {
		return nil, err
	}
	return renamed, h.variables.RemoveVariable(ctx, q.who.Principal, v.Name)
}

func (h variableHandlers) deleteVariable(ctx context.Context, q *request, v Variable) (any, error) {
	return nothing{}, h.variables.RemoveVariable(ctx, q.who.Principal, v.Name)
}
