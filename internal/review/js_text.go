package review

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"
	"github.com/grafana/sobek/token"
)

// maxEvaluated bounds the texts that are put together to learn what they are: one
// of 60 kB may be put together anew in every statement.
const maxEvaluated = 16 << 20

// constant returns the value of an expression that is always the same text.
func (r *resolver) constant(e ast.Expression) (jsText, bool) {
	t, ok := r.known.constants[e]
	switch {
	case ok:
	case r.evaluated > maxEvaluated:
		r.tooManyRefs = true
	default:
		value, constant := r.evaluate(e)
		if constant {
			t = &value
		}
		if value.made > jsWritten {
			r.evaluated += len(value.text)
		}
		r.known.constants[e] = t
	}
	if t == nil {
		return jsText{}, false
	}
	return *t, true
}

// evaluate is constant for an expression that is not known.
func (r *resolver) evaluate(e ast.Expression) (jsText, bool) {
	switch e := e.(type) {
	case *ast.StringLiteral:
		return r.literal(e.Value.String(), e.Idx), true
	case *ast.TemplateLiteral:
		return r.template(e)
	case *ast.Identifier:
		text, ok := r.texts[e.Name.String()]
		return jsText{text, jsWritten}, ok
	case *ast.SequenceExpression:
		return r.constant(e.Sequence[len(e.Sequence)-1])
	case *ast.BinaryExpression:
		if e.Operator != token.PLUS {
			return jsText{}, false
		}
		left, ok := r.constant(e.Left)
		if !ok {
			return jsText{}, false
		}
		right, ok := r.constant(e.Right)
		return left.join(right), ok && len(left.text)+len(right.text) <= maxWord
	case *ast.CallExpression:
		if text, ok := r.decoded(e); ok {
			return text, true
		}
		if text, ok := r.joined(e); ok {
			return text, true
		}
		return r.changed(e)
	}
	return jsText{}, false
}

// join puts two texts together.
func (t jsText) join(more jsText) jsText {
	return jsText{t.text + more.text, max(t.made, more.made, jsJoined)}
}

// literal returns the value of a string. esbuild puts literals together and reads
// their escapes, so how it was made is in the source.
func (r *resolver) literal(text string, at file.Idx) jsText {
	t := jsText{text: text}
	written := r.tree.written(at)
	switch characters, escapes := measureLiteral(written); {
	case written == "":
	case escapes > 2:
		t.made = jsMade
	case characters != utf8.RuneCountInString(t.text):
		t.made = jsJoined
	}
	return t
}

// measureLiteral returns how many characters a string literal has, and how many
// printable ones of them are written as escapes.
func measureLiteral(literal string) (characters, escapes int) {
	if len(literal) < 2 {
		return 0, 0
	}
	body := literal[1 : len(literal)-1]
	if !strings.Contains(body, `\`) {
		return utf8.RuneCountInString(body), 0
	}
	for _, c := range jsCharacter().FindAllString(body, -1) {
		if c != "\\\n" && c != "\\\r\n" {
			characters++
		}
		if len(c) < 3 || c[0] != '\\' {
			continue
		}
		base := 16
		if c[1] <= '7' {
			base = 8
		}
		if v, err := strconv.ParseUint(strings.Trim(c, `\xu{}`), base, 32); err == nil && v > ' ' && v < 0x7f {
			escapes++
		}
	}
	return characters, escapes
}

// jsCharacter finds one character of a string, or an escape.
var jsCharacter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]+\}|[0-7]{1,3}|\r\n|.)|.`)
})

// template returns the value of a template whose parts are constants.
func (r *resolver) template(e *ast.TemplateLiteral) (jsText, bool) {
	if e.Tag != nil {
		return jsText{}, false
	}
	if len(e.Expressions) == 0 && len(e.Elements) == 1 {
		return r.literal(e.Elements[0].Parsed.String(), e.OpenQuote), true
	}
	var t jsText
	for i, part := range e.Elements {
		t.text += part.Parsed.String()
		if i < len(e.Expressions) {
			value, ok := r.constant(e.Expressions[i])
			if t = t.join(value); !ok || len(t.text) > maxWord {
				return t, false
			}
		}
	}
	return t, true
}

