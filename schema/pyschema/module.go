package pyschema

import (
	"encoding/json"
	"fmt"
	"strings"

	"haft/schema"
)

// maxMessage bounds what the reader says about a fault, in bytes.
const maxMessage = 400

// A place is where something stands in the source, from 1.
type place struct {
	Line   int `json:"l"`
	Column int `json:"c"`
}

// fault makes an error about this place.
func (p place) fault(format string, args ...any) *schema.SourceError {
	return &schema.SourceError{Line: max(p.Line, 1), Column: max(p.Column, 1), Message: fmt.Sprintf(format, args...)}
}

// An expr is an expression. Kind says which fields have a meaning:
//
//	name    Name
//	attr    Value.Name
//	sub     Value[Args]; Name is "()" for an empty tuple
//	const   Type, Text; Parsed is the text as an annotation, if it is one
//	list tuple set   Args
//	dict    Keys (nil for **), Args
//	binop   Args[0] Name Args[1]
//	unary   Name Value
//	call    Value(Args, Keywords)
//	lambda  Value, without parameters
//	star    *Value
//	large   nothing: it is too deep or too big
//	other   Source
type expr struct {
	place
	Kind     string    `json:"k"`
	Name     string    `json:"n"`
	Value    *expr     `json:"v"`
	Args     []*expr   `json:"a"`
	Keys     []*expr   `json:"keys"`
	Keywords []keyword `json:"kw"`
	Type     string    `json:"t"`
	Text     string    `json:"s"`
	Parsed   *expr     `json:"p"`
	Source   string    `json:"text"`
}

// A keyword is name=value in a call or a class line; Name is "" for **.
type keyword struct {
	Name  string `json:"n"`
	Value *expr  `json:"v"`
}

// A param is a parameter of a function. Kind is positional, plain, args, keyword
// or kwargs.
type param struct {
	place
	Name    string `json:"n"`
	Kind    string `json:"kind"`
	Type    *expr  `json:"type"`
	Default *expr  `json:"default"`
}

// A binding is a name with a type or a value, in a module or a class.
type binding struct {
	place
	Name  string `json:"n"`
	Type  *expr  `json:"type"`
	Value *expr  `json:"value"`
	Doc   string `json:"doc"`
}

// A statement is one thing that the module declares. Is says what: import, from,
// def, class, alias or assign.
type statement struct {
	place
	Is         string      `json:"is"`
	Name       string      `json:"n"`
	Second     bool        `json:"second"` // in a branch that is less likely
	Module     string      `json:"module"`
	Imported   string      `json:"name"`
	Type       *expr       `json:"type"`
	Value      *expr       `json:"value"`
	Doc        *string     `json:"doc"`
	Generic    bool        `json:"generic"`
	Async      bool        `json:"async"`
	Params     []param     `json:"params"`
	Returns    *expr       `json:"returns"`
	Decorators []*expr     `json:"decorators"`
	Bases      []*expr     `json:"bases"`
	Keywords   []keyword   `json:"kw"`
	Body       []binding   `json:"body"`
	Classes    []statement `json:"classes"`
	Methods    []string    `json:"methods"`

	outer *statement // of a class in a class
}

// A module is a described source, with its names found.
type module struct {
	functions []*statement
	classes   []*statement
	names     map[string]*statement // what a name means in the end
	times     map[string]int        // how often a name is bound, outside of second branches
	stars     []string              // modules whose names are all imported
}

// decode reads the output of the script. A hostile source may have taken over the script,
// so its output is trusted no more than the source.
func decode(out []byte) (*module, error) {
	var doc struct {
		Module *struct {
			Statements []*statement `json:"statements"`
		} `json:"module"`
		Error *struct {
			Line    int    `json:"line"`
			Column  int    `json:"column"`
			Message string `json:"message"`
		} `json:"error"`
	}
	unreadable := place{1, 1}.fault("the reader of Python source gave no answer that makes sense")
	if len(out) > MaxOutput {
		return nil, unreadable
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, unreadable
	}
	if e := doc.Error; e != nil && e.Message != "" {
		return nil, place{e.Line, e.Column}.fault("%s",
			strings.ToValidUTF8(e.Message[:min(len(e.Message), maxMessage)], ""))
	}
	if doc.Module == nil || doc.Error != nil {
		return nil, unreadable
	}
	m := &module{names: map[string]*statement{}, times: map[string]int{}}
	for _, s := range doc.Module.Statements {
		if s != nil {
			m.add(s)
		}
	}
	return m, nil
}

