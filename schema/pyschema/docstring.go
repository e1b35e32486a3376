package pyschema

import (
	"regexp"
	"strings"
	"sync"
)

// docText is what a docstring says.
type docText struct {
	// description is the text before and between the sections, and the examples.
	description string
	// params are the texts about parameters or attributes, by name.
	params map[string]string
	// types are the types that it gives parameters, by name.
	types map[string]string
	// returns is the text about the value; returnType its type, if that is written
	// there.
	returns, returnType string
}

// parseDoc reads a docstring in Google, NumPy, reST or Epydoc form. The forms
// differ in every line, so they may be mixed.
func parseDoc(raw string) docText {
	p := docParser{lines: clean(raw), doc: docText{params: map[string]string{}, types: map[string]string{}}}
	for p.next < len(p.lines) {
		line := p.lines[p.next]
		switch {
		case p.underlined():
			name := section(strings.TrimRight(strings.TrimSpace(line), ":"))
			p.next += 2
			p.numpy(name)
		case p.google(line):
		case fieldLine().MatchString(line):
			p.field()
		default:
			p.text = append(p.text, line)
			p.next++
		}
	}
	parts := []string{strings.TrimSpace(gaps().ReplaceAllString(strings.Join(p.text, "\n"), "\n\n"))}
	for _, e := range p.examples {
		parts = append(parts, "Examples:\n"+e)
	}
	p.doc.description = strings.TrimSpace(strings.Join(parts, "\n\n"))
	return p.doc
}

// gaps are the empty lines that sections leave behind. Like all expressions here
// they are compiled when they are first needed: a sandbox's init is this program
// too, and pays for everything that is done before main.
var gaps = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\n{3,}`)
})

// docParser goes through the lines of a docstring.
type docParser struct {
	lines    []string
	next     int
	text     []string
	examples []string
	doc      docText
}

// clean takes the common indentation off a docstring, as inspect.cleandoc does:
// the first line does not count, tabs are eight columns. Unlike there, lines at
// the very left do not count in a text that begins indented: they come from a \n
// that is written in the docstring.
func clean(raw string) []string {
	raw = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(raw)
	lines := strings.Split(raw, "\n")
	margin := -1
	for i, l := range lines {
		lines[i] = strings.TrimRight(untab(l), " \t\f")
		if i > 0 && lines[i] != "" {
			n := indent(lines[i])
			if margin < 0 || n < margin && n > 0 {
				margin = n
			}
		}
	}
	for i := range lines {
		switch rest := strings.TrimLeft(lines[i], " "); {
		case i == 0 || rest == "":
			lines[i] = rest
		case indent(lines[i]) < margin:
			lines[i] = strings.Repeat(" ", indent(lines[i-1])) + rest // it goes on with the line before
		default:
			lines[i] = lines[i][max(margin, 0):]
		}
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	return lines
}

// untab writes the tabs at the start of a line as blanks.
func untab(l string) string {
	n := 0
	for i := 0; i < len(l); i++ {
		switch l[i] {
		case ' ':
			n++
		case '\t':
			n += 8 - n%8
		default:
			return strings.Repeat(" ", n) + l[i:]
		}
	}
	return ""
}

// indent returns the number of blanks at the start of a line.
func indent(l string) int { return len(l) - len(strings.TrimLeft(l, " ")) }

// section returns what a title of a section stands for: params, returns,
// examples, other; or "" if it is not one.
func section(title string) string {
	switch strings.ToLower(title) {
	case "args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters",
		"attributes", "fields", "members":
		return "params"
	case "returns", "return", "yields", "yield":
		return "returns"
	case "example", "examples":
		return "examples"
	case "raises", "raise", "except", "exceptions", "warns", "warnings", "warning", "note", "notes", "see also",
		"references", "todo", "methods", "receives":
		return "other"
	}
	return ""
}

// google reads a section that begins with "Args:" if one begins here, with its
// indented text, and reports whether it did.
func (p *docParser) google(line string) bool {
	title, rest, ok := strings.Cut(line, ":")
	name := section(title)
	if !ok || name == "" || indent(line) > 0 || title[:1] == strings.ToLower(title[:1]) {
		return false
	}
	rest = strings.TrimSpace(rest)
	if rest != "" && (p.next == 0 || name == "params") {
		return false // a summary such as "Returns: nothing", or a sentence
	}
	p.next++
	body := p.block(name == "params")
	if rest != "" {
		body = append([]string{rest}, body...)
	}
	p.section(name, body)
	return true
}

// block takes the lines that are indented, with the empty ones between them. They
// may also stand without indentation, as careless writers do, up to an empty line.
func (p *docParser) block(items bool) []string {
	start := p.next
	flush := p.next < len(p.lines) && p.lines[p.next] != "" && indent(p.lines[p.next]) == 0 &&
		(!items || item(p.lines[p.next]).name != "") && !p.begins()
	for p.next < len(p.lines) {
		l := p.lines[p.next]
		if l == "" && flush {
			break
		}
		if l != "" && indent(l) == 0 && (!flush || p.begins()) {
			break
		}
		p.next++
	}
	return dedent(p.lines[start:p.next])
}

// begins reports whether a section begins at the next line.
func (p *docParser) begins() bool {
	title, _, ok := strings.Cut(p.lines[p.next], ":")
	return ok && section(title) != "" || p.underlined() || fieldLine().MatchString(p.lines[p.next])
}

// section takes in the text of a section.
func (p *docParser) section(name string, body []string) {
	switch name {
	case "params":
		p.items(body)
	case "returns":
		p.returned(body)
	case "examples":
		if text := strings.Join(body, "\n"); strings.TrimSpace(text) != "" {
			p.examples = append(p.examples, text)
		}
	}
}

// returned reads "type: text", "type" or "text".
func (p *docParser) returned(body []string) {
	if len(body) == 0 {
		return
	}
	text := strings.TrimSpace(body[0] + "\n" + strings.Join(dedent(body[1:]), "\n"))
	if typ, rest, ok := strings.Cut(text, ":"); ok && typeLike().MatchString(typ) &&
		(rest == "" || rest[0] == ' ' || rest[0] == '\n') {
		p.doc.returnType = strings.TrimSpace(typ)
		text = strings.TrimSpace(rest)
	}
	p.doc.returns = text
}

// typeLike is what looks like a type and not like the start of a sentence.
var typeLike = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][\w.]*(\[[^\n]*\])?( ?\| ?[A-Za-z_][\w.]*(\[[^\n]*\])?)*( or None)?$`)
})

