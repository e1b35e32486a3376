package schemacase

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"haft"
	"haft/schema"
)

// Kind says what is special about the arguments of a case.
type Kind string

// The kinds of arguments.
const (
	Valid     Kind = "valid"     // fit the schema
	Boundary  Kind = "boundary"  // fit it, with the least and the most that it allows
	Hostile   Kind = "hostile"   // fit it, with text that is dangerous where it is not expected
	Invalid   Kind = "invalid"   // do not fit it, by one mistake
	Malformed Kind = "malformed" // are no JSON object
)

// kinds is the order in which cases come.
var kinds = [...]Kind{Valid, Boundary, Hostile, Invalid, Malformed}

// tries bounds how often a value is made anew that did not become what it should.
const tries = 30

// A Case is one set of arguments.
type Case struct {
	// Kind is what the arguments became, which is Valid where the schema allows no other.
	Kind Kind
	// Args is the text of the arguments. It is no JSON if Kind is Malformed.
	Args json.RawMessage
	// Why says in words what is special, such as "city is missing".
	Why string
}

// A Generator makes cases from one schema. It is safe for concurrent use.
type Generator struct {
	root     *schema.Object
	compiled *schema.Compiled
	seed     uint64
}

// New reads the schema of a tool's parameters. It is an error if no arguments can be made that fit,
// which happens with references that never end and with patterns that look around.
func New(parameters []byte, seed uint64) (*Generator, error) {
	tree, err := schema.Decode(parameters)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	root, ok := tree.(*schema.Object)
	if !ok {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the schema of parameters is not an object"}
	}
	compiled, err := schema.Compile(root)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	g := &Generator{root: root, compiled: compiled, seed: seed}
	if _, ok := g.fitting(g.random(0), Valid); !ok {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "no arguments can be made that fit this schema: " +
			"give its parameters examples"}
	}
	return g, nil
}

// Case returns the case with number i.
func (g *Generator) Case(i int) Case {
	r := g.random(i)
	kind := kinds[i%len(kinds)]
	if kind == Boundary || kind == Hostile {
		if args, ok := g.fitting(r, kind); ok {
			return makeCase(kind, args, "")
		}
		kind = Valid
	}
	args, ok := g.fitting(r, Valid)
	if !ok { // New has seen one
		args, _ = g.fitting(g.random(0), Valid)
	}
	switch kind {
	case Invalid:
		if c, ok := g.mistake(r, args); ok {
			return c
		}
	case Malformed:
		return malformed(r, args)
	}
	return makeCase(Valid, args, "")
}

// random returns the source of case i.
func (g *Generator) random(i int) *rand.Rand { return rand.New(rand.NewPCG(g.seed, uint64(i))) }

// fitting makes arguments of one kind that fit the schema.
func (g *Generator) fitting(r *rand.Rand, kind Kind) (*schema.Object, bool) {
	for range tries {
		m := maker{r: r, root: g.root, kind: kind}
		args, ok := m.value(g.root, 0).(*schema.Object)
		if ok && (kind != Hostile || m.hostile) && len(g.compiled.Check(args)) == 0 {
			return args, true
		}
	}
	return nil, false
}

func makeCase(kind Kind, args *schema.Object, why string) Case {
	text, err := schema.Encode(args)
	if err != nil { // a tree of this package has nothing that cannot be written
		text = json.RawMessage("{}")
	}
	return Case{Kind: kind, Args: text, Why: why}
}
