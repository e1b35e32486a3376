package pyschema

import (
	"maps"
	"slices"
	"strings"

	"haft/schema"
)

// undocumented returns what the documentation of f lacks, with the lines to write. description is that of the tool,
// which a decorator can give, and params the schema of the parameters, which may have descriptions of their own.
func (f *statement) undocumented(doc docText, description string, params *schema.Object) []*schema.SourceError {
	raw, documented := f.doc()
	var missing []*schema.SourceError
	var lines []string
	if params != nil {
		properties := params.Object("properties")
		for _, p := range f.Params {
			if s := properties.Object(p.Name); s == nil || s.String("description") != "" {
				continue
			}
			e := p.fault("it has no description: describe it in the docstring")
			e.Parameter, e.Write = p.Name, describingLines(raw, p.Name,
				len(doc.types)+len(doc.params)+len(missing) == 0)
			missing, lines = append(missing, e), append(lines, "        "+p.Name+": What "+p.Name+" is.")
		}
	}
	switch {
	case !documented && description != "" && len(missing) == 0:
		return nil
	case !documented:
		e := f.fault("the function has no docstring: say in one what the tool does, and describe its parameters")
		e.Write = `    """What the tool does.` + "\n"
		if len(lines) > 0 {
			e.Write += "\n    Args:\n" + strings.Join(lines, "\n") + "\n    "
		} else {
			e.Write = strings.TrimSuffix(e.Write, "\n")
		}
		e.Write += `"""`
		e.Function = f.Name
		return []*schema.SourceError{e}
	case description == "":
		e := f.fault("the docstring has no description: say what the tool does before its sections")
		e.Write = "    What the tool does."
		missing = slices.Insert(missing, 0, e)
	}
	for _, e := range missing {
		e.Function = f.Name
	}
	return missing
}

// describingLines returns the lines that describe a parameter, in the form of the docstring. If
// first, the docstring describes no parameter yet.
func describingLines(raw, name string, first bool) string {
	text := "What " + name + " is."
	switch {
	case strings.Contains(raw, ":param "):
		return "    :param " + name + ": " + text
	case strings.Contains(raw, "@param "):
		return "    @param " + name + ": " + text
	case strings.Contains(raw, "-----"):
		if first {
			return "    Parameters\n    ----------\n    " + name + "\n        " + text
		}
		return "    " + name + "\n        " + text
	case first:
		return "    Args:\n        " + name + ": " + text
	}
	return "        " + name + ": " + text
}

// contradictions returns where the docstring of f speaks of parameters that f does not have, or
// gives one another type than its annotation.
func (f *statement) contradictions(doc docText, params *schema.Object) []*schema.SourceError {
	var found []*schema.SourceError
	warn := func(p place, name, message string) {
		e := p.fault("%s", message)
		e.Function, e.Parameter = f.Name, name
		found = append(found, e)
	}
	own := map[string]bool{}
	for _, p := range f.Params {
		own[p.Name] = true
		s := params.Object("properties").Object(p.Name)
		if s != nil && schema.Contradict(s, schema.WordTypes(doc.types[p.Name])) {
			warn(p.place, p.Name, "the docstring gives it another type than its annotation, which counts: correct "+
				"one of them")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.params)) {
		if !own[name] {
			warn(f.place, name, "the docstring describes it, and the function does not have it: remove it, or "+
				"rename it")
		}
	}
	return found
}
