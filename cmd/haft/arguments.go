package main

import (
	"context"
	"fmt"
	"io"

	"haft/internal/cli"
	"haft/internal/toolfile"
	"haft/schema"
)

// argumentFlags are the flags that have the arguments of a call.
type argumentFlags struct {
	document string             // --args
	pairs    toolfile.Arguments // --arg
}

func (f *argumentFlags) flags() []cli.Flag {
	return []cli.Flag{
		{&f.document, "args", "the arguments as `JSON`, @FILE, or - for standard input"},
		{(*[]string)(&f.pairs), "arg", "one argument, `NAME=VALUE`; VALUE is JSON, text where the tool takes text, " +
			"or @FILE; given again, NAME is a list"},
	}
}

// read puts --args and --arg together.
func (f argumentFlags) read(in io.Reader) ([]byte, error) {
	text, err := toolfile.ReadGiven(in, f.document)
	if err == nil && f.document != "" {
		err = toolfile.CheckJSON("--args", text)
	}
	if err != nil || len(f.pairs) == 0 {
		return text, err
	}
	if err := f.pairs.Resolve(); err != nil {
		return nil, err
	}
	return f.pairs.AddTo(text)
}

// readFor reads the arguments of a call of a kept tool. If the tool cannot be looked up they are
// left as they are: the call says why.
func (f argumentFlags) readFor(ctx context.Context, s *cli.Session, tool string) ([]byte, error) {
	args, err := f.read(s.In)
	if err != nil || !f.pairs.Ambiguous() {
		return args, err
	}
	t, err := s.Tool(ctx, s.Who, tool)
	if err != nil {
		return args, nil
	}
	params, err := schema.Decode(t.Version.Parameters)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", tool, err)
	}
	object, _ := params.(*schema.Object)
	return f.pairs.AsDeclared(args, object)
}
