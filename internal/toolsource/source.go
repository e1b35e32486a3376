package toolsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/registry"
	"haft/schema"
)

// ToolName is the name of the tool that runs source without storing it. Policies allow and
// limit it like every tool. Its arguments have the source, so that an approval shows it and
// the audit has its digest.
const ToolName = "run_from_source"

// sourceIn are its arguments. Secrets come with the environment of the call, and not with
// the arguments.
type sourceIn struct {
	Source     string                     `json:"source_code" jsonschema:"the source with the function that is the tool"`
	Kind       haft.Kind                  `json:"source_type,omitempty" jsonschema:"the language of the source; python if left out"`
	Function   string                     `json:"name,omitempty" jsonschema:"which function of the source to call, where it has several"`
	Args       map[string]json.RawMessage `json:"args,omitempty" jsonschema:"the arguments of the function, by name"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty" jsonschema:"the JSON Schema of the arguments, if it is not to be read from the source"`
	Pip        []string                   `json:"pip_requirements,omitempty" jsonschema:"packages of Python that the source needs, such as numpy==2.3.1"`
	Returns    map[string]json.RawMessage `json:"returns,omitempty" jsonschema:"the JSON Schema of the value; {} is for any value, and what is no data becomes its text"`
	Letta      bool                       `json:"letta,omitempty" jsonschema:"whether the source runs as Letta runs it: arguments of Python that do not fit are converted, such as 5 to text, and the names are there that Letta defines"`
	NPM        []string                   `json:"npm_requirements,omitempty" jsonschema:"packages of npm that the source needs, such as zod@4.1.5"`
}

// draft returns the tool that the source would be.
func (in sourceIn) draft() (haft.Draft, error) {
	d := haft.Draft{Kind: in.Kind, Source: in.Source, Function: in.Function,
		Needs: haft.Requirements{Pip: in.Pip, NPM: in.NPM}, Settings: haft.Settings{Letta: in.Letta}}
	for _, s := range []struct {
		from map[string]json.RawMessage
		to   *json.RawMessage
	}{{in.Parameters, &d.Parameters}, {in.Returns, &d.Returns}} {
		if s.from == nil {
			continue
		}
		var err error
		if *s.to, err = json.Marshal(s.from); err != nil {
			return d, fmt.Errorf("encode the schema: %w", err)
		}
	}
	return d, nil
}

// A SourceTool is the tool that runs source without storing it. All fields are required.
type SourceTool struct {
	// Prepare makes a tool of a draft, and reviews it like one that is stored.
	Prepare func(ctx context.Context, p haft.Principal, d haft.Draft) (*registry.Compiled, error)
	// Packages returns the packages of a version, and a function that releases them.
	Packages func(ctx context.Context, org string, v haft.Version) ([]executor.Layer, func(), error)
	Executor executor.Executor
}

// Add adds the tool to set. The code that it runs is confined like that of a stored tool.
func (s SourceTool) Add(set *builtin.Set) error {
	no := false
	return builtin.AddRaw[sourceIn, any](set, builtin.Def{
		Name: ToolName, Version: "1", Category: "code", Tags: []string{"code"}, RunsCode: true,
		Description: "Runs the function of a source in a sandbox and returns its value, without keeping the source " +
			"as a tool: to try it out before it becomes one. " +
			"The source is reviewed as that of a tool is. There is no network.",
		Enums:       map[string][]string{"source_type": {"python", "typescript", "javascript", "bash"}},
		Annotations: haft.Annotations{Title: "Run source", ReadOnly: &no},
	}, s.run)
}

// run runs the source.
func (s SourceTool) run(ctx context.Context, req executor.Request, in sourceIn) (*haft.Result, error) {
	draft, err := in.draft()
	if err != nil {
		return nil, err
	}
	tool, err := s.Prepare(ctx, req.Principal, draft)
	if err != nil {
		return unready(err)
	}
	raw := []byte("{}")
	if in.Args != nil {
		if raw, err = json.Marshal(in.Args); err != nil {
			return nil, fmt.Errorf("encode the arguments: %w", err)
		}
	}
	args, failure := tool.FitRead(schema.ReadArguments(raw))
	if failure != nil {
		return &haft.Result{Status: haft.StatusValidation, Error: failure}, nil
	}
	v := tool.Tool.Version
	inner := req
	inner.Kind, inner.Source, inner.Function, inner.Pass, inner.Args = v.Kind, v.Source, v.Function, v.Pass, args.Text
	inner.Tool, inner.Digest, inner.Output, inner.Returns = tool.Tool.Name, v.Digest, v.Settings.Output.Type, v.Returns
	inner.Programs, inner.Letta = v.Settings.Programs, v.Settings.Letta
	inner.Inject = make(map[string]json.RawMessage, len(v.Injected))
	for _, name := range v.Injected {
		inner.Inject[name] = json.RawMessage("null") // no agent gives it a value
	}
	layers, release, err := s.Packages(ctx, req.Org, v)
	if err != nil {
		return unready(err)
	}
	defer release()
	inner.Layers = layers
	res, err := s.Executor.Execute(ctx, inner)
	if err != nil {
		return unready(err)
	}
	tool.Check(ctx, res)
	return res, nil
}

// unready makes a result of an error that the source or a rule causes.
func unready(err error) (*haft.Result, error) {
	e, ok := errors.AsType[*haft.Error](err)
	if !ok {
		return nil, err
	}
	switch e.Code {
	case haft.CodeInvalid, haft.CodeConflict:
		return &haft.Result{Status: haft.StatusError, Error: &haft.Failure{
			Kind: haft.FailSource, Message: e.Message, Retry: haft.RetryChanged, Misfits: e.Misfits}}, nil
	case haft.CodeDenied:
		return &haft.Result{Status: haft.StatusDenied, Error: &haft.Failure{
			Kind: haft.FailDenied, Message: e.Message, Retry: haft.RetryNever}}, nil
	}
	return nil, err
}
