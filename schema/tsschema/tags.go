package tsschema

import (
	"strings"

	"haft/schema"
)

// numberTags are the constraints that take a number.
var numberTags = map[string]bool{"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true,
	"multipleOf": true,
	"minLength":  true, "maxLength": true, "minItems": true, "maxItems": true, "minProperties": true,
	"maxProperties": true}

// textTags are the constraints that take a text.
var textTags = map[string]bool{"pattern": true, "format": true, "title": true}

// constrain adds what the tags of a comment say.
func (b *builder) constrain(o *schema.Object, d *doc) {
	if d == nil {
		return
	}
	for _, t := range d.tags {
		switch {
		case numberTags[t.name]:
			n, ok := jsonNumber(strings.TrimSpace(t.text))
			if !ok {
				b.fail(t.at, "@"+t.name+" needs a number")
				continue
			}
			o.Set(t.name, n)
		case textTags[t.name]:
			text := t.text
			if t.name == "pattern" && len(text) > 2 && text[0] == '/' && strings.HasSuffix(text, "/") {
				text = text[1 : len(text)-1]
			}
			o.Set(t.name, text)
		case t.name == "default" || t.name == "defaultValue":
			if t.fallback != nil {
				o.Set("default", t.fallback.value)
				continue
			}
			o.Set("default", valueOfText(o, t.text))
		case t.name == "example" && !strings.Contains(t.text, "\n"):
			o.Set("examples", append(o.Array("examples"), valueOfText(o, t.text)))
		case t.name == "uniqueItems":
			o.Set("uniqueItems", true)
		case (t.name == "integer" || t.name == "asType" && t.text == "integer") && o.String("type") == "number":
			o.Set("type", "integer")
		}
	}
}

// valueOfText reads a value from a comment. For a string, text without quotes is
// the string.
func valueOfText(o *schema.Object, text string) any {
	text = strings.Trim(strings.TrimSpace(text), "`")
	v := defaultOf(text).value
	if _, isText := v.(string); o.String("type") == "string" && !isText {
		return text
	}
	return v
}
