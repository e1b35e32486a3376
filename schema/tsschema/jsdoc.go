package tsschema

import (
	"slices"
	"strings"

	"haft/internal/javascript"
)

// A doc is a comment that documents something.
type doc struct {
	at   int
	text string // before the first tag
	tags []tag
}

// A tag is one @tag of a comment.
type tag struct {
	name string
	at   int
	typ  *node // of {T}, or nil
	// typErr is what is wrong with the type.
	typErr *problem
	// param is the name that @param and @property document, such as opts.name.
	param    string
	optional bool
	fallback *defaultValue
	text     string
}

// docBefore returns the comment before token i: the last /** */ that stands
// there, or for members also the // lines directly above.
func (c *cursor) docBefore(i int, member bool) *doc {
	t := c.tokenAt(i)
	var lines []string
	for k := t.AfterComments - 1; k >= t.FirstComment; k-- {
		note := c.source.Comments[k]
		text := c.source.Text[note.From:note.To]
		switch {
		case strings.HasPrefix(text, "/**") && len(text) > 4:
			if len(lines) > 0 {
				k = t.FirstComment
				continue
			}
			if d := parseDoc(c.source, note); member || d.find("typedef") == nil && d.find("callback") == nil {
				return d
			}
		case member && strings.HasPrefix(text, "//") && !trails(c.source.Text, note.From):
			lines = append(lines, strings.TrimSpace(strings.TrimLeft(text, "/")))
		}
	}
	slices.Reverse(lines)
	return noteDoc(t.From, lines)
}

// noteDoc makes a doc of plain lines, or nil.
func noteDoc(at int, lines []string) *doc {
	text := strings.TrimSpace(strings.Join(lines, " "))
	if text == "" {
		return nil
	}
	return &doc{at: at, text: text}
}

// trails reports whether code stands before the comment on its line.
func trails(text string, from int) bool {
	line := text[strings.LastIndexAny(text[:from], "\r\n")+1 : from]
	return strings.TrimSpace(line) != ""
}

// maxMemberLine is how far behind a name its comment is looked for, in bytes.
const maxMemberLine = 1000

// trailingNote returns the // comment at the end of the line of a member.
func trailingNote(s *javascript.Source, at int) *doc {
	next, _ := slices.BinarySearchFunc(s.Comments, at,
		func(c javascript.Comment, at int) int { return c.From - at })
	if next == len(s.Comments) || s.Comments[next].From > at+maxMemberLine {
		return nil
	}
	c := s.Comments[next]
	text := s.Text[c.From:c.To]
	between := s.Text[at:c.From]
	if !strings.HasPrefix(text, "//") || strings.ContainsAny(between, "\r\n") ||
		strings.ContainsAny(strings.TrimRight(between, " \t;,"), ";,{") {
		return nil
	}
	return noteDoc(c.From, []string{strings.TrimSpace(strings.TrimLeft(text, "/"))})
}

// blank returns the text of a comment with its marks replaced by spaces, so that
// places stay true.
func blank(comment string) string {
	b := []byte(comment)
	copy(b, "   ")
	fresh := true
	for i, ch := range b {
		switch {
		case ch == '\n' || ch == '\r':
			fresh = true
		case fresh && ch == '*':
			b[i] = ' '
			fresh = false
		case ch != ' ' && ch != '\t':
			fresh = false
		}
	}
	return string(b)
}

// maxTags is how many tags of one comment are read.
const maxTags = 1000

// parseDoc reads a /** */ comment.
func parseDoc(s *javascript.Source, c javascript.Comment) *doc {
	text, base := blank(s.Text[c.From:c.To-2]), c.From
	d := &doc{at: c.From}
	starts := tagStarts(text)
	starts = starts[:min(len(starts), maxTags)]
	d.text = paragraphs(text[:append(starts, len(text))[0]])
	for k, from := range starts {
		to := len(text)
		if k+1 < len(starts) {
			to = starts[k+1]
		}
		d.tags = append(d.tags, readTag(text[:to], from, base))
	}
	return d
}

// tagStarts finds the @ that begin a line and are not in a block of code.
func tagStarts(text string) []int {
	var starts []int
	fresh, fenced := true, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n' || c == '\r':
			fresh = true
		case fresh && strings.HasPrefix(text[i:], "```"):
			fenced, fresh = !fenced, false
		case c == '@' && fresh && !fenced && i+1 < len(text) && javascript.StartsName(text[i+1:]):
			starts = append(starts, i)
			fresh = false
		case c != ' ' && c != '\t':
			fresh = false
		}
	}
	return starts
}

// paragraphs makes paragraphs of lines: models read text, not columns.
func paragraphs(text string) string {
	var paragraphs []string
	var lines []string
	flush := func() {
		if len(lines) > 0 {
			paragraphs = append(paragraphs, strings.Join(lines, " "))
		}
		lines = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			flush()
			continue
		}
		if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") {
			flush()
			if n := len(paragraphs); n > 0 {
				paragraphs[n-1] += "\n" + line
				continue
			}
		}
		lines = append(lines, line)
	}
	flush()
	return strings.Join(paragraphs, "\n\n")
}

