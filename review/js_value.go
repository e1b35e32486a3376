package review

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A script is the review of one source in JavaScript or TypeScript. It follows
// names through imports and assignments, whatever the order in which they run.
type script struct {
	n      *notes
	tokens []jsToken
	names  map[string]string // what a name stands for, as a path: child_process.exec
	texts  map[string]string // constants that are assigned once
	many   map[string]bool   // names that are assigned more than once
	uses   map[string]int    // modules, with the line
	closes []int             // of a bracket, where it closes
	inside []int             // of a token, the bracket that it stands in; -1 if none
	depth  int               // of constants in constants
}

// maxConstant bounds constants in constants.
const maxConstant = 60

// tok returns a token, jsEnd outside.
func (s *script) tok(i int) jsToken {
	if i < 0 || i >= len(s.tokens) {
		return jsToken{}
	}
	return s.tokens[i]
}

// is reports whether a token is this sign or name.
func (s *script) is(i int, text string) bool {
	t := s.tok(i)
	return (t.kind == jsPunct || t.kind == jsName) && t.text == text
}

// oneOf reports whether a token is one of these signs or names.
func (s *script) oneOf(i int, texts ...string) bool {
	t := s.tok(i)
	return (t.kind == jsPunct || t.kind == jsName) && slices.Contains(texts, t.text)
}

// close returns where the bracket that opens at i closes, or the end.
func (s *script) close(i int) int {
	if i >= 0 && i < len(s.closes) && s.closes[i] > 0 {
		return s.closes[i]
	}
	return len(s.tokens) - 1
}

// match finds out where brackets close.
func (s *script) match() {
	s.closes, s.inside = make([]int, len(s.tokens)), make([]int, len(s.tokens))
	var open []int
	for i, t := range s.tokens {
		if s.inside[i] = -1; len(open) > 0 {
			s.inside[i] = open[len(open)-1]
		}
		if t.kind != jsPunct {
			continue
		}
		switch t.text {
		case "(", "[", "{", "${":
			open = append(open, i)
		case ")", "]", "}":
			if n := len(open); n > 0 {
				s.closes[open[n-1]] = i
				open = open[:n-1]
			}
		}
	}
}

// How a constant came about.
const (
	jsWritten = iota // as one literal
	jsJoined         // from literals
	jsMade           // from codes, or by decoding
)

// constant reads a constant expression that begins at i. It returns the text, how
// it was made and the token after it.
func (s *script) constant(i int) (text string, made, end int, ok bool) {
	if s.depth++; s.depth > maxConstant {
		s.depth--
		return "", 0, i, false
	}
	defer func() { s.depth-- }()
	var b strings.Builder
	count := 0
	for {
		part, how, next, ok := s.operand(i)
		if !ok {
			return "", 0, i, false
		}
		count++
		made = max(made, how)
		b.WriteString(part)
		if b.Len() > maxWord || !s.is(next, "+") {
			end = next
			break
		}
		i = next + 1
	}
	if count > 1 {
		made = max(made, jsJoined)
	}
	return b.String(), made, end, true
}

// operand reads one operand of a constant expression.
func (s *script) operand(i int) (text string, made, end int, ok bool) {
	t := s.tok(i)
	switch {
	case t.kind == jsString && t.template && s.is(i+1, "${"):
		return "", 0, i, false
	case t.kind == jsString:
		text, end, ok = t.text, i+1, true
		if t.escapes > 2 {
			made = jsMade
		}
	case s.is(i, "("):
		text, made, end, ok = s.constant(i + 1)
		if ok = ok && s.is(end, ")"); ok {
			end++
		}
	case s.is(i, "["):
		text, made, end, ok = s.list(i)
	case t.kind == jsName:
		text, made, end, ok = s.function(i)
	}
	if !ok {
		return "", 0, i, false
	}
	return s.methods(text, made, end)
}

// function reads a function of constants, or a name of one.
func (s *script) function(i int) (string, int, int, bool) {
	t := s.tok(i)
	if v, known := s.texts[t.text]; known && !s.oneOf(i+1, "(", ".", "[", "?.") || known && s.is(i+1, ".") && s.oneOf(i+2, "split", "toString", "replace") {
		return v, jsWritten, i + 1, true
	}
	ref, end := s.path(i)
	if !s.is(end, "(") {
		return "", 0, i, false
	}
	closing := s.close(end)
	switch ref {
	case "atob", "decodeURIComponent", "unescape", "decodeURI", "Buffer.from":
		arg, _, next, ok := s.constant(end + 1)
		if !ok {
			return "", 0, i, false
		}
		how := map[string]string{"atob": "base64", "Buffer.from": "utf8"}[ref]
		if s.is(next, ",") && s.tok(next+1).kind == jsString {
			how = s.tok(next + 1).text
		}
		return decodeText(arg, how), jsMade, closing + 1, true
	case "String.fromCharCode", "String.fromCodePoint":
		var b strings.Builder
		for j := end + 1; j < closing; j++ {
			if s.tok(j).kind == jsNumber {
				if v, err := strconv.ParseUint(s.tok(j).text, 0, 21); err == nil {
					b.WriteRune(rune(v))
				}
			} else if s.tok(j).kind != jsPunct {
				return "", 0, i, false
			}
		}
		return b.String(), jsMade, closing + 1, true
	}
	return "", 0, i, false
}