// add takes in one statement.
func (m *module) add(s *statement) {
	switch s.Is {
	case "def":
		m.functions = append(m.functions, s)
	case "class":
		m.classes = append(m.classes, s)
		s.adopt(0)
	case "from":
		if s.Imported == "*" {
			m.stars = append(m.stars, s.Module)
			return
		}
	case "assign", "alias", "import":
	default:
		return
	}
	if old, ok := m.names[s.Name]; ok && s.Second && !old.Second {
		return
	}
	m.names[s.Name] = s
	if !s.Second {
		m.times[s.Name]++
	}
}

// adopt sets the outer class of the classes inside of s.
func (s *statement) adopt(depth int) {
	for i := range s.Classes {
		s.Classes[i].outer = s
		s.Classes[i].Is = "class"
		if depth < maxDepth {
			s.Classes[i].adopt(depth + 1)
		}
	}
}

// inner returns the class called name inside of s.
func (s *statement) inner(name string) *statement {
	for i := range s.Classes {
		if s.Classes[i].Name == name {
			return &s.Classes[i]
		}
	}
	return nil
}

// doc returns the docstring, and whether there is one.
func (s *statement) doc() (string, bool) {
	if s.Doc == nil || strings.TrimSpace(*s.Doc) == "" {
		return "", false
	}
	return *s.Doc, true
}

// keyword returns the value of a keyword of a call, or nil.
func (e *expr) keyword(name string) *expr { return findKeyword(e.Keywords, name) }

// findKeyword returns the value of a keyword, or nil.
func findKeyword(all []keyword, name string) *expr {
	for _, k := range all {
		if k.Name == name {
			return k.Value
		}
	}
	return nil
}

// is reports whether e is a constant of a type.
func (e *expr) is(typ string) bool { return e != nil && e.Kind == "const" && e.Type == typ }

// dotted returns a.b.c for names and attributes, or "".
func (e *expr) dotted() string {
	var parts []string
	for depth := 0; e != nil && depth < maxDepth; depth++ {
		switch e.Kind {
		case "name":
			parts = append(parts, e.Name)
			for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
				parts[i], parts[j] = parts[j], parts[i]
			}
			return strings.Join(parts, ".")
		case "attr":
			parts = append(parts, e.Name)
			e = e.Value
		default:
			return ""
		}
	}
	return ""
}

// show returns e as a person would write it, for messages. Constants and what
// goes too far are left out.
func (e *expr) show() string { return e.showAt(0) }

func (e *expr) showAt(depth int) string {
	if e == nil || depth > 8 {
		return "…"
	}
	list := func(all []*expr) string {
		var parts []string
		for i, a := range all {
			if i == 4 {
				parts = append(parts, "…")
				break
			}
			parts = append(parts, a.showAt(depth+1))
		}
		return strings.Join(parts, ", ")
	}
	switch e.Kind {
	case "name":
		return e.Name
	case "attr":
		return e.Value.showAt(depth+1) + "." + e.Name
	case "sub":
		return e.Value.showAt(depth+1) + "[" + list(e.Args) + "]"
	case "call":
		return e.Value.showAt(depth+1) + "(…)"
	case "list":
		return "[" + list(e.Args) + "]"
	case "tuple":
		return "(" + list(e.Args) + ")"
	case "binop":
		if e.Name == "BitOr" {
			return strings.ReplaceAll(list(e.Args), ", ", " | ")
		}
	case "const":
		if e.Type == "none" {
			return "None"
		}
		if e.Type == "ellipsis" {
			return "..."
		}
		if e.Parsed != nil {
			return e.Parsed.showAt(depth + 1)
		}
	}
	return "…"
}
