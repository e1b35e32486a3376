package schema

import "strings"

// fileNotes say to a model what a text of a format can be, for parameters that can be files.
var fileNotes = map[string]string{
	"haft-file": "The id of a file.",
	"path":      "A path, or the id of a file.",
	"byte":      "Base64, or the id of a file.",
}

// NoteFiles adds to the descriptions of parameters that can be files what a model has to give. Not
// every model sees formats.
func NoteFiles(parameters *Object) {
	props := parameters.Object("properties")
	if props == nil {
		return
	}
	for _, name := range props.Keys() {
		p := props.Object(name)
		if p == nil {
			continue
		}
		if note := fileNotes[formatWithin(p, 3)]; note != "" && !strings.Contains(p.String("description"), note) {
			p.Set("description", strings.TrimSpace(p.String("description")+" "+note))
		}
	}
}

// formatWithin returns the first format of a file in a schema, its items and its alternatives.
func formatWithin(o *Object, depth int) string {
	if f := o.String("format"); fileNotes[f] != "" {
		return f
	}
	within := append([]any{o.Value("items")}, o.Array("anyOf")...)
	for _, v := range within {
		if sub, ok := v.(*Object); ok && sub != nil && depth > 0 {
			if f := formatWithin(sub, depth-1); f != "" {
				return f
			}
		}
	}
	return ""
}