// decodeText undoes an encoding. What does not decode stays as it is.
func decodeText(text, how string) string {
	switch strings.ToLower(how) {
	case "base64", "base64url":
		clean := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
		if out, err := base64.RawStdEncoding.DecodeString(clean); err == nil {
			return string(out)
		}
	case "hex":
		if out, err := hex.DecodeString(text); err == nil {
			return string(out)
		}
	case "":
		if out, err := url.PathUnescape(text); err == nil {
			return out
		}
	}
	return text
}

// list reads ["a", "b"].join("").
func (s *script) list(i int) (string, int, int, bool) {
	var parts []string
	j := i + 1
	for !s.is(j, "]") {
		text, _, next, ok := s.constant(j)
		if !ok || !s.oneOf(next, ",", "]") {
			return "", 0, i, false
		}
		parts = append(parts, text)
		j = next
		if s.is(j, ",") {
			j++
		}
	}
	j++
	if s.is(j, ".") && s.is(j+1, "reverse") && s.is(j+2, "(") && s.is(j+3, ")") {
		slices.Reverse(parts)
		j += 4
	}
	if !s.is(j, ".") || !s.is(j+1, "join") || !s.is(j+2, "(") {
		return "", 0, i, false
	}
	glue := ","
	if s.tok(j+3).kind == jsString {
		glue = s.tok(j + 3).text
	}
	return strings.Join(parts, glue), jsMade, s.close(j+2) + 1, true
}

// methods reads what is done to a constant: .split("").reverse().join("").
func (s *script) methods(text string, made, end int) (string, int, int, bool) {
	for s.is(end, ".") && s.is(end+2, "(") {
		closing := s.close(end + 2)
		arg := s.tok(end + 3)
		switch s.tok(end + 1).text {
		case "toString", "trim", "concat":
			if s.is(end+1, "concat") {
				more, _, _, ok := s.constant(end + 3)
				if !ok {
					return text, made, end, true
				}
				text, made = text+more, max(made, jsJoined)
			}
		case "split", "join":
		case "reverse":
			runes := []rune(text)
			slices.Reverse(runes)
			text, made = string(runes), jsMade
		case "toLowerCase":
			text = strings.ToLower(text)
		case "replace", "replaceAll":
			with := s.tok(end + 5)
			if arg.kind != jsString || with.kind != jsString || arg.text == "" || len(text)*(1+len(with.text)) > maxWord {
				return text, made, end, true
			}
			text, made = strings.ReplaceAll(text, arg.text, with.text), jsMade
		default:
			return text, made, end, true
		}
		end = closing + 1
	}
	return text, made, end, true
}

// maxPath bounds a chain of names. The dangerous ones are short.
const maxPath = 400

// globals are the names of the global object.
var globals = []string{"globalThis", "global", "window", "self", "this", "frames", "top"}

// path reads a chain of names such as a.b["c"] that begins at i, and returns what
// it stands for and the token after it.
func (s *script) path(i int) (string, int) {
	ref := s.tok(i).text
	if to, ok := s.names[ref]; ok {
		ref = to
	}
	j := i + 1
	if ref == "require" || ref == "import" {
		if m, end, ok := s.required(i); ok {
			ref, j = m, end
		}
	}
	for {
		switch {
		case len(ref) > maxPath:
			return trimGlobal(ref), j
		case s.oneOf(j, ".", "?.") && s.tok(j+1).kind == jsName:
			ref, j = ref+"."+s.tok(j+1).text, j+2
		case s.is(j, "[") || s.is(j, "?.") && s.is(j+1, "["):
			open := j
			if s.is(j, "?.") {
				open++
			}
			text, _, end, ok := s.constant(open + 1)
			if !ok || !s.is(end, "]") {
				return trimGlobal(ref), j
			}
			ref, j = ref+"."+text, end+1
		case s.is(j, "!") && s.oneOf(j+1, ".", "["): // TypeScript: it is not null
			j++
		default:
			return trimGlobal(ref), j
		}
	}
}

// required reads require("m") or import("m") at i, where the callee is one token.
func (s *script) required(i int) (string, int, bool) {
	if !s.is(i+1, "(") {
		return "", i, false
	}
	m, _, end, ok := s.constant(i + 2)
	if !ok {
		return "", i, false
	}
	_ = end // import may have options
	return module(m), s.close(i+1) + 1, true
}

