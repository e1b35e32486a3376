package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/goccy/go-yaml"

	"haft/internal/exit"
	"haft/internal/terminal"
)

// The forms in which a command prints what it found.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// chooseFormat checks the form that is asked for. Profile.JSON then says whether a document is
// printed, and not text for people.
func (p *Profile) chooseFormat() error {
	switch p.as {
	case "":
	case formatTable:
		if p.JSON {
			return exit.Misuse(errors.New("--json and --print table say different things: leave one out"))
		}
	case formatJSON, formatYAML, formatName:
		if p.JSON && p.as != formatJSON {
			return exit.Misuse(fmt.Errorf("--json and --print %s say different things: leave one out", p.as))
		}
		p.JSON = true
	default:
		return exit.Misuse(errors.New("--print is table, json, yaml or name"))
	}
	return nil
}

// Print prints a document if one is asked for, in the form that is asked for, and else by text, for
// people.
func (p *Profile) Print(document any, text func()) error {
	switch {
	case !p.JSON:
		text()
		return nil
	case p.as == formatName:
		return printNames(p.Out, document)
	}
	return p.PrintDocument(document)
}

// PrintDocument prints a document whole, also where only names are asked for: it has what is shown once.
func (p *Profile) PrintDocument(document any) error {
	if p.as == formatYAML {
		return printYAML(p.Out, document)
	}
	return PrintJSON(p.Out, document)
}

// PrintLine prints what was done: a document, or one line.
func (p *Profile) PrintLine(document any, line string) error {
	return p.Print(document, func() { fmt.Fprintln(p.Out, line) })
}

// PrintJSON writes v as one JSON object on one line.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// printYAML writes v with the names that it has in JSON.
func printYAML(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print YAML: %w", err)
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return fmt.Errorf("print YAML: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("print YAML: %w", err)
	}
	return nil
}

// printNames writes the name of a document, or of each of a list, in lines: what another command
// takes as an argument.
func printNames(w io.Writer, v any) error {
	if list, ok := v.(interface{ Names() []string }); ok {
		v = list.Names()
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print names: %w", err)
	}
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		all = []json.RawMessage{raw}
	}
	for _, item := range all {
		name := nameOf(item)
		if name == "" {
			return exit.Misuse(errors.New("what this command prints has no names: use --print json"))
		}
		if name != terminal.OneLine(name, len(name)+1) {
			return exit.Misuse(errors.New("a name has control characters or blanks in it: use --print json"))
		}
		fmt.Fprintln(w, name)
	}
	return nil
}

// nameOf is what an object is called by: its name, or its id, in the order of what commands take.
func nameOf(item json.RawMessage) string {
	var text string
	if json.Unmarshal(item, &text) == nil {
		return text
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(item, &object) != nil {
		return ""
	}
	for _, key := range []string{"name", "call_id", "id", "call", "label", "number", "seq"} {
		switch raw := object[key]; {
		case len(raw) == 0:
		case json.Unmarshal(raw, &text) == nil && text != "":
			return text
		case raw[0] == '{':
			return nameOf(raw)
		case raw[0] >= '0' && raw[0] <= '9':
			return string(raw)
		}
	}
	return ""
}

// PrintList prints a list in the form that is asked for.
func PrintList[T any](p *Profile, list iter.Seq2[T, error], l Listing[T]) error {
	all, err := Collect(list)
	if err != nil {
		return err
	}
	return p.Print(all, func() {
		PrintTable(p.Out, all, l)
		if dir, err := p.Dir(); len(all) == 0 && err == nil && !p.Remote() && p.Database == "" {
			fmt.Fprintln(p.Err, terminal.Paint(p.Err, terminal.Dim, "  looked in "+dir+
				"; --data or $HAFT_DATA names another"))
		}
	})
}
