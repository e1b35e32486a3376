package review

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A word is what is known of a word of shell.
type word struct {
	text  string // if it is known
	shown string // the parts that are known, one after another
	lead  string // what it begins with, as far as that is known
	known bool
	// encoded: it is spelled in a way that hides it.
	encoded bool
	// variable: it begins with a variable that may be empty, and what follows.
	variable bool
	rest     string
	quoted   bool // that variable is in quotes
	substs   []*syntax.CmdSubst
	procs    []*syntax.ProcSubst
}

// maxWord bounds a word that is put together.
const maxWord = 64 << 10

// word reads a word, following variables that are set to constants.
func (s *shellScript) word(w *syntax.Word) word { return s.follow(w, 0) }

func (s *shellScript) follow(w *syntax.Word, depth int) word {
	if !s.step(w) {
		return word{}
	}
	out := word{known: depth < 8}
	var b strings.Builder
	literal, pieces := 0, 0
	for i, p := range w.Parts {
		pieces++
		switch p := p.(type) {
		case *syntax.Lit:
			text := unescape(p.Value)
			if strings.Contains(strings.TrimPrefix(p.Value, `\`), `\`) && depth == 0 &&
				strings.Trim(text, letters) == "" {
				out.encoded = true
			}
			literal++
			b.WriteString(text)
		case *syntax.SglQuoted:
			text := p.Value
			if p.Dollar {
				var hidden bool
				text, hidden = ansiC(p.Value)
				out.encoded = out.encoded || hidden
			}
			literal++
			b.WriteString(text)
		case *syntax.DblQuoted:
			inner := s.parts(p.Parts, depth)
			out.take(inner, i == 0, true)
			if inner.known {
				literal++
			}
			b.WriteString(inner.text)
		default:
			inner := s.parts([]syntax.WordPart{p}, depth)
			out.take(inner, i == 0, false)
			b.WriteString(inner.text)
		}
		if !out.known && out.lead == "" && !out.variable {
			out.lead = b.String()
		}
		if b.Len() > maxWord {
			out.known = false
			break
		}
	}
	out.shown = b.String()
	if out.variable {
		out.rest = out.shown
	}
	if out.known {
		out.text = b.String()
		out.lead = out.text
		// e'v'al and c""url: nobody writes that to be read.
		if literal == pieces && pieces > 1 && depth == 0 && strings.Trim(out.text, letters) == "" {
			out.encoded = true
		}
	}
	if len(out.text) > maxWord {
		out.text, out.known = "", false
	}
	return out
}

// letters are those of names of commands.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// take adds what is known of a part.
func (w *word) take(part word, first, quoted bool) {
	w.known = w.known && part.known
	w.encoded = w.encoded || part.encoded
	w.substs = append(w.substs, part.substs...)
	w.procs = append(w.procs, part.procs...)
	if first && part.variable {
		w.variable, w.quoted = true, quoted
		w.rest = part.rest
	}
	if first && w.lead == "" {
		w.lead = part.lead
	}
}

// parts reads the parts of a word or of a text in quotes.
func (s *shellScript) parts(parts []syntax.WordPart, depth int) word {
	out := word{known: true}
	var b strings.Builder
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, "\\\n", ""))
		case *syntax.ParamExp:
			v := s.variable(p, depth)
			out.take(v, i == 0, false)
			b.WriteString(v.text)
		case *syntax.CmdSubst:
			v := s.subst(p, depth)
			out.take(v, false, false)
			b.WriteString(v.text)
		case *syntax.ProcSubst:
			out.known = false
			out.procs = append(out.procs, p)
		default:
			out.known = false
		}
		if !out.known && out.lead == "" {
			out.lead = b.String()
		}
	}
	out.text = b.String()
	if out.known {
		out.lead = out.text
	}
	out.rest = out.text
	return out
}

// variable reads an expansion.
func (s *shellScript) variable(p *syntax.ParamExp, depth int) word {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	fallback := word{}
	if p.Exp != nil && p.Exp.Word != nil {
		switch p.Exp.Op {
		case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
			return word{} // it is there, or the script ends
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
			fallback = s.follow(p.Exp.Word, depth+1)
		}
	} else if p.Exp != nil {
		return word{}
	}
	if name == "IFS" {
		return word{text: " ", known: true, encoded: true}
	}
	bound := s.values[name]
	if len(bound) == 1 && bound[0] != nil && depth < 8 && plainParam(p) {
		v := s.follow(bound[0], depth+1)
		v.variable = v.known && v.text == "" || !v.known && !filled(bound[0])
		v.rest = ""
		return v
	}
	if fallback.known && fallback.text != "" {
		return fallback
	}
	switch name {
	case "HOME":
		return word{lead: "~", text: "~"}
	case "PWD", "@", "*":
		return word{}
	}
	return word{variable: true}
}

// plainParam reports whether an expansion is the value itself.
func plainParam(p *syntax.ParamExp) bool {
	return p.Exp == nil && p.Repl == nil && p.Slice == nil && p.Index == nil && !p.Length && !p.Excl
}

// filled reports whether a value that is not known is surely not empty, such as
// what mktemp prints.
func filled(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if q, ok := p.(*syntax.DblQuoted); ok && len(q.Parts) > 0 {
			p = q.Parts[0]
		}
		switch p := p.(type) {
		case *syntax.Lit:
			return p.Value != ""
		case *syntax.CmdSubst:
			return len(p.Stmts) == 1 && strings.HasPrefix(printed(p.Stmts[0]), "mktemp")
		}
	}
	return false
}

// subst reads what a command prints, if that is a constant: $(echo eval).
func (s *shellScript) subst(c *syntax.CmdSubst, depth int) word {
	out := word{substs: []*syntax.CmdSubst{c}}
	if len(c.Stmts) != 1 || depth >= 8 {
		return out
	}
	call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) < 2 {
		return out
	}
	name := s.follow(call.Args[0], depth+1)
	if name.text != "echo" && name.text != "printf" {
		return out
	}
	var words []string
	for _, a := range call.Args[1:] {
		w := s.follow(a, depth+1)
		if !w.known {
			return out
		}
		if !strings.HasPrefix(w.text, "-") {
			text, _ := ansiC(w.text)
			words = append(words, text)
		}
	}
	if name.text == "printf" && len(words) > 1 && strings.Contains(words[0], "%") {
		words = []string{strings.Join(words[1:], "")}
	}
	return word{text: strings.Join(words, " "), known: true, encoded: true, substs: out.substs}
}

// unescape removes backslashes as the shell does.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// ansiC reads the escapes of $'...', and reports whether printable characters are
// among them.
func ansiC(text string) (string, bool) {
	if !strings.Contains(text, `\`) {
		return text, false
	}
	var b strings.Builder
	hidden := false
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 >= len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		base, most, at := 0, 0, i+1
		switch c := text[i]; {
		case c == 'x':
			base, most = 16, 2
		case c == 'u':
			base, most = 16, 4
		case c == 'U':
			base, most = 16, 8
		case c >= '0' && c <= '7':
			base, most, at = 8, 3, i
			if c == '0' {
				most = 4
			}
		default:
			b.WriteString(map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'e': "\x1b", 'E': "\x1b",
				'b': "\b", 'f': "\f", 'v': "\v"}[c])
			if !strings.ContainsRune("ntraeEbfv", rune(c)) {
				b.WriteByte(c)
			}
			continue
		}
		end := at
		for end < len(text) && end-at < most && strings.IndexByte(
			"0123456789abcdefABCDEF"[:map[int]int{8: 8, 16: 22}[base]], text[end]) >= 0 {
			end++
		}
		v, err := strconv.ParseUint(text[at:end], base, 32)
		if err != nil || v > utf8.MaxRune {
			b.WriteByte(text[i])
			continue
		}
		hidden = hidden || v > ' ' && v < 0x7f
		b.WriteRune(rune(v))
		i = end - 1
	}
	return b.String(), hidden
}

// printed is a node as it is written, to compare.
func printed(n syntax.Node) string {
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.Minify(true)).Print(&b, n); err != nil {
		return ""
	}
	return strings.Trim(b.String(), `"`)
}
