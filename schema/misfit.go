package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"haft"
	"haft/internal/jsontree"
)

// The bounds on what is said about a value.
const (
	maxMisfits = 50  // misfits, the last of which may count the rest
	maxListed  = 20  // names or values in one message
	maxQuoted  = 100 // characters of a name or a value of the schema
	maxToken   = 64  // characters of one token of a pointer
)

// Check holds a tree against the schema and returns every misfit at once, sorted
// by place. The messages speak of the schema and never hold the value. Names of
// properties are part of pointers; long ones are cut and control characters are
// escaped, because a name too can be an attack on who reads it.
func (c *Compiled) Check(v any) []haft.Misfit {
	p, nodes, bad := toPlain(v)
	if bad != nil {
		return []haft.Misfit{*bad}
	}
	if !c.affordable(c.root, p, nodes) {
		return []haft.Misfit{{Message: "is nested too deeply for the alternatives of the schema"}}
	}
	err := c.root.Validate(p)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok { // not reached: the library returns nothing else
		return []haft.Misfit{{Message: "does not fit the schema"}}
	}
	x := explainer{c: c, value: v}
	return tidy(x.explain(wrong))
}

// tidy sorts misfits, drops those that say the same, and bounds their number.
func tidy(all []haft.Misfit) []haft.Misfit {
	slices.SortFunc(all, func(a, b haft.Misfit) int {
		return cmp.Or(comparePointers(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	all = slices.Compact(all)
	if len(all) > maxMisfits {
		more := len(all) - maxMisfits + 1
		all = append(all[:maxMisfits-1:maxMisfits-1], haft.Misfit{Message: fmt.Sprintf("and %d more misfits", more)})
	}
	return all
}

// comparePointers orders pointers as a reader would: items by number.
func comparePointers(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.Atoi(as[i])
		y, errY := strconv.Atoi(bs[i])
		if errX == nil && errY == nil && x != y {
			return cmp.Compare(x, y)
		}
		if c := cmp.Compare(as[i], bs[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

// Pointer writes an RFC 6901 pointer. Tokens that are long are cut, and control
// characters are escaped: such a pointer still shows the place to a reader.
func Pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(printable(t, maxToken), "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// printable cuts s to n characters and escapes what does not print.
func printable(s string, n int) string {
	if len(s) <= n && strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if n--; n < 0 {
			b.WriteString("…")
			break
		}
		if unprintable(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unprintable reports whether r would change how a text is shown.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// explainer turns errors of the library into misfits.
type explainer struct {
	c     *Compiled
	value any
}

// explain flattens an error.
func (x *explainer) explain(e *jsonschema.ValidationError) []haft.Misfit {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return x.union(e, false)
	case *kind.OneOf:
		return x.union(e, len(k.Subschemas) > 0)
	case *kind.Required:
		return eachBelow(at, k.Missing, "is missing")
	case *kind.Dependency:
		return eachBelow(at, k.Missing, fmt.Sprintf("is missing; it is required when %s is given", quoted(k.Prop)))
	case *kind.DependentRequired:
		return eachBelow(at, k.Missing, fmt.Sprintf("is missing; it is required when %s is given", quoted(k.Prop)))
	case *kind.AdditionalProperties:
		return eachBelow(at, k.Properties, "is not a property here"+x.knownProperties(e.SchemaURL))
	case *kind.PropertyNames:
		return x.propertyName(e, k.Property)
	case *kind.Contains, *kind.MinContains:
		return []haft.Misfit{{Pointer: Pointer(at), Message: "holds too few items of the kind that must be there"}}
	}
	if len(e.Causes) > 0 {
		var all []haft.Misfit
		for _, c := range e.Causes {
			all = append(all, x.explain(c)...)
		}
		return all
	}
	if _, ok := e.ErrorKind.(*kind.FalseSchema); ok && strings.HasSuffix(e.SchemaURL, "/unevaluatedProperties") {
		return []haft.Misfit{{Pointer: Pointer(at), Message: "is not a property here"}}
	}
	return []haft.Misfit{{Pointer: Pointer(at), Message: problemText(e.ErrorKind)}}
}

// eachBelow makes a misfit for each name below at.
func eachBelow(at, names []string, message string) []haft.Misfit {
	all := make([]haft.Misfit, len(names))
	for i, n := range names {
		all[i] = haft.Misfit{Pointer: Pointer(append(at[:len(at):len(at)], n)), Message: message}
	}
	return all
}

// knownProperties lists the properties that the schema at url has.
func (x *explainer) knownProperties(url string) string {
	s := x.c.at[url]
	if s == nil || len(s.Properties) == 0 {
		return ""
	}
	names := x.c.facts[s].order
	return "; known are " + listed(names, func(n string) string { return printable(n, maxQuoted) })
}

// listed joins what f says about the first elements of list.
func listed[T any](list []T, f func(T) string) string {
	var parts []string
	for i, v := range list {
		if i == maxListed {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		parts = append(parts, f(v))
	}
	return strings.Join(parts, ", ")
}

// propertyName explains a name that may not be. The library gives a location that
// it goes on writing to, so that it is believed only if the name is there.
func (x *explainer) propertyName(e *jsonschema.ValidationError, name string) []haft.Misfit {
	at := slices.Clone(e.InstanceLocation)
	if _, ok := jsontree.At(x.value, append(slices.Clone(at), name)); !ok {
		at = nil
	}
	var why []string
	for _, c := range e.Causes {
		for _, m := range x.explain(c) {
			why = append(why, m.Message)
		}
	}
	slices.Sort(why)
	return eachBelow(at, []string{name}, "is not an acceptable name: it "+strings.Join(slices.Compact(why), "; it "))
}

// problemText says what is wrong in one place, without the value.
func problemText(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + typeWords(k.Want) + ", is " + article(k.Got)
	case *kind.Enum:
		if len(k.Want) == 1 {
			return "must be " + valueText(k.Want[0])
		}
		return "must be one of " + listed(k.Want, valueText)
	case *kind.Const:
		return "must be " + valueText(k.Want)
	case *kind.Format:
		return "must be " + formatWords(k.Want)
	case *kind.Pattern:
		return "must match the pattern " + printable(k.Want, 2*maxQuoted)
	case *kind.MinLength:
		return count("least", k.Want, "character", k.Got)
	case *kind.MaxLength:
		return count("most", k.Want, "character", k.Got)
	case *kind.MinItems:
		return count("least", k.Want, "item", k.Got)
	case *kind.MaxItems:
		return count("most", k.Want, "item", k.Got)
	case *kind.AdditionalItems:
		return "has " + plural(k.Count, "item") + " too many"
	case *kind.MaxContains:
		return "holds too many items of a kind: at most " + strconv.Itoa(k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("must not hold equal items; items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d properties, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d properties, has %d", k.Want, k.Got)
	case *kind.FalseSchema:
		return "must not be given"
	case *kind.Not:
		return "is what the schema excludes"
	case *kind.Minimum:
		return "must be at least " + boundText(k.Want)
	case *kind.Maximum:
		return "must be at most " + boundText(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + boundText(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + boundText(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + boundText(k.Want)
	}
	return "does not fit the schema"
}

// count says how many parts a value must have, and how many it has.
func count(bound string, want int, what string, got int) string {
	return fmt.Sprintf("must have at %s %s, has %d", bound, plural(want, what), got)
}

// plural writes "1 item" or "2 items".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// boundText writes a bound as people do.
func boundText(r *big.Rat) string {
	if r.IsInt() {
		return printable(r.Num().String(), maxQuoted)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// valueText writes a value of the schema.
func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return quoted(v)
	case []any:
		return "a certain array"
	case map[string]any:
		return "a certain object"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "a certain value"
	}
	return printable(string(text), maxQuoted)
}

// quoted writes a name or a text of the schema.
func quoted(s string) string { return `"` + printable(s, maxQuoted) + `"` }

// typeWords writes "an integer or null".
func typeWords(types []string) string {
	// The library knows integer beside number, which says the same twice.
	if slices.Contains(types, "number") {
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "integer" })
	}
	// null reads best at the end.
	if i := slices.Index(types, "null"); i >= 0 && len(types) > 1 {
		types = append(slices.Delete(slices.Clone(types), i, i+1), "null")
	}
	text := ""
	for i, t := range types {
		switch {
		case i > 0 && i == len(types)-1:
			text += " or "
		case i > 0:
			text += ", "
		}
		text += article(t)
	}
	return text
}

// article puts the article before the name of a type.
func article(typ string) string {
	switch typ {
	case "null":
		return "null"
	case "integer", "object", "array":
		return "an " + typ
	case "":
		return "something else"
	}
	return "a " + typ
}
