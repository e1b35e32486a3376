package tsschema

import "haft/internal/javascript"

// op says what a type is made of.
type op uint8

const (
	oName    op = iota // a name with arguments: string, Foo, Array<T>
	oLiteral           // a value that is its own type
	oArray
	oTuple
	oObject
	oUnion
	oIntersection
	oTemplate // text, then a type, then text …
	oKeyof
	oIndexed // T["a"]
	oTypeof  // of a variable, and what is written behind dots in texts
	oRefined // a type with what doc says about it
	oFunction
	oImport  // import("module").Name
	oRefused // something that has no schema; name says what to do
)

// A node is a type as it is written.
type node struct {
	op      op
	at      int     // where it begins, in bytes
	name    string  // of oName, oTypeof, oImport (its module) and oRefused (its message)
	kids    []*node // arguments, elements, alternatives, operands
	value   any     // of oLiteral, as JSON
	members []*member
	index   *node    // what an object's index signature allows
	texts   []string // of oTemplate, one more than kids; of oTypeof
	elems   []elem   // of oTuple, one for each of kids
	params  []*param // of oFunction
	result  *node    // of oFunction
	doc     *doc     // of oRefined
}

// elem is what a tuple says about an element besides its type.
type elem struct {
	label          string
	optional, rest bool
}

// A member is a property of an object type.
type member struct {
	name     string
	at       int
	optional bool
	typ      *node // nil where none is written
	doc      *doc  // nil where there is none
}

// A param is a parameter of a function.
type param struct {
	name     string // "" for a pattern
	at       int
	optional bool
	rest     bool
	typ      *node // nil where none is written
	pattern  []*binding
	object   bool // the pattern is an object's
	fallback *defaultValue
}

// A binding is a name that an object pattern takes out of its object.
type binding struct {
	name     string
	at       int
	fallback *defaultValue
}

// A defaultValue is a default value.
type defaultValue struct {
	value any // as JSON, if known
	known bool
}

// A function is a declaration that can be a tool.
type function struct {
	name     string // "" where it has none
	at       int
	exported []string // the names under which a module exports it
	async    bool
	generic  bool
	params   []*param
	result   *node
	context  *node // the type that it was given as a whole, or nil
	doc      *doc
	bodiless bool // an overload
	err      *problem
}

// A decl is a named type.
type decl struct {
	name    string
	at      int
	typ     *node
	extends []*node // of an interface
	doc     *doc
	generic bool
	enum    bool // its alternatives have names
	err     *problem
}

// A file is what a source declares at its top level.
type file struct {
	functions     []*function
	types         map[string]*decl
	vars          map[string]*constVar
	source        *javascript.Source
	copiedMembers int               // properties of schemas that went into others
	imports       map[string]string // name → module
	aliases       []alias           // export { a as b }
}

// alias exports a declared name under another one.
type alias struct {
	name, as string
	at       int
}

// A problem is something wrong at a place.
type problem struct {
	at      int
	message string
}