// items reads "name (type): text" with text that may go on, further indented.
func (p *docParser) items(body []string) {
	var names []string
	var text []string
	base := 0
	flush := func() {
		for _, n := range names {
			p.add(n, text)
		}
		names, text = nil, nil
	}
	for i, l := range body {
		it := item(l)
		if l != "" && it.name != "" && (names == nil || indent(l) <= base) {
			flush()
			names, text, base = []string{it.name}, []string{it.text}, indent(l)
			p.doc.types[it.name] = it.typ
			continue
		}
		// "name (type)" alone on its line, the text below it
		if l != "" && names == nil && i+1 < len(body) && bareName().MatchString(strings.TrimSpace(l)) {
			names, base = []string{strings.TrimSpace(l)}, indent(l)
			continue
		}
		if names != nil {
			text = append(text, l)
		}
	}
	flush()
}

// add keeps the text about a parameter: its first line, and the rest without the
// common indentation.
func (p *docParser) add(name string, text []string) {
	if len(text) == 0 {
		return
	}
	rest := dedent(text[1:])
	whole := strings.TrimSpace(text[0] + "\n" + strings.Join(rest, "\n"))
	if whole != "" && p.doc.params[name] == "" {
		p.doc.params[name] = whole
	}
}

// bareName is a name that stands alone.
var bareName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_]*$`)
})

// docItem is the first line of an item.
type docItem struct{ name, typ, text string }

// itemName is how an item begins: a bullet, stars, quotes.
var itemName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^(?:[-*+] +)?[`*]*([\\p{L}_][\\p{L}\\p{N}_]*)[`*]*")
})

// item reads "name (type): text", or gives nothing.
func item(line string) docItem {
	l := strings.TrimSpace(line)
	m := itemName().FindStringSubmatch(l)
	if m == nil {
		return docItem{}
	}
	it := docItem{name: m[1]}
	rest := strings.TrimLeft(l[len(m[0]):], " ")
	if strings.HasPrefix(rest, "(") {
		depth := 0
		for i := 0; i < len(rest); i++ {
			if rest[i] == '(' || rest[i] == '[' {
				depth++
			}
			if rest[i] == ')' || rest[i] == ']' {
				depth--
			}
			if depth == 0 {
				it.typ = rest[1:i]
				rest = strings.TrimLeft(rest[i+1:], " `*")
				break
			}
		}
	}
	switch {
	case strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "::"):
		it.text = strings.TrimSpace(rest[1:])
	case strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "– ") || strings.HasPrefix(rest, "-- "):
		it.text = strings.TrimSpace(strings.TrimLeft(rest, "-–"))
	default:
		return docItem{}
	}
	return it
}

// dedent takes the common indentation off lines, and empty lines off the ends.
func dedent(lines []string) []string {
	margin := -1
	for _, l := range lines {
		if l != "" && (margin < 0 || indent(l) < margin) {
			margin = indent(l)
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l[min(len(l), max(margin, 0)):]
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	for len(out) > 0 && out[0] == "" {
		out = out[1:]
	}
	return out
}
