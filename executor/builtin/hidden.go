package builtin

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Text that people do not see and models do is how pages give orders to agents.
// Text that is hidden by the page itself is left out: elements that are hidden by
// attributes, by their own style, or by simple rules of the page's style sheets, and
// characters that show nothing. Style sheets of other addresses are not fetched, and
// text in the colour of its background is not recognised.

// unseen are declarations that hide an element with its text.
var unseen = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|;)\s*(?:` +
		`display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|content-visibility\s*:\s*hidden|` +
		`opacity\s*:\s*(?:0?\.0+|0+(?:\.0+)?)%?\s*(?:!|;|$)|` +
		`font-size\s*:\s*(?:0+(?:\.0+)?(?:px|pt|em|rem|%)?|[01](?:\.\d+)?(?:px|pt)|0?\.0\d*(?:em|rem))\s*(?:!|;|$)|` +
		`color\s*:\s*transparent|text-indent\s*:\s*-\d{3,}|` +
		`(?:left|right|top|bottom)\s*:\s*-\d{4,}|` +
		`clip\s*:\s*rect\(\s*0|clip-path\s*:\s*inset\(\s*(?:50|100)%|transform\s*:\s*scale\(\s*0\s*\))`)
})

// A box of no size hides its text only if that is cut off.
var (
	noSize = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|;)\s*(?:max-)?(?:width|height)\s*:\s*[01](?:px|pt|em|rem|%)?\s*(?:!|;|$)`)
	})
	cutOff = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|;)\s*overflow(?:-[xy])?\s*:\s*(?:hidden|clip)`)
	})
)

// hides reports whether declarations hide an element.
func hides(style string) bool {
	return unseen().MatchString(style) || noSize().MatchString(style) && cutOff().MatchString(style)
}

// Bounds on the style sheets of a page that are looked at.
const (
	maxCSS   = 1 << 20
	maxRules = 10_000
)

// rules are the simple selectors of a page that hide: .name, #name and an element
// with either. Others are not followed.
type rules map[string]bool

// selector is one that we follow.
var selector = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9]*[.#][\w-]+$`) })

// hiddenRules reads the style elements of a page.
func hiddenRules(doc *html.Node) rules {
	r := rules{}
	left := maxCSS
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Style || n.FirstChild == nil {
			continue
		}
		css := n.FirstChild.Data
		if left -= len(css); left < 0 {
			break
		}
		r.sheet(css)
	}
	return r
}

// sheet reads one style sheet. What is inside of an at-rule holds sometimes only,
// as for print, and is stepped over.
func (r rules) sheet(css string) {
	for css != "" && len(r) < maxRules {
		open := strings.IndexByte(css, '{')
		if open < 0 {
			return
		}
		head := css[:open]
		if i := strings.LastIndexAny(head, ";}"); i >= 0 {
			head = head[i+1:]
		}
		if i := strings.LastIndex(head, "*/"); i >= 0 {
			head = head[i+2:]
		}
		body, rest := block(css[open+1:])
		css = rest
		head = strings.TrimSpace(head)
		if strings.HasPrefix(head, "@") || !hides(body) {
			continue
		}
		for s := range strings.SplitSeq(head, ",") {
			if s = strings.TrimSpace(s); selector().MatchString(s) {
				r[s] = true
			}
		}
	}
}

// block splits behind the brace that closes the block that s begins in.
func block(s string) (body, rest string) {
	depth := 1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

// hide reports whether visitors do not see n.
func (r rules) hide(n *html.Node) bool {
	if n.DataAtom == atom.Html || n.DataAtom == atom.Body || n.DataAtom == atom.Head {
		// Pages that show themselves by script hide everything first.
		return false
	}
	open := false
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "style":
			if hides(a.Val) {
				return true
			}
		case "type":
			if n.DataAtom == atom.Input && strings.EqualFold(a.Val, "hidden") {
				return true
			}
		case "open":
			open = true
		case "id":
			if r["#"+a.Val] || r[n.Data+"#"+a.Val] {
				return true
			}
		case "class":
			for c := range strings.FieldsSeq(a.Val) {
				if r["."+c] || r[n.Data+"."+c] {
					return true
				}
			}
		}
	}
	return n.DataAtom == atom.Dialog && !open
}

// visible is s without characters that show nothing, and notes how many there were.
func (out *fetchOut) visible(s string) string {
	text, n := strip(s)
	if n > 0 {
		out.note("%d characters that nobody sees, such as marks of direction, were left out", n)
	}
	return text
}

// invisible counts the characters of s that show nothing.
func invisible(s string) int {
	_, n := strip(s)
	return n
}

// strip takes out characters that show nothing and counts those that have no
// business in a text. Joiners stay where scripts and emoji need them.
func strip(s string) (text string, odd int) {
	var b strings.Builder
	before := rune(0)
	for i, c := range s {
		keep := true
		switch {
		case c == '\n' || c == '\t':
		case c == '\r' || c == '\u00AD' || c == '\uFEFF' && i == 0:
			keep = false // a typographer's, and of no meaning
		case c == '\u200C' || c == '\u200D':
			next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(c):])
			keep = joins(before) && joins(next)
			odd += count(!keep)
		case c == '\uFE0F' || c == '\uFE0E':
			keep = before > unicode.MaxLatin1 || strings.ContainsRune("0123456789#*©®", before)
			odd += count(!keep)
		case unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || blank(c):
			keep = false
			odd++
		}
		if keep {
			b.WriteRune(c)
			before = c
		}
	}
	return b.String(), odd
}

// joins reports whether a joiner may stand beside c.
func joins(c rune) bool {
	return c > unicode.MaxLatin1 && c != utf8.RuneError &&
		(unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsSymbol(c))
}

// blank reports whether c is a letter or mark that shows nothing.
func blank(c rune) bool {
	return c == '\u034F' || c == '\u115F' || c == '\u1160' || c == '\u17B4' || c == '\u17B5' || c == '\u3164' ||
		c == '\uFFA0' || c == '\u2800' ||
		c >= '\uFE00' && c <= '\uFE0D' || c >= 0xE0100 && c <= 0xE01EF
}

// count is 1 for true.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
