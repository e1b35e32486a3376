package bounds

import "fmt"

// Limits bound a whole text. A field that is 0 bounds nothing; of Depth it means as
// deep as encoding/json reads.
type Limits struct {
	// Values is how many there are in all: numbers, texts, literals, arrays and
	// objects.
	Values int
	// Depth is how deep arrays and objects nest.
	Depth int
	// Members is how many one object has, and Name how many bytes a name has.
	Members int
	Name    int
	// Number is how many characters a number has.
	Number int
}

// The limits on what anybody sends, see [Default].
const (
	// MaxValues is far more than a model writes, and a body that has so many of
	// the smallest costs a server some tens of megabytes for a moment.
	MaxValues  = 100_000
	MaxDepth   = 200
	MaxMembers = 50_000
	MaxName    = 64 << 10
	MaxNumber  = 4300 // as CPython reads them
)

// deepest is how deep encoding/json reads.
const deepest = 10_000

// Default returns the limits on what anybody sends.
func Default() Limits {
	return Limits{Values: MaxValues, Depth: MaxDepth, Members: MaxMembers, Name: MaxName, Number: MaxNumber}
}

// A Shape bounds the value at one place, and the places within it. Nil leaves the
// place to the limits on the whole. A Shape must not change once it is used.
type Shape struct {
	// Text is how many characters a text has, Items how many elements an array
	// and Members how many members an object. 0 bounds nothing.
	Text, Items, Members int
	// Name is how many bytes the name of a member has that is no field.
	Name int
	// Item is the shape of every element, and Rest that of members that are no
	// fields.
	Item, Rest *Shape
	// Closed objects have no members but fields.
	Closed bool

	fields map[string]field
}

// A field is a member that has a shape of its own.
type field struct {
	shape *Shape
	name  []byte
	bit   uint64 // by which it is noticed that it stands there twice
}

// MaxFields is how many fields a [Shape] can have.
const MaxFields = 64

// Field gives a member a shape. It panics if there are more than [MaxFields], which
// is a mistake of the programmer.
func (s *Shape) Field(name string, of *Shape) {
	if s.fields == nil {
		s.fields = map[string]field{}
	}
	if _, ok := s.fields[name]; !ok && len(s.fields) == MaxFields {
		panic(fmt.Sprintf("bounds: more than %d fields", MaxFields))
	}
	s.fields[name] = field{of, []byte(name), 1 << len(s.fields)}
}
