package letta

import (
	"context"
	"time"

	"haft"
)

// A Variable is one that is stored for all calls of an organisation. Its value is
// not among what can be known of it.
type Variable struct {
	Name             string
	Created, Updated time.Time
}

// Variables keeps those of organisations.
type Variables interface {
	Variables(ctx context.Context, p haft.Principal) ([]Variable, error)
	// PutVariable stores a value in the place of the one that is there.
	PutVariable(ctx context.Context, p haft.Principal, name, value string) error
	RemoveVariable(ctx context.Context, p haft.Principal, name string) error
}

// A sandboxVariable is one as Letta knows it: it belongs to a sandbox
// configuration. Its value is never shown again.
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

// variables returns what keeps them, and what is kept.
func (d *API) variables(ctx context.Context, q *request) ([]Variable, error) {
	if d.cfg.Variables == nil {
		return nil, missing("stored variables")
	}
	return d.cfg.Variables.Variables(ctx, q.who.Principal)
}

// variableBody is what somebody says of a variable. A description is taken and not
// kept.
type variableBody struct {
	Key         *string `json:"key"`
	Value       *string `json:"value"`
	Description *string `json:"description"`
}

// createVariable stores a variable. It is the organisation's, whichever of its
// configurations the path names.
func (d *API) createVariable(ctx context.Context, q *request) (any, error) {
	var b variableBody
	if err := q.read(&b); err != nil {
		return nil, err
	}
	if b.Key == nil || b.Value == nil {
		return nil, unfit("body key, value: one of them is missing")
	}
	_, c, err := d.pathConfig(ctx, q)
	if err != nil {
		return nil, err
	}
	id := configID(*c)
	return d.putVariable(ctx, q, *b.Key, *b.Value, &id)
}

// putVariable stores a variable and shows what became of it.
func (d *API) putVariable(ctx context.Context, q *request, name, value string, config *string) (any, error) {
	if d.cfg.Variables == nil {
		return nil, missing("stored variables")
	}
	if err := d.cfg.Variables.PutVariable(ctx, q.who.Principal, name, value); err != nil {
		return nil, err
	}
	list, err := d.variables(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		if v.Name == name {
			return showVariable(q.who.Principal.Org, config, v), nil
		}
	}
	return showVariable(q.who.Principal.Org, config, Variable{Name: name}), nil // removed by somebody else since
}

func (d *API) listVariables(ctx context.Context, q *request) (any, error) {
	_, c, err := d.pathConfig(ctx, q)
	if err != nil {
		return nil, err
	}
	pg, err := paging(q.URL.Query(), maxPage)
	if err != nil {
		return nil, err
	}
	list, err := d.variables(ctx, q)
	if err != nil {
		return nil, err
	}
	config := configID(*c)
	places, byID := []place{}, map[string]sandboxVariable{}
	for _, v := range list {
		w := showVariable(q.who.Principal.Org, &config, v)
		places, byID[w.ID] = append(places, place{v.Created, w.ID}), w
	}
	part, err := pg.cut(places, func(id string) (place, error) {
		w, ok := byID[id]
		if !ok {
			return place{}, noVariable()
		}
		return place{w.Created, id}, nil
	})
	all := []sandboxVariable{}
	for _, at := range part {
		all = append(all, byID[at.id])
	}
	return all, err
}

func noVariable() error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no variable with that id"}
}

// pathVariable is the name of the variable that the path names.
func (d *API) pathVariable(ctx context.Context, q *request) (string, error) {
	id := q.PathValue("variable")
	if _, _, err := readID(variableWord, "", id); err != nil {
		return "", unfit("%s", haft.MessageOf(err))
	}
	list, err := d.variables(ctx, q)
	if err != nil {
		return "", err
	}
	for _, v := range list {
		if digestID(variableWord, q.who.Principal.Org, v.Name) == id {
			return v.Name, nil
		}
	}
	return "", noVariable()
}

func (d *API) updateVariable(ctx context.Context, q *request) (any, error) {
	var b variableBody
	if err := q.read(&b); err != nil {
		return nil, err
	}
	name, err := d.pathVariable(ctx, q)
	if err != nil {
		return nil, err
	}
	if b.Key != nil && *b.Key != name {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "a variable keeps its name here: create one of the other name"}
	}
	if b.Value == nil {
		return nil, unfit("body value: it is missing")
	}
	return d.putVariable(ctx, q, name, *b.Value, nil)
}

func (d *API) deleteVariable(ctx context.Context, q *request) (any, error) {
	name, err := d.pathVariable(ctx, q)
	if err != nil {
		return nil, err
	}
	return nothing{}, d.cfg.Variables.RemoveVariable(ctx, q.who.Principal, name)
}
