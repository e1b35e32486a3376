package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"haft"
	"haft/internal/bounds"
)

// limit bounds a field of a request: elements of an array, members of a map and bytes of
// their names, and characters of a text. The text is the field itself, or an element or
// member of it.
type limit struct{ items, members, name, text int }

// limits returns the bounds of fields whose Go types cannot have them in tags: types of
// package haft, which knows nothing of OpenAPI, and values of maps. The key is TYPE.FIELD
// as in the document, or .FIELD for fields of that name in any type. The packages that
// check the values again have the same bounds.
func limits() map[string]limit {
	const (
		paths     = 4096 // PATH_MAX
		label     = 64
		named     = 200        // names and ids of tools
		url, rule = 2048, 2048 // rule: of the network
	)
	return map[string]limit{
		".env":                   {members: 100, name: 128, text: 96 << 10},
		".headers":               {members: 64, name: 256, text: 16 << 10},
		"Annotations.title":      {text: 200},
		"Answer.reason":          {text: 2000},
		"Binding.basic":          {text: 16},
		"Binding.header":         {text: 256},
		"Binding.hosts":          {items: 64, text: rule},
		"Binding.prefix":         {text: 256},
		"Binding.query":          {text: 256},
		"ChildArgs.args":         {members: 100, name: 256},
		"ChildArgs.name":         {text: haft.MaxToolName},
		"Draft.category":         {text: label},
		"Draft.description":      {text: 16 << 10},
		"Draft.file":             {text: named},
		"Draft.files":            {items: haft.MaxToolFiles},
		"Draft.function":         {text: named},
		"Draft.if_digest":        {text: named},
		"Draft.name":             {text: haft.MaxToolName},
		"Draft.named_settings":   {items: 100, text: label},
		"Draft.source_code":      {text: 1 << 20},
		"Draft.tags":             {items: 32, text: label},
		"KeyState.name":          {text: 256},
		"CallWorkspace.name":     {text: 129},
		"CallWorkspace.id":       {text: label},
		"CallWorkspace.origins":  {items: 64, text: label},
		"MCPAnswer.code":         {text: 8 << 10},
		"MCPAnswer.error":        {text: 2000},
		"MCPAnswer.iss":          {text: url},
		"MCPAnswer.state":        {text: 8 << 10},
		"MCPMount.dir":           {text: paths},
		"MCPMount.inside":        {text: paths},
		"MCPOAuth.client_id":     {text: url},
		"MCPOAuth.client_secret": {text: 16 << 10},
		"MCPOAuth.scopes":        {items: 64, text: 256},
		"OAuth.audience":         {text: url},
		"OAuth.client_id":        {text: url},
		"OAuth.grant":            {text: label},
		"OAuth.scope":            {text: url},
		"OAuth.token_url":        {text: url},
		"Output.validators":      {items: 20, text: 2000},
		"Reaction.kinds":         {items: haft.MaxReactionNames, text: label},
		"Reaction.types":         {items: haft.MaxReactionNames, text: 200},
		"Requirements.npm":       {items: 100, text: 300}, "Requirements.pip": {items: 100, text: 300},
		"SandboxTemplate.name": {text: 64}, "SessionWorkspace.name": {text: 129},
		"RunPlanBody.steps":             {items: haft.MaxSteps},
		"Settings.fallback":             {text: 128},
		"Settings.on_error":             {items: haft.MaxReactions},
		"Settings.network":              {items: 64, text: rule},
		"Settings.programs":             {items: 16, text: label},
		"Settings.roles":                {items: 32, text: 128},
		"Settings.sandbox":              {text: 32},
		"Settings.secrets":              {items: 32, text: 128},
		"Step.after":                    {items: haft.MaxSteps, text: label},
		"Step.id":                       {text: label},
		"Step.if":                       {text: 2000},
		"Step.tool":                     {text: named},
		"ToolFile.content":              {text: 1 << 20},
		"ToolFile.content_base64":       {text: (1 << 20) / 3 * 4},
		"ToolFile.path":                 {text: haft.MaxToolFilePath},
		"ToolRule.args":                 {members: 100, name: 256},
		"ToolRule.child_arg_nodes":      {items: 100},
		"ToolRule.child_output_mapping": {members: 100, name: 800, text: haft.MaxToolName},
		"ToolRule.children":             {items: 100, text: haft.MaxToolName},
		"ToolRule.default_child":        {text: haft.MaxToolName},
		"ToolRule.prompt_template":      {text: 2000},
		"ToolRule.tool_name":            {text: haft.MaxToolName},
		"ToolState.category":            {text: label},
		"ToolState.if_revision":         {text: 300},
		"ToolState.metadata":            {members: 100, name: 256},
		"ToolState.tags":                {items: 32, text: label},
	}
}

// The bounds on texts whose form bounds them, which no keyword says.
const (
	maxTime = 64 // characters of a time
	maxEnum = 64 // characters of one of several words
)

// A limiter puts the bounds of limits into the document, from which they are enforced
// twice: by the shapes that it makes of the bodies, before a body is decoded, and by
// the validator of the library.
type limiter struct {
	schemas huma.Registry
	limits  map[string]limit
	made    map[string]*bounds.Shape // by reference, because types refer to themselves
	unused  map[string]bool
}

