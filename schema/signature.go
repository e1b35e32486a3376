package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"haft/internal/jsontree"
)

// A Signature is what source code says about a function that is a tool.
type Signature struct {
	Name        string
	Description string
	// Function is the function of a Python source, which can have another name than its tool; "" elsewhere.
	Function string
	// Parameters is a schema of type object.
	Parameters *Object
	// Returns is the schema of the value, or nil where it is not known.
	Returns *Object
	// ReturnsText is what the documentation says about the value.
	ReturnsText string
	// Injected are the parameters that Haft fills in, such as agent_id.
	Injected []string
	// Async is set for functions that have to be awaited.
	Async bool
	// Settings are those of [haft.Settings] that the source names, as JSON has them, and Requirements the
	// packages.
	Settings     map[string]any
	Requirements []string
	// Undocumented are the descriptions that are missing, where they are optional.
	Undocumented []*SourceError
	// Warnings say where the documentation contradicts the signature.
	Warnings []*SourceError
}

// A SourceError says what is wrong with source code, and where.
type SourceError struct {
	File         string // "" where it is not known
	Line, Column int    // from 1; 0 where unknown
	Function     string // "" where it is not about one
	Parameter    string // "" where it is not about one
	Message      string
	Write        string // the lines to write, or ""
}

// Error returns "file: line:column: function f, parameter p: message", with the parts
// that are known.
func (e *SourceError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ", column %d", e.Column)
		}
		b.WriteString(": ")
	}
	if e.Function != "" {
		fmt.Fprintf(&b, "function %s: ", e.Function)
	}
	if e.Parameter != "" {
		fmt.Fprintf(&b, "parameter %s: ", e.Parameter)
	}
	b.WriteString(e.Message)
	if e.Write != "" {
		b.WriteString(". Write:\n" + e.Write)
	}
	return b.String()
}

// PlaceInFile writes a message that begins with "line N, column M: " as FILE:N:M, which editors open.
func PlaceInFile(file, message string) string {
	var line, column int
	if n, err := fmt.Sscanf(message, "line %d, column %d: ", &line, &column); n != 2 || err != nil {
		return message
	}
	_, rest, _ := strings.Cut(message, ": ")
	return fmt.Sprintf("%s:%d:%d: %s", file, line, column, rest)
}

// An AmbiguousError says that several functions of a source can be the tool.
type AmbiguousError struct {
	File  string // "" where it is not known
	Tools []string
	// Undocumented says that none of them has documentation, which would make it a tool.
	Undocumented bool
}

// maxTools is how many functions an error names.
const maxTools = 20

// Error lists the functions, and says how to name one.
func (e *AmbiguousError) Error() string {
	names := strings.Join(e.Tools[:min(len(e.Tools), maxTools)], ", ")
	if len(e.Tools) > maxTools {
		names += ", …"
	}
	file := cmp.Or(e.File, "FILE")
	if e.Undocumented {
		return fmt.Sprintf("%s: %d functions can be the tool, and none of them is documented: %s: document those "+
			"that are "+
			"tools, or name one, such as %s:%s", file, len(e.Tools), names, file, e.Tools[0])
	}
	return fmt.Sprintf("%s: %d functions are tools: %s: name one, such as %s:%s", file, len(e.Tools), names, file,
		e.Tools[0])
}

// InFile names the file in all errors about its source, and returns err.
func InFile(file string, err error) error {
	nameFile(file, err)
	return err
}

// nameFile names the file in err and in what it wraps.
func nameFile(file string, err error) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *SourceError:
		e.File = file
	case *AmbiguousError:
		e.File = file
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			nameFile(file, inner)
		}
	case interface{ Unwrap() error }:
		nameFile(file, e.Unwrap())
	}
}

// Options steer how a signature is derived, in every language.
type Options struct {
	// Function names the function that is the tool; empty lets the rules of the
	// language choose.
	Function string
	// OneTool refuses a source with several tools, with an [AmbiguousError], and prefers documented
	// functions. Otherwise the last function is taken.
	OneTool bool
	// DescriptionsOptional accepts functions and parameters without documentation.
	DescriptionsOptional bool
	// TypesOptional accepts parameters whose type is missing or unknown, as any value: for a
	// source whose schema is given, of which only the names count.
	TypesOptional bool
}

// IsInjected reports whether a parameter is one that Haft fills in.
func IsInjected(name string) bool { return name == "agent_state" || name == "agent_id" }

// Describe sets the description of a schema, after its type, where models read it
// first. An empty one changes nothing.
func Describe(o *Object, text string) {
	if text == "" {
		return
	}
	c := keep(o, "type").Set("description", text)
	mergeMissing(c, o)
	*o = *c
}

// MaxSource is the largest source that is read, in bytes.
const MaxSource = 1 << 20

// CheckSource refuses source that is no text, empty or too large: the error is a
// [*SourceError]. Without anyEncoding it must be UTF-8.
func CheckSource(source []byte, anyEncoding bool) error {
	fail := func(at int, format string, args ...any) error {
		line, column := jsontree.Position(source, int64(at))
		return &SourceError{Line: line, Column: column, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(source) > MaxSource:
		return fail(0, "the source has %d bytes, %d is the most", len(source), MaxSource)
	case len(bytes.TrimSpace(bytes.TrimPrefix(source, []byte("\ufeff")))) == 0:
		return fail(0, "the source is empty")
	}
	if i := bytes.IndexByte(source, 0); i >= 0 {
		return fail(i, "the source is not text: it has a zero byte")
	}
	for i := 0; i < len(source) && !anyEncoding; {
		r, n := utf8.DecodeRune(source[i:])
		if r == utf8.RuneError && n == 1 {
			return fail(i, "the source is not text in UTF-8")
		}
		i += n
	}
	return nil
}

// JoinSourceErrors joins the problems of a source in the order of their places. It
// returns nil for none.
func JoinSourceErrors(found []*SourceError) error {
	slices.SortStableFunc(found, func(a, b *SourceError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, len(found))
	for i := range found {
		all[i] = found[i]
	}
	return errors.Join(all...)
}
