package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"haft"
	"haft/app"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/toolfile"
	"haft/schema"
)

// schemaFlags are the flags of haft schema.
type schemaFlags struct {
	format               string
	strict, check, loose bool
}

// schemaCommand shows the schema of a tool.
func schemaCommand(p *cli.Profile) cli.Command {
	f := schemaFlags{format: "json"}
	return cli.Command{
		Alone: true,
		Use:   "schema FILE[:FUNCTION]",
		Short: "Show the schema that a model sees, without running the code",
		Long: `Show the schema that a model sees. FILE is a tool (.py, .ts, .js, .sh), whose code is
not run, or a schema (.json), bare or in the form of a vendor.`,
		Example: `  haft schema weather.py
  haft schema weather.py:forecast --format openai --strict
  haft schema weather.ts --check
  haft schema given.json --check            a schema from elsewhere`,
		Flags: []cli.Flag{
			cli.ReducedFlag(&p.Reduced),
			{&f.format, "format", "the form: " + oneOf(schema.Forms())},
			{&f.strict, "strict", "the vendor's strict form, where it has one"},
			{&f.check, "check", "say whether vendors accept the schema; exit code 3 if none does"},
			{&f.loose, "descriptions-optional", "accept functions and parameters without documentation"},
		},
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error { return f.show(ctx, p, args[0]) },
	}
}

// show prints the schema of a file, or whether vendors accept it.
func (f schemaFlags) show(ctx context.Context, p *cli.Profile, ref string) error {
	form, err := schema.ParseForm(f.format)
	if err != nil {
		return exit.Misuse(err)
	}
	var sig *schema.Signature
	var health haft.SchemaHealth
	if strings.EqualFold(filepath.Ext(ref), ".json") {
		definition := false
		if sig, definition, err = toolfile.ReadSchema(ref); err != nil {
			return schema.InFile(ref, err)
		}
		health = toolfile.Health(sig.Parameters, definition)
		if !f.check {
			sig, err = schema.FromArgsSchema(sig.Name, sig.Description, sig.Parameters)
		}
	} else if sig, err = f.derive(ctx, p, ref); err == nil {
		health = toolfile.Health(sig.Parameters, true)
	}
	if err != nil {
		return err
	}
	if f.check {
		return printHealth(p.Out, sig.Name, health)
	}
	for _, line := range toolfile.NotStrict(sig.Parameters, form) {
		if f.strict {
			fmt.Fprintln(p.Err, safe(p.Err, line))
		}
	}
	return printSchema(p.Out, sig, form, f.strict)
}

// derive derives the schema of a tool.
func (f schemaFlags) derive(ctx context.Context, p *cli.Profile, ref string) (*schema.Signature, error) {
	src, err := toolfile.ReadSource(ref)
	if err != nil {
		return nil, err
	}
	a, err := app.Open(ctx, app.Config{AllowReduced: p.Reduced})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	file, _ := toolfile.SplitRef(ref)
	derived, err := a.Derive(ctx, src, schema.Options{Function: src.Function, OneTool: true,
		DescriptionsOptional: f.loose})
	if err != nil {
		return nil, schema.InFile(file, err)
	}
	warnOf(p.Streams, file, derived.Warnings)
	return derived.Signature, nil
}

// warnOf prints what should be better in the source of a file.
func warnOf(std cli.Streams, file string, list []*schema.SourceError) {
	for _, e := range list {
		e.File = file
		fmt.Fprintln(std.Err, paint(std.Err, yellow, "warning:"), safe(std.Err, e.Error()))
	}
}

// printSchema writes a signature in the form that was asked for.
func printSchema(w io.Writer, sig *schema.Signature, form schema.Form, strict bool) error {
	raw, err := schema.Render(sig, form, strict)
	if err != nil {
		return &exit.Error{Code: exit.Validation, Err: err}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("indent the schema: %w", err)
	}
	fmt.Fprintln(w, b.String())
	return nil
}

// printHealth writes whether vendors accept a schema, and why not.
func printHealth(w io.Writer, name string, h haft.SchemaHealth) error {
	shade := map[haft.HealthStatus]colour{haft.HealthStrict: green, haft.HealthNonStrict: yellow,
		haft.HealthInvalid: red}[h.Status]
	fmt.Fprintln(w, paint(w, shade, string(h.Status)), name)
	for _, r := range h.Reasons {
		fmt.Fprintln(w, "  "+safe(w, r.String()))
	}
	if h.Status == haft.HealthInvalid {
		return exit.With(exit.Validation)
	}
	return nil
}