// bindLimits puts the limits into the document and returns the shapes of JSON bodies by
// operation.
func (a *api) bindLimits() (map[string]*bounds.Shape, error) {
	doc := a.OpenAPI()
	l := &limiter{schemas: doc.Components.Schemas, limits: limits(), made: map[string]*bounds.Shape{},
		unused: map[string]bool{}}
	for name := range l.limits {
		l.unused[name] = true
	}
	shapes := map[string]*bounds.Shape{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, op := range operations(doc.Paths[path]) {
			if op.RequestBody == nil {
				continue
			}
			if m := op.RequestBody.Content["application/json"]; m != nil {
				shapes[op.OperationID] = l.shape(m.Schema)
			}
		}
	}
	for name := range l.unused {
		return nil, fmt.Errorf("the limit on %s is on no field of a request", name)
	}
	return shapes, nil
}

// operations are those of a path.
func operations(item *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}

// shape returns the shape of a schema, or nil if it allows anything.
func (l *limiter) shape(s *huma.Schema) *bounds.Shape {
	name := ""
	if s.Ref != "" {
		name = s.Ref[len("#/components/schemas/"):]
		if made, ok := l.made[name]; ok {
			return made
		}
		s = l.schemas.SchemaFromRef(s.Ref)
	}
	of := &bounds.Shape{}
	if name != "" {
		l.made[name] = of
	}
	switch s.Type {
	case huma.TypeObject:
		l.object(of, s, name)
	case huma.TypeArray:
		if s.MaxItems != nil {
			of.Items = *s.MaxItems
		}
		of.Item = l.shape(s.Items)
	case huma.TypeString:
		switch {
		case s.MaxLength != nil:
			of.Text = *s.MaxLength
		case len(s.Enum) > 0:
			of.Text = maxEnum
		case s.Format == "date-time":
			of.Text = maxTime
		}
	case huma.TypeNumber, huma.TypeInteger, huma.TypeBoolean:
	default:
		if name == "" {
			return nil
		}
	}
	return of
}

// object puts bounds into the fields of an object schema, and fields into its shape.
func (l *limiter) object(of *bounds.Shape, s *huma.Schema, name string) {
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		inner := s.Properties[field]
		key := name + "." + field
		most, ok := l.limits[key]
		if !ok {
			key = "." + field
			most, ok = l.limits[key]
		}
		if ok && most.set(inner) {
			delete(l.unused, key)
		}
		fs := l.shape(inner)
		if fs != nil && ok && inner.Type == huma.TypeObject {
			fs.Name = most.name
		}
		of.Field(field, fs)
	}
	if s.MaxProperties != nil {
		of.Members = *s.MaxProperties
	}
	switch more := s.AdditionalProperties.(type) {
	case bool:
		of.Closed = !more
	case *huma.Schema:
		of.Rest = l.shape(more)
	}
}

// set puts a limit into a schema that has none, and reports whether the schema can have
// one.
func (m limit) set(s *huma.Schema) bool {
	if s.Ref != "" {
		return false
	}
	text := s
	switch s.Type {
	case huma.TypeArray:
		text = s.Items
		if s.MaxItems == nil && m.items > 0 {
			s.MaxItems = &m.items
		}
	case huma.TypeObject:
		text, _ = s.AdditionalProperties.(*huma.Schema)
		if s.MaxProperties == nil && m.members > 0 {
			s.MaxProperties = &m.members
		}
	}
	if text != nil && text.Type == huma.TypeString && text.MaxLength == nil && m.text > 0 {
		text.MaxLength = &m.text
		text.PrecomputeMessages()
	}
	s.PrecomputeMessages()
	return true
}

// checkBounds reports why the body of a request exceeds the limits of its operation,
// before it is decoded. Only this function bounds bodies of the API.
func (s *Server) checkBounds(r *http.Request, operation string) error {
	shape, ok := s.shapes[operation]
	body, whole := r.Body.(*wholeBody)
	if !ok || !whole || len(body.raw) == 0 {
		return nil // it has none, or is no JSON and bounded by what reads it
	}
	if err := r.Context().Err(); err != nil {
		return err // the client has left
	}
	most := bounds.Default()
	if operation == rawOperation {
		most.Values = 0 // it is never decoded as a whole
	}
	if operation == rawOperation && !json.Valid(body.raw) {
		// the library does not look
		return problem(http.StatusBadRequest, "the body cannot be read as JSON, or is missing")
	}
	err := bounds.Check(body.raw, most, shape)
	if err == nil || errors.Is(err, bounds.ErrSyntax) {
		return nil // the decoder says so, and makes nothing of a text before it has seen that it is JSON
	}
	p := problem(http.StatusUnprocessableEntity, "the request does not fit")
	if e, ok := errors.AsType[*haft.Error](err); ok {
		p.Misfits = e.Misfits
	}
	return p
}

// rawOperation is the operation whose body is not decoded but searched: the answer of a
// model, which may have far more than calls.
const rawOperation = "tool-calls"

// wholeBody is a body that was read to its end.
type wholeBody struct {
	*bytes.Reader
	raw []byte
}

// Close implements [io.Closer].
func (*wholeBody) Close() error { return nil }
