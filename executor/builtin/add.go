package builtin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"haft"
	"haft/executor"
	"haft/schema"
)

// Add adds a tool that is a function from In, which is a struct, to Out. Their
// schemas come from the types: names from json tags, descriptions from jsonschema
// tags, and what is neither omitempty nor omitzero is required.
//
// Fn returns when its context ends: nothing can stop it, and the call waits for
// it. An [*haft.Error] that it returns reaches the caller with its message and
// code. The text of other errors reaches the caller too, so it must hold nothing
// that is secret.
func Add[In, Out any](s *Set, d Def, fn func(ctx context.Context, c Call, in In) (Out, error)) error {
	t, err := define[In, Out](d)
	if err != nil {
		return err
	}
	t.run = func(ctx context.Context, e *execution) error {
		var in In
		if err := decode(e.req.Args, &in); err != nil {
			return err
		}
		out, err := fn(ctx, e.call(), in)
		if err != nil {
			return err
		}
		return e.encode(out)
	}
	return s.add(t)
}

// AddRaw adds a tool that makes its result itself, such as one that has a sandbox
// run something. Out is the type of the result's value. Fn sees to it that the
// limits of the request hold, and its errors mean what those of an
// [executor.Executor] do: that there is no result. Execute fills in the names, and
// the place of a result that names none.
func AddRaw[In, Out any](s *Set, d Def, fn func(ctx context.Context, req executor.Request,
	in In) (*haft.Result, error)) error {
	t, err := define[In, Out](d)
	if err != nil {
		return err
	}
	t.raw = true
	t.run = func(ctx context.Context, e *execution) error {
		var in In
		if err := decode(e.req.Args, &in); err != nil {
			return err
		}
		res, err := fn(ctx, e.req, in)
		if err == nil && res == nil {
			return &failure{haft.Failure{Kind: haft.FailInternal, Message: "the tool gave no result",
				Retry: haft.RetryNever}}
		}
		e.res = res
		return err
	}
	return s.add(t)
}

// add enters t, whose name must be free.
func (s *Set) add(t *tool) error {
	if s.tools[t.tool.Name] != nil {
		return &haft.Error{Code: haft.CodeConflict, Message: "there are two built-in tools of the name " + t.tool.Name}
	}
	if s.tools == nil {
		s.tools = map[string]*tool{}
	}
	s.tools[t.tool.Name] = t
	return nil
}

// define makes the tool without its function.
func define[In, Out any](d Def) (*tool, error) {
	if err := haft.CheckToolName(d.Name); err != nil {
		return nil, err
	}
	parameters, health, err := parametersOf[In](d)
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s: %w", d.Name, err)
	}
	returns, err := schemaOf[Out]()
	if err != nil {
		return nil, fmt.Errorf("the value of %s: %w", d.Name, err)
	}
	t := &tool{
		unavailable: d.Unavailable, runsCode: d.RunsCode,
		defaults: d.Settings.Limits.Or(haft.DefaultLimits()).Within(haft.LimitCeilings()),
		tool: haft.Tool{
			ID: haft.ToolID("builtin:" + d.Name), Name: d.Name, Category: d.Category, Tags: d.Tags,
			Version: haft.Version{
				Number: 1, Kind: haft.KindBuiltin, Description: d.Description, Health: health,
				Settings: d.Settings, Annotations: d.Annotations, Author: "haft",
			},
		},
	}
	v := &t.tool.Version
	if v.Parameters, err = schema.Encode(parameters); err != nil {
		return nil, fmt.Errorf("the arguments of %s: %w", d.Name, err)
	}
	if v.Returns, err = schema.Encode(returns); err != nil {
		return nil, fmt.Errorf("the value of %s: %w", d.Name, err)
	}
	v.Digest, err = digest(d, v)
	return t, err
}

// digest is over everything of a tool that a caller or an approver relies on.
func digest(d Def, v *haft.Version) (string, error) {
	b, err := json.Marshal(struct {
		Name, Version, Description string
		Parameters, Returns        json.RawMessage
		Settings                   haft.Settings
		Annotations                haft.Annotations
	}{d.Name, d.Version, d.Description, v.Parameters, v.Returns, d.Settings, d.Annotations})
	if err != nil {
		return "", fmt.Errorf("the digest of %s: %w", d.Name, err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// parametersOf is the schema of In, which has to be one that vendors accept.
func parametersOf[In any](d Def) (*schema.Object, haft.SchemaHealth, error) {
	tree, err := schemaOf[In]()
	if err != nil {
		return nil, haft.SchemaHealth{}, err
	}
	for name, values := range d.Enums {
		p := tree.Object("properties").Object(name)
		if p == nil {
			return nil, haft.SchemaHealth{}, fmt.Errorf("there is no property %s to have values", name)
		}
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		p.Set("enum", list)
		if v := d.Defaults[name]; v != "" {
			p.Set("default", v)
		}
	}
	normal, err := schema.Normalize(tree, schema.NormalizeOptions{})
	if err != nil {
		return nil, haft.SchemaHealth{}, fmt.Errorf("normalise: %w", err)
	}
	health := schema.Health(normal)
	if health.Status == haft.HealthInvalid {
		return nil, health, fmt.Errorf("vendors refuse the schema: %s", health.Reasons[0])
	}
	return normal, health, nil
}

// schemaOf is the schema of T.
func schemaOf[T any]() (*schema.Object, error) {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {}, // any JSON, and not the list of bytes that it is in Go
	}})
	if err != nil {
		return nil, fmt.Errorf("make a schema: %w", err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	v, err := schema.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	o, ok := v.(*schema.Object)
	if !ok {
		return schema.Obj(), nil // anything
	}
	tidy(o)
	return o, nil
}

// tidy takes null out of the types of properties that may be left out. It comes from
// slices and pointers, which are left out when they are nil.
func tidy(o *schema.Object) {
	required := o.Array("required")
	if properties := o.Object("properties"); properties != nil {
		for _, name := range properties.Keys() {
			p := properties.Object(name)
			if p == nil {
				continue
			}
			if types := p.Array("type"); len(types) == 2 && types[0] == "null" &&
				!slices.Contains(required, any(name)) {
				p.Set("type", types[1])
			}
			tidy(p)
		}
	}
	if items := o.Object("items"); items != nil {
		tidy(items)
	}
}

// decode reads arguments into in. The caller has checked them against the schema.
func decode(args json.RawMessage, in any) error {
	if len(args) == 0 || string(args) == "{}" {
		return nil
	}
	misfit := func(message string) error {
		return &failure{haft.Failure{Kind: haft.FailValidation, Message: message, Retry: haft.RetryChanged}}
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return misfit("the arguments do not fit the tool's schema") // the error may repeat one
	}
	if _, err := d.Token(); err != io.EOF {
		return misfit("there is something behind the arguments")
	}
	return nil
}
