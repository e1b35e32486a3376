package builtin

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"haft"
)

// maxNodes is how many nodes of a page are looked at for its main part, which takes
// several passes. Larger pages are shown whole.
const maxNodes = 50_000

// pages turns pages into text. It is safe for concurrent use.
type pages struct{ markdown *converter.Converter }

// newPages returns one.
func newPages() *pages {
	return &pages{converter.NewConverter(
		// Escaping looks for the end of every mark in the rest of the text: a megabyte
		// of "*_`[" takes minutes. Models read text without it as well.
		converter.WithEscapeMode(converter.EscapeModeDisabled),
		converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()),
	)}
}

// read makes title and content of a page.
func (p *pages) read(out *fetchOut, at *url.URL, body []byte, format string) error {
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: "the page cannot be read as HTML; format raw gives its source", Err: err}
	}
	c := cleaner{at: at, rules: hiddenRules(doc)}
	c.clean(doc)
	if c.hidden > 0 {
		out.note("%d characters that visitors of the page do not see were left out; they may be meant to mislead you",
			c.hidden)
	}
	out.Title = titleOf(doc)
	main := doc
	if format != "html" && c.nodes <= maxNodes {
		parser := readability.NewParser()
		parser.DisableJSONLD = true
		if article, err := parser.ParseDocument(doc, at); err == nil && article.Node != nil {
			main = article.Node
			if t := article.Title(); t != "" {
				out.Title = t
			}
		}
	}
	switch format {
	case "html":
		var b bytes.Buffer
		if err := html.Render(&b, main); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
		out.Content = b.String()
	case "text":
		out.Content = textOf(main)
	default:
		left := 2 * maxChars
		prune(main, &left)
		b, err := p.markdown.ConvertNode(main)
		if err != nil {
			return fmt.Errorf("convert the page: %w", err)
		}
		out.Content = string(b)
	}
	if strings.TrimSpace(out.Content) == "" {
		out.note("the page has no text; it may be made by scripts, which are not run")
	}
	return nil
}

// nodeCost is what an element counts in bytes of text: its marks count too.
const nodeCost = 8

// prune removes what follows the first bytes of text below n: it would be cut anyway,
// and converting it takes time.
func prune(n *html.Node, left *int) {
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		*left -= nodeCost
		if *left <= 0 {
			n.RemoveChild(child)
		} else if child.Type == html.TextNode {
			*left -= len(child.Data)
			if *left < 0 {
				child.Data = strings.ToValidUTF8(child.Data[:max(0, len(child.Data)+*left)], "")
			}
		}
		prune(child, left)
		child = next
	}
}

// titleOf is the text of the first title.
func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.DataAtom == atom.Title && n.FirstChild != nil {
			return n.FirstChild.Data
		}
	}
	return ""
}

// noText are elements whose content is not text of the page.
var noText = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Iframe: true, atom.Object: true,
	atom.Embed: true, atom.Svg: true, atom.Canvas: true, atom.Audio: true, atom.Video: true, atom.Link: true,
	atom.Meta: true,
}

// A cleaner takes out of a page what is not for its readers.
type cleaner struct {
	at     *url.URL
	rules  rules
	nodes  int
	hidden int // characters
}

// clean removes scripts, comments and hidden elements below n, and makes addresses
// absolute. Parsers of HTML bound how deep it goes.
func (c *cleaner) clean(n *html.Node) {
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		c.nodes++
		switch {
		case child.Type == html.CommentNode, child.Type == html.ElementNode && noText[child.DataAtom]:
			n.RemoveChild(child)
		case child.Type == html.ElementNode && c.rules.hide(child):
			c.hidden += len([]rune(strings.Join(strings.Fields(textOf(child)), " ")))
			n.RemoveChild(child)
		default:
			if child.Type == html.ElementNode {
				c.attributes(child)
			}
			c.clean(child)
		}
		child = next
	}
}

// attributes keeps what the text needs.
func (c *cleaner) attributes(n *html.Node) {
	kept := n.Attr[:0]
	for _, a := range n.Attr {
		key := strings.ToLower(a.Key)
		switch {
		case strings.HasPrefix(key, "on"), key == "style", key == "srcset":
			continue
		case key == "colspan", key == "rowspan":
			continue // a table of a million columns is a few characters long
		case key == "href", key == "src":
			u, err := c.at.Parse(strings.TrimSpace(a.Val))
			if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
				continue // such as javascript: and data:
			}
			a.Val = u.String()
		}
		kept = append(kept, a)
	}
	n.Attr = kept
}

// blocks are elements that begin a new line.
var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Br: true, atom.Li: true, atom.Tr: true, atom.H1: true, atom.H2: true,
	atom.H3: true,
	atom.H4: true, atom.H5: true, atom.H6: true, atom.Ul: true, atom.Ol: true, atom.Table: true, atom.Section: true,
	atom.Article: true, atom.Header: true, atom.Footer: true, atom.Blockquote: true, atom.Pre: true, atom.Dt: true,
	atom.Dd:   true,
	atom.Main: true, atom.Nav: true, atom.Aside: true, atom.Figure: true, atom.Figcaption: true, atom.Hr: true,
	atom.Form: true,
}

// textOf is the text of n with a line for each block.
func textOf(n *html.Node) string {
	var t plainText
	t.write(n, false)
	return strings.TrimSpace(t.b.String())
}

// plainText is text on its way.
type plainText struct{ b strings.Builder }

// space adds s unless there is a space or line end already.
func (t *plainText) space(s string) {
	if text := t.b.String(); text != "" && !strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, s) {
		t.b.WriteString(s)
	}
}

// write adds the text of n, as it is or with its spaces made single.
func (t *plainText) write(n *html.Node, asIs bool) {
	block := n.Type == html.ElementNode && blocks[n.DataAtom]
	switch {
	case n.Type == html.TextNode && asIs:
		t.b.WriteString(n.Data)
		return
	case n.Type == html.TextNode:
		words := strings.Fields(n.Data)
		if text := strings.Join(words, " "); text != "" && strings.HasPrefix(n.Data, words[0]) {
			t.b.WriteString(text)
		} else {
			t.space(" ")
			t.b.WriteString(text)
		}
		if len(words) > 0 && !strings.HasSuffix(n.Data, words[len(words)-1]) {
			t.space(" ")
		}
		return
	case n.Type == html.ElementNode && (n.DataAtom == atom.Title || n.DataAtom == atom.Head):
		return
	case block:
		t.space("\n")
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		t.write(child, asIs || n.DataAtom == atom.Pre)
	}
	switch {
	case block:
		t.space("\n")
	case n.DataAtom == atom.Td || n.DataAtom == atom.Th:
		t.space("\t")
	}
}