// decoded returns the value of a call that makes text from codes or from another
// text, such as atob.
func (r *resolver) decoded(call *ast.CallExpression) (jsText, bool) {
	for _, ref := range r.refs(call.Callee) {
		switch ref {
		case "atob", "decodeURIComponent", "unescape", "decodeURI", "Buffer.from":
			arg, ok := r.argument(call, 0)
			if !ok {
				return jsText{}, false
			}
			how := map[string]string{"atob": "base64", "Buffer.from": "utf8"}[ref]
			if second, ok := r.argument(call, 1); ok {
				how = second.text
			}
			return jsText{decodeText(arg.text, how), jsMade}, true
		case "String.fromCharCode", "String.fromCodePoint":
			var b strings.Builder
			for _, arg := range call.ArgumentList {
				number, ok := arg.(*ast.NumberLiteral)
				if !ok {
					return jsText{}, false
				}
				if v, err := strconv.ParseUint(number.Literal, 0, 21); err == nil {
					b.WriteRune(rune(v))
				}
			}
			return jsText{b.String(), jsMade}, true
		}
	}
	return jsText{}, false
}

// argument returns an argument of a call, if it is constant.
func (r *resolver) argument(call *ast.CallExpression, i int) (jsText, bool) {
	if i >= len(call.ArgumentList) {
		return jsText{}, false
	}
	return r.constant(call.ArgumentList[i])
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

// joined returns the value of ["a", "b"].join("").
func (r *resolver) joined(call *ast.CallExpression) (jsText, bool) {
	callee, ok := unwrap(call.Callee).(*ast.DotExpression)
	if !ok || callee.Identifier.Name != "join" {
		return jsText{}, false
	}
	list, ok := r.list(callee.Left)
	glue, given := r.argument(call, 0)
	if !given {
		glue.text = ","
	}
	text := strings.Join(list, glue.text)
	return jsText{text, jsMade}, ok && len(text) <= maxWord
}

// changed returns the value of a method that makes another text of a constant.
func (r *resolver) changed(call *ast.CallExpression) (jsText, bool) {
	callee, ok := unwrap(call.Callee).(*ast.DotExpression)
	if !ok {
		return jsText{}, false
	}
	t, ok := r.constant(callee.Left)
	if !ok {
		return t, false
	}
	text := t.text
	switch callee.Identifier.Name {
	case "toString", "valueOf":
		return t, true
	case "trim":
		text = strings.TrimSpace(text)
	case "toLowerCase":
		text = strings.ToLower(text)
	case "toUpperCase":
		text = strings.ToUpper(text)
	case "concat":
		for i := range call.ArgumentList {
			more, ok := r.argument(call, i)
			if text += more.text; !ok || len(text) > maxWord {
				return t, false
			}
		}
	case "replace", "replaceAll":
		from, constant := r.argument(call, 0)
		to, ok := r.argument(call, 1)
		if !constant || !ok || from.text == "" || len(to.text) > len(from.text) {
			return t, false
		}
		text = strings.Replace(text, from.text, to.text, 1)
		if callee.Identifier.Name == "replaceAll" {
			text = strings.ReplaceAll(text, from.text, to.text)
		}
	case "slice", "substring", "substr":
		number := func(i, without int) int {
			if i < len(call.ArgumentList) {
				n, ok := call.ArgumentList[i].(*ast.NumberLiteral)
				if without = -1; ok {
					if v, err := strconv.Atoi(n.Literal); err == nil {
						without = min(v, len(text))
					}
				}
			}
			return without
		}
		from, to := number(0, 0), number(1, len(text))
		if callee.Identifier.Name == "substr" && len(call.ArgumentList) > 1 {
			to = min(from+to, len(text))
		}
		if from < 0 || to < from {
			return t, false
		}
		text = text[from:to]
	default:
		return t, false
	}
	return jsText{text, jsMade}, true
}

// list returns the elements of a constant list.
func (r *resolver) list(e ast.Expression) ([]string, bool) {
	switch e := e.(type) {
	case *ast.ArrayLiteral:
		var all []string
		for _, element := range e.Value {
			t, ok := r.constant(element)
			if !ok {
				return nil, false
			}
			all = append(all, t.text)
		}
		return all, true
	case *ast.CallExpression:
		callee, ok := unwrap(e.Callee).(*ast.DotExpression)
		if !ok {
			return nil, false
		}
		switch callee.Identifier.Name {
		case "reverse":
			all, ok := r.list(callee.Left)
			slices.Reverse(all)
			return all, ok
		case "split":
			t, ok := r.constant(callee.Left)
			separator, constant := r.argument(e, 0)
			r.evaluated += len(t.text) * 16 // a part takes as much beside its text
			return strings.Split(t.text, separator.text), ok && constant
		}
	}
	return nil, false
}
