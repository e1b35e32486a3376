package pyschema

import (
	"regexp"
	"strings"
	"sync"
)

// underlined reports whether the next line is a title in NumPy form.
func (p *docParser) underlined() bool {
	if p.next+1 >= len(p.lines) {
		return false
	}
	line := strings.TrimRight(strings.TrimSpace(p.lines[p.next+1]), " ")
	return len(line) >= 3 && strings.Trim(line, "-") == "" && indent(p.lines[p.next]) == 0 &&
		section(strings.TrimRight(strings.TrimSpace(p.lines[p.next]), ":")) != ""
}

// numpy reads the text of a section up to the next title.
func (p *docParser) numpy(name string) {
	start := p.next
	for p.next < len(p.lines) && !p.underlined() && !fieldLine().MatchString(p.lines[p.next]) {
		p.next++
	}
	body := dedent(p.lines[start:p.next])
	switch name {
	case "params":
		p.numpyItems(body)
	case "returns":
		p.numpyReturned(body)
	default:
		p.section(name, body)
	}
}

// numpyName is "x : int", "x, y : int" or "x".
var numpyName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^(\*{0,2}[\p{L}_][\p{L}\p{N}_]*(?:\s*,\s*\*{0,2}[\p{L}_][\p{L}\p{N}_]*)*)\s*(?::\s*(.*))?$`)
})

// maxNames is how many names can share one text.
const maxNames = 16

// numpyItems reads names at the margin with their texts indented below.
func (p *docParser) numpyItems(body []string) {
	var names []string
	var text []string
	flush := func() {
		for _, n := range names {
			p.add(strings.TrimLeft(strings.TrimSpace(n), "*"), append([]string{""}, text...))
		}
		names, text = nil, nil
	}
	for _, l := range body {
		if m := numpyName().FindStringSubmatch(l); m != nil && indent(l) == 0 && l != "" {
			flush()
			names = strings.SplitN(m[1], ",", maxNames+1)
			names = names[:min(len(names), maxNames)]
			for _, n := range names {
				p.doc.types[strings.TrimLeft(strings.TrimSpace(n), "*")] = m[2]
			}
			continue
		}
		text = append(text, l)
	}
	flush()
}

// numpyReturned reads a type, or "name : type", with the text indented below.
func (p *docParser) numpyReturned(body []string) {
	if len(body) == 0 {
		return
	}
	text := dedent(body[1:])
	if len(text) == 0 || len(body) > 1 && indent(body[1]) == 0 && body[1] != "" {
		p.returned(body)
		return
	}
	typ := body[0]
	if _, after, ok := strings.Cut(typ, " : "); ok {
		typ = after
	}
	p.doc.returnType = strings.TrimSpace(typ)
	p.doc.returns = strings.Join(text, "\n")
}

// fieldLine is a field in reST (:param x: text) or in Epydoc (@param x: text).
var fieldLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:` +
		`:(param|parameter|arg|argument|key|keyword|ivar|cvar|var|type|vartype|raises?|except|exception|returns?|rtype|yields?|ytype|meta)\b([^:\n]*(?:\[[^\]\n]*\][^:\n]*)?):|` +
		`@(param|arg|keyword|kwparam|kwarg|ivar|cvar|var|type|raises?|except|exception|returns?|rtype|yields?|ytype|note|see|todo)\b([^:\n]*):)(?:\s+|$)(.*)$`)
})

// field reads one field, with the lines that continue it.
func (p *docParser) field() {
	m := fieldLine().FindStringSubmatch(p.lines[p.next])
	base := indent(p.lines[p.next])
	kind, arg := m[1]+m[3], strings.TrimSpace(m[2]+m[4])
	text := []string{m[5]}
	for p.next++; p.next < len(p.lines); p.next++ {
		l := p.lines[p.next]
		if l == "" && p.next+1 < len(p.lines) && indent(p.lines[p.next+1]) > base {
			text = append(text, l)
			continue
		}
		if l == "" || fieldLine().MatchString(l) || indent(l) <= base && p.begins() {
			break
		}
		text = append(text, l)
	}
	switch kind {
	case "param", "parameter", "arg", "argument", "key", "keyword", "ivar", "cvar", "var", "kwparam", "kwarg":
		words := strings.Fields(arg) // ":param int x:"
		if last := len(words) - 1; last >= 0 {
			name := strings.TrimLeft(words[last], "*\\")
			p.add(name, text)
			if last > 0 {
				p.doc.types[name] = strings.Join(words[:last], " ")
			}
		}
	case "type", "vartype":
		p.doc.types[strings.TrimLeft(arg, "*\\")] = strings.TrimSpace(text[0])
	case "return", "returns", "yield", "yields":
		p.doc.returns = strings.TrimSpace(text[0] + "\n" + strings.Join(dedent(text[1:]), "\n"))
	case "rtype", "ytype":
		p.doc.returnType = strings.TrimSpace(text[0])
	}
}