// module is the name of a module without its scheme.
func module(name string) string {
	return strings.TrimPrefix(strings.TrimSuffix(name, "/promises"), "node:")
}

// trimGlobal removes the global object from a path.
func trimGlobal(ref string) string {
	for {
		head, rest, ok := strings.Cut(ref, ".")
		if !ok || !slices.Contains(globals, head) || head == "this" && rest == "constructor" {
			return ref
		}
		ref = rest
	}
}

// learn finds out what names stand for.
func (s *script) learn() {
	s.names, s.texts, s.many = map[string]string{}, map[string]string{}, map[string]bool{}
	for range 3 { // an alias of an alias of an alias
		for i, t := range s.tokens {
			switch {
			case t.kind == jsName && t.text == "import" && !s.oneOf(i-1, ".", "?."):
				s.imports(i)
			case s.is(i, "="):
				s.assigned(i)
			}
		}
	}
}

// imports reads an import statement.
func (s *script) imports(i int) {
	j := i + 1
	if s.is(j, "type") && s.tok(j+1).kind != jsEnd && !s.is(j+1, "from") {
		return // types are gone when it runs
	}
	for j < len(s.tokens) && j < i+400 && !s.is(j, "from") && s.tok(j).kind != jsString && !s.oneOf(j, ";", "(", "=") {
		j++
	}
	if !s.is(j, "from") || s.tok(j+1).kind != jsString {
		return
	}
	m := module(s.tok(j + 1).text)
	for k := i + 1; k < j; k++ {
		if s.tok(k).kind != jsName || s.is(k, "as") || s.is(k, "type") {
			continue
		}
		name, of := s.tok(k).text, m+"."+s.tok(k).text
		inside := s.oneOf(k-1, "{", ",") && !s.oneOf(k+1, "from") && k > i+1 && s.braced(i, k)
		switch {
		case s.is(k-1, "as") && s.is(k-2, "*"):
			of = m
		case s.is(k-1, "as"):
			of = m + "." + s.tok(k-2).text
		case s.is(k+1, "as"):
			continue
		case !inside:
			of = m
		}
		s.names[name] = strings.TrimSuffix(of, ".default")
	}
}

// braced reports whether k stands in braces that open after i.
func (s *script) braced(i, k int) bool {
	for j := k; j > i; j-- {
		if s.is(j, "{") {
			return true
		}
	}
	return false
}

// assigned reads name = value and { a, b: c } = value at the sign i.
func (s *script) assigned(i int) {
	left, right := i-1, i+1
	if s.is(right, "await") {
		right++
	}
	for s.is(right, "(") && s.oneOf(right+1, "await", "0", "import", "require") {
		right++
		if s.is(right, "await") {
			right++
		}
	}
	if s.tok(left).kind == jsName && !s.oneOf(left-1, ".", "?.") {
		name := s.tok(left).text
		if s.is(left-1, ":") { // name: type = value
			name = s.tok(left - 2).text
		}
		if text, _, end, ok := s.constant(right); ok && s.ends(end) {
			if had, known := s.texts[name]; known && had != text {
				s.many[name] = true
			}
			if s.texts[name] = text; s.many[name] {
				delete(s.texts, name)
			}
			return
		}
		if ref, end := s.path(right); s.tok(right).kind == jsName && (s.ends(end) || s.is(end, "(") && strings.HasSuffix(ref, ".bind")) {
			ref = strings.TrimSuffix(ref, ".bind")
			if ref != name && len(ref) < 200 && !strings.HasPrefix(ref, name+".") {
				s.names[name] = ref
			}
		} else if strings.HasSuffix(ref, "createRequire") {
			s.names[name] = "require"
		}
		return
	}
	if !s.is(left, "}") || s.tok(right).kind != jsName {
		return
	}
	ref, end := s.path(right)
	if !s.ends(end) {
		return
	}
	for j := left - 1; j > max(0, left-400) && !s.is(j, "{"); j-- {
		if s.tok(j).kind != jsName || s.is(j+1, ":") {
			continue
		}
		of := s.tok(j).text
		if s.is(j-1, ":") {
			of = s.tok(j - 2).text
		}
		if len(ref) < 200 {
			s.names[s.tok(j).text] = trimGlobal(ref + "." + of)
		}
	}
}

// ends reports whether an expression ends before i: what follows does not go on
// with it.
func (s *script) ends(i int) bool {
	t := s.tok(i)
	if t.kind == jsEnd || t.kind == jsPunct && slices.Contains([]string{";", ",", ")", "}", "]", "|", "&&", "||", "??", "!"}, t.text) {
		return true
	}
	return t.line > s.tok(i-1).line && !(t.kind == jsPunct && slices.Contains([]string{".", "?.", "(", "[", "+"}, t.text)) || t.kind == jsName && t.text == "as"
}
