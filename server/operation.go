package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// A group has the operations on one kind of resource.
type group struct {
	api    *api
	tag    string      // in the document
	read   haft.Action // that GET asks for
	write  haft.Action // that all other methods ask for
	absent error       // why this server cannot answer them; nil if it can
}

// group returns a group without operations.
func (a *api) group(tag string, read, write haft.Action) group {
	return group{api: a, tag: tag, read: read, write: write}
}

// needs makes all operations of the group answer 404 if the server was not given what
// they need. The name says what is missing.
func (g group) needs(has bool, name string) group {
	if !has {
		g.absent = absent(name)
	}
	return g
}

// absent is the error for an operation that needs something that the server was not given.
func absent(name string) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "this server has no " + name}
}

// An operation is one method at one path.
type operation struct {
	group
	method, path, id, summary, description string

	action  haft.Action  // that the credential must allow
	status  int          // of the usual answer; 0 means 200, or 204 without a body
	also    []int        // other statuses with the same body
	errors  []int        // besides those that every operation has
	content mediaTypes   // of the usual answer, where its Go type does not say it
	body    *huma.Schema // of the usual answer as JSON, where its Go type does not say it
}

// mediaTypes are the forms of a body.
type mediaTypes = map[string]*huma.MediaType

// op returns an operation. The pattern is METHOD PATH.
func (g group) op(pattern, id, summary string) operation {
	method, path, _ := strings.Cut(pattern, " ")
	o := operation{group: g, method: method, path: path, id: id, summary: summary, action: g.write}
	if method == http.MethodGet {
		o.action = g.read
	}
	return o
}

// about sets the description.
func (o operation) about(text string) operation {
	o.description = text
	return o
}

// answers sets the statuses of answers with a body; 0 means the usual one.
func (o operation) answers(status int, also ...int) operation {
	o.status, o.also = status, also
	return o
}

// needsAction sets the action that the credential must allow, if it is not that of the group.
func (o operation) needsAction(a haft.Action) operation {
	o.action = a
	return o
}

// conflicts says that the operation can answer 409.
func (o operation) conflicts() operation {
	o.errors = []int{http.StatusConflict}
	return o
}

// conditional says that the operation takes conditions, such as If-Match.
func (o operation) conditional() operation {
	o.errors = []int{http.StatusConflict, http.StatusPreconditionFailed}
	return o
}

// writes sets the forms of the answer.
func (o operation) writes(content mediaTypes) operation {
	o.content = content
	return o
}

// usualErrors are the statuses of errors that every operation has. Every one can be on
// behalf of an agent that does not exist.
func usualErrors(method string) []int {
	usual := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests,
		http.StatusServiceUnavailable, http.StatusUnprocessableEntity}
	if method != http.MethodGet && method != http.MethodDelete {
		usual = append(usual, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return usual
}

// whoKey is the context key under which admit passes the identity to register.
type whoKey struct{}

// actionKey is the key of the action in the metadata of an operation.
const actionKey = "action"

// register adds an operation. Its handler gets the identity of the caller.
func register[I, O any](op operation, handle func(ctx context.Context, who Identity, in *I) (*O, error)) {
	a := op.api
	o := huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Tags: []string{op.tag}, Summary: op.summary,
		Description:   op.description,
		DefaultStatus: op.status, Metadata: map[string]any{actionKey: op.action},
		MaxBodyBytes: -1, BodyReadTimeout: -1, // admit has read it
		SkipValidateBody: op.id == rawOperation,
		Responses:        map[string]*huma.Response{"default": a.problems("Any other problem")},
	}
	bytes := op.id == addFile || op.id == putSessionFile
	if bytes {
		o.RequestBody = &huma.RequestBody{} // to be changed below
	}
	if op.body != nil {
		o.Responses["200"] = &huma.Response{Content: mediaTypes{"application/json": {Schema: op.body}}}
	}
	for _, status := range slices.Concat(usualErrors(op.method), op.errors) {
		o.Responses[strconv.Itoa(status)] = a.problems(http.StatusText(status))
	}
	a.s.routed = append(a.s.routed, Route{op.method, op.path, op.action})
	huma.Register(a.API, o, func(ctx context.Context, in *I) (*O, error) {
		who, ok := ctx.Value(whoKey{}).(Identity)
		if !ok {
			return nil, problem(http.StatusInternalServerError, "internal error")
		}
		err := op.absent
		var out *O
		if err == nil {
			out, err = handle(ctx, who, in)
		}
		if err != nil {
			return nil, a.s.errors.fault(ctx, err)
		}
		return out, nil
	})
	if bytes {
		o.RequestBody.Required = false // a file may be empty; the library wants every body of bytes
	}
	if op.content != nil {
		o.Responses["200"].Content = op.content
	}
	for _, other := range op.also {
		r := *o.Responses[fmt.Sprint(max(op.status, http.StatusOK))]
		r.Description = http.StatusText(other)
		if p := o.Responses[strconv.Itoa(other)]; p != nil { // they differ by their media types
			r.Content = maps.Clone(r.Content)
			maps.Copy(r.Content, p.Content)
		}
		if other == http.StatusNotModified {
			r.Content = nil
		}
		o.Responses[strconv.Itoa(other)] = &r
	}
}

// problems is a response that has a [Problem].
func (a *api) problems(description string) *huma.Response {
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	return &huma.Response{Description: description, Content: mediaTypes{problemType: {Schema: schema}}}
}