// typedTags are the tags whose {…} is a type, with the names that they go by here.
var typedTags = map[string]string{"param": "param", "arg": "param", "argument": "param", "returns": "returns",
	"return": "returns", "typedef": "typedef", "property": "property", "prop": "property", "type": "type"}

// readTag reads the tag at text[from:]; base is where text begins in the source.
func readTag(text string, from, base int) tag {
	i := from + 1
	for i < len(text) && (javascript.StartsName(text[i:]) || text[i] >= '0' && text[i] <= '9') {
		i++
	}
	t := tag{name: text[from+1 : i], at: base + from}
	if typedTags[t.name] == "" {
		t.text = paragraphs(text[i:])
		return t
	}
	t.name = typedTags[t.name]
	i += len(text[i:]) - len(strings.TrimLeft(text[i:], " \t\r\n"))
	if i < len(text) && text[i] == '{' {
		i = t.readType(text, i, base)
	}
	rest := strings.TrimSpace(text[i:])
	switch t.name {
	case "param", "property":
		t.readName(rest)
	case "typedef":
		first, rest, _ := strings.Cut(rest, "\n")
		name, more, _ := strings.Cut(strings.TrimSpace(first), " ")
		t.param, t.text = name, paragraphs(more+"\n"+rest)
	default:
		t.text = paragraphs(strings.TrimLeft(rest, "- "))
	}
	return t
}

// readType reads {T} at text[i:] and returns where it ends.
func (t *tag) readType(text string, i, base int) int {
	l, _ := javascript.Lex(text, i) // what follows the type is prose, not code
	if len(l.Tokens) == 0 || l.Tokens[0].Match < 0 {
		t.typErr = &problem{base + i, "the type is never closed"}
		return len(text)
	}
	end := l.Tokens[0].Match
	c := &cursor{source: l, tokens: append(l.Tokens[1:end:end],
		javascript.Token{From: l.Tokens[end].From, To: l.Tokens[end].From, Match: -1})}
	for k := range c.tokens { // brackets count from the first token of the type
		c.tokens[k].Match = max(c.tokens[k].Match-1, -1)
	}
	types := newExprReader(c).types
	types.jsdoc = true
	rest := c.accept("...")
	t.typ = types.typ()
	if c.err == nil && c.peek().Kind != javascript.EOF {
		c.fail("the type does not end here")
	}
	if rest {
		t.typ = &node{op: oArray, at: t.typ.at, kids: []*node{t.typ}}
	}
	t.optional = types.optional
	if c.err != nil {
		t.typErr = &problem{base + c.err.at, c.err.message}
	}
	shift(t.typ, base)
	return l.Tokens[end].To
}

// shift moves the places of a type, which were counted from its comment.
func shift(n *node, by int) {
	if n == nil {
		return
	}
	n.at += by
	for _, k := range n.kids {
		shift(k, by)
	}
	for _, m := range n.members {
		m.at += by
		shift(m.typ, by)
	}
	for _, q := range n.params {
		q.at += by
		shift(q.typ, by)
	}
	shift(n.index, by)
	shift(n.result, by)
}

// readName reads name, [name] or [name=default], and the text after it.
func (t *tag) readName(rest string) {
	if !strings.HasPrefix(rest, "[") {
		end := strings.IndexAny(rest+" ", " \t\r\n")
		t.param = strings.TrimSuffix(rest[:end], ":")
		t.text = paragraphs(strings.TrimLeft(rest[end:], " \t-–:"))
		return
	}
	l, _ := javascript.Lex(rest, 0)
	end := len(rest)
	if len(l.Tokens) > 0 && l.Tokens[0].Match > 0 {
		end = l.Tokens[l.Tokens[0].Match].From
	} else if n := strings.IndexByte(rest, ']'); n > 0 {
		end = n
	}
	name, value, has := strings.Cut(rest[1:end], "=")
	t.param, t.optional = strings.TrimSpace(name), true
	t.text = paragraphs(strings.TrimLeft(rest[min(end+1, len(rest)):], " \t-–:"))
	if has {
		t.fallback = defaultOf(strings.TrimSpace(value))
	}
}

// defaultOf reads a default written in a comment: JSON-like, or else a text.
func defaultOf(text string) *defaultValue {
	if l, bad := javascript.Lex(text, 0); bad == nil {
		c := &cursor{source: l, tokens: l.Tokens}
		if v, ok := newExprReader(c).constant(); ok && c.peek().Kind == javascript.EOF {
			return &defaultValue{v, true}
		}
	}
	return &defaultValue{text, true}
}

// find returns the first tag of a name, or nil.
func (d *doc) find(name string) *tag {
	if d == nil {
		return nil
	}
	for i := range d.tags {
		if d.tags[i].name == name {
			return &d.tags[i]
		}
	}
	return nil
}

// description returns the text of a comment, or "".
func (d *doc) description() string {
	if d == nil {
		return ""
	}
	if t := d.find("description"); d.text == "" && t != nil {
		return t.text
	}
	return d.text
}
