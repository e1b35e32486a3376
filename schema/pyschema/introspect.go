package pyschema

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"haft/schema"
)

//go:embed introspect.py
var introspectScript string

// IntrospectScript returns the script that [Introspect] has run, by CPython 3.9
// or newer with the flags -I and -S. It reads a question from standard input,
// imports a module, and writes the schema of one of its types to standard output.
//
// The code of the module runs in that process, so the caller confines it,
// without network, and bounds its time and memory.
func IntrospectScript() string { return introspectScript }

// MaxAnswer is the most that [IntrospectScript] writes, in bytes.
const MaxAnswer = 256 << 10

// An Introspector runs [IntrospectScript] on a question and returns what it
// wrote. A [*schema.SourceError] says why the module is to blame that there is
// nothing; any other error that the script could not be run.
type Introspector func(ctx context.Context, question []byte) ([]byte, error)

// The bounds on the name of a type.
const (
	maxTypeName  = 400 // bytes
	maxTypeParts = 16  // between dots
)

// Introspect asks for the schema of the type that is called name in a module, as
// a [Resolver] does. The module is looked for in the standard library and in
// paths; name may be dotted.
//
// A module can say about its types what it likes, and also about those of other
// modules, but not more than a schema can say: the answer is rebuilt from the
// keywords that we know, refers to nothing but itself, compiles, and is bounded.
func Introspect(ctx context.Context, run Introspector, module, name string, paths []string) (*schema.Object, error) {
	full := module + "." + name
	parts := strings.Split(full, ".")
	bad := func(p string) bool { return !bareName().MatchString(p) }
	if len(full) > maxTypeName || len(parts) > maxTypeParts || slices.ContainsFunc(parts, bad) {
		return nil, &schema.SourceError{Message: "this is not the name of a type in a module"}
	}
	if parts[0] == "__main__" {
		return nil, &schema.SourceError{Message: "this is the tool itself, not an installed module: declare the " +
			"type in the source"}
	}
	question, err := json.Marshal(map[string]any{"module": module, "name": name, "path": append([]string{}, paths...)})
	if err != nil {
		return nil, fmt.Errorf("ask for a type: %w", err)
	}
	out, err := run(ctx, question)
	if err != nil {
		return nil, err
	}
	return readAnswer(module, name, out)
}

// readAnswer reads what the script wrote, if it was the script.
func readAnswer(module, name string, out []byte) (*schema.Object, error) {
	unreadable := &schema.SourceError{Message: "importing the module left no answer that makes sense: it may end or " +
		"take over the interpreter"}
	if len(out) > MaxAnswer {
		return nil, unreadable
	}
	v, err := schema.Decode(out)
	if err != nil {
		return nil, unreadable
	}
	doc, ok := v.(*schema.Object)
	if !ok {
		return nil, unreadable
	}
	if doc.Has("error") {
		if doc.String("error") == "none" && doc.String("module") == module && doc.String("name") == name {
			return nil, nil
		}
		return nil, &schema.SourceError{Message: refusal(doc)}
	}
	s, ok := doc.Value("schema").(*schema.Object)
	if !ok {
		return nil, unreadable
	}
	clean, err := rebuild(s)
	if err != nil {
		return nil, err
	}
	if _, err := schema.Compile(clean); err != nil {
		return nil, &schema.SourceError{Message: "the schema that it has is not valid"}
	}
	return clean, nil
}

// refusals say in our words why there is no schema. Words of the module come in only
// where they are a name, or a line that can hold no path of this machine.
var refusals = map[string]string{
	"missing":    "the module {module} is not installed here: add its package to the requirements",
	"needs":      "it needs the module {module}, which is not installed here: add its package to the requirements",
	"import":     "importing the module raised {raised}",
	"none":       "{module} has no {name}",
	"value":      "it is a value ({kind}), not a type",
	"generic":    "{name} is generic, which a schema cannot express: declare a class with concrete types",
	"plain":      plainClass("{name}"),
	"members":    "{name} has members that are no text or number",
	"empty":      "{name} has nothing in it",
	"unreadable": "the annotations of {name} cannot be evaluated",
	"adapter":    "Pydantic has no schema for {name}: {raised}",
	"large":      "its schema is too large",
}

// refusal says why there is no schema.
func refusal(doc *schema.Object) string {
	message := cmp.Or(refusals[doc.String("error")], "looking at it raised {raised}")
	if doc.String("field") != "" {
		message = "the field {field}: " + message
	}
	raised := safeName(doc.String("exception"))
	if text := safeLine(doc.String("text")); text != "" {
		raised += ": " + text
	}
	return strings.NewReplacer("{module}", safeName(doc.String("module")), "{name}", safeName(doc.String("name")),
		"{field}", safeName(doc.String("field")), "{kind}", safeName(doc.String("kind")),
		"{raised}", raised).Replace(message)
}

// plainClass says why a class has no schema.
func plainClass(name string) string {
	return name + " is a plain class, and nobody knows how to make one from JSON: " +
		"use a Pydantic model, a dataclass, a TypedDict, a NamedTuple or an Enum"
}

// safeName returns s if it is a dotted name, and else what can stand for one.
func safeName(s string) string {
	for _, p := range strings.Split(s, ".") {
		if len(s) > maxTypeName || !bareName().MatchString(p) {
			return "something"
		}
	}
	return s
}

// safeLine returns a line of foreign text, or "" if it could hold a path or
// something that a terminal obeys.
func safeLine(s string) string {
	odd := func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) }
	if len(s) > maxMessage || !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
		return ""
	}
	return s
}
