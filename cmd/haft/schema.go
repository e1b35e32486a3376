package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"haft"
	"haft/app"
	"haft/schema"
)

// schemaCommand shows the schema of a tool.
func schemaCommand(std streams) *cobra.Command {
	var (
		format               string
		strict, check, loose bool
		reduced              bool
	)
	names := make([]string, 0, len(schema.Forms()))
	for _, f := range schema.Forms() {
		names = append(names, string(f))
	}
	cmd := &cobra.Command{
		Use:   "schema FILE[:FUNCTION]",
		Short: "Show the schema that a model sees, without running the code",
		Long: `Show the schema that a model sees. FILE is a tool (.py, .ts, .js, .sh), whose code is
not run, or a schema (.json), bare or in the form of a vendor.`,
		Example: `  haft schema weather.py
  haft schema weather.py:forecast --format openai --strict
  haft schema weather.ts --check
  haft schema given.json --check            a schema from elsewhere`,
		Args: func(c *cobra.Command, args []string) error { return usageArgs(cobra.ExactArgs(1)(c, args)) },
		RunE: func(c *cobra.Command, args []string) error {
			form, err := schema.ParseForm(format)
			if err != nil {
				return usage(err)
			}
			if isSchemaFile(args[0]) {
				return showGiven(std, args[0], form, strict, check)
			}
			src, err := readSource(args[0])
			if err != nil {
				return err
			}
			a, err := app.Open(c.Context(), app.Config{AllowReduced: reduced})
			if err != nil {
				return err
			}
			defer a.Close()
			sig, err := a.Derive(c.Context(), src, schema.Options{Function: src.Function, DescriptionsOptional: loose})
			if err != nil {
				return err
			}
			if check {
				return printHealth(std.out, sig.Signature)
			}
			return printSchema(std.out, sig.Signature, form, strict)
		},
	}
	f := cmd.Flags()
	allowReduced(f, &reduced)
	f.StringVar(&format, "format", "json", "the form: "+strings.Join(names, ", "))
	f.BoolVar(&strict, "strict", false, "the vendor's strict form, where it has one")
	f.BoolVar(&check, "check", false, "say whether vendors accept the schema; exit code 3 if none does")
	f.BoolVar(&loose, "descriptions-optional", false, "accept functions and parameters without documentation")
	return cmd
}

// usageArgs marks a complaint about arguments as a wrong command line.
func usageArgs(err error) error {
	if err == nil {
		return nil
	}
	return usage(err)
}

// printSchema writes a signature in the form that was asked for.
func printSchema(w io.Writer, sig *schema.Signature, form schema.Form, strict bool) error {
	raw, err := schema.Render(sig, form, strict)
	if err != nil {
		return &exit{exitValidation, err}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("indent the schema: %w", err)
	}
	fmt.Fprintln(w, b.String())
	return nil
}

// printHealth writes the verdict on a schema and its reasons. It is about what
// vendors are given: a schema from code says nothing about other properties, and
// is closed for strict mode.
func printHealth(w io.Writer, sig *schema.Signature) error {
	parameters := sig.Parameters
	if strict, ok := schema.Strict(parameters); ok {
		parameters = strict
	}
	return printVerdict(w, sig.Name, schema.Health(parameters))
}

// printVerdict writes a verdict and its reasons.
func printVerdict(w io.Writer, name string, h haft.SchemaHealth) error {
	shade := map[haft.HealthStatus]colour{haft.HealthStrict: green, haft.HealthNonStrict: yellow,
		haft.HealthInvalid: red}[h.Status]
	fmt.Fprintln(w, paint(w, shade, string(h.Status)), name)
	for _, r := range h.Reasons {
		fmt.Fprintln(w, "  "+safe(w, r.String()))
	}
	if h.Status == haft.HealthInvalid {
		return &exit{code: exitValidation}
	}
	return nil
}
