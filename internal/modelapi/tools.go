package modelapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
	"unicode/utf8"

	"haft"
	"haft/schema"
)

// A List is the tools that a request to a model carries.
type List struct {
	Form schema.Form `json:"format"`
	// Tools is what the vendor's field tools takes: a list of tools; for Gemini
	// a list of one object with functionDeclarations; for MCP the tools of an
	// answer to tools/list.
	Tools json.RawMessage `json:"tools"`
	// Listed are the tools in Tools, in the same order.
	Listed []Listed `json:"listed"`
	// Skipped are the tools that are not, because the vendor would refuse them,
	// and with them the whole request.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Tokens is about how many tokens Tools costs in every request.
	Tokens int `json:"tokens_estimate"`
	// Notes say what the vendor may refuse about the list as a whole.
	Notes []string `json:"notes,omitempty"`
}

// A Listed tool is one that a model can call.
type Listed struct {
	Name string `json:"name"`
	// Strict says that the vendor holds the model to the schema.
	Strict bool `json:"strict,omitempty"`
	Tokens int  `json:"tokens_estimate"`
}

// A Skipped tool is not sent to a model; it has the reasons.
type Skipped struct {
	Name    string   `json:"name"`
	Reasons []string `json:"reasons"`
}

// names are what the vendors accept as the name of a function. One other makes
// them refuse the whole request.
var names = sync.OnceValue(func() map[schema.Form]nameRule {
	return map[schema.Form]nameRule{
		schema.FormOpenAI: {regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`),
			"OpenAI accepts 1 to 64 of A-Z a-z 0-9 _ - as a name"},
		schema.FormOpenAIResponses: {regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`),
			"OpenAI accepts 1 to 64 of A-Z a-z 0-9 _ - as a name"},
		schema.FormAnthropic: {regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`),
			"Anthropic accepts 1 to 128 of A-Z a-z 0-9 _ - as a name"},
		schema.FormGemini: {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$`),
			"Gemini accepts a letter or _ and up to 127 more of A-Z a-z 0-9 _ . : - as a name"},
		schema.FormMCP: {regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`),
			"MCP accepts 1 to 128 of A-Z a-z 0-9 _ . / - as a name"},
		schema.FormJSON: {regexp.MustCompile(`^[^\x00-\x1f\x7f]+$`),
			"a tool needs a name without control characters"},
	}
})

// A nameRule is one of names.
type nameRule struct {
	ok   *regexp.Regexp
	rule string
}

// openAITools is how many functions Chat Completions take. The reference said so
// ("A max of 128 functions are supported"), and more have been refused.
const openAITools = 128

// Tools writes tools as a vendor's requests take them, in the order given. Tools
// that are disabled or have no version are left out without a word; those that are unavailable
// or that the vendor would refuse are listed as skipped. strict is as in [schema.Render].
func Tools(form schema.Form, tools []haft.Tool, strict bool) (*List, error) {
	rule, ok := names()[form]
	if !ok {
		_, err := schema.ParseForm(string(form))
		return nil, err
	}
	l := &List{Form: form, Listed: []Listed{}}
	texts := []json.RawMessage{}
	seen := make(map[string]bool, len(tools))
	for i := range tools {
		t := &tools[i]
		if t.Disabled || len(t.Version.Parameters) == 0 && t.Version.Digest == "" && t.Version.Number == 0 {
			continue
		}
		var why []string
		switch {
		case t.Unavailable != "":
			why = []string{t.Unavailable}
		case !rule.ok.MatchString(t.Name):
			why = []string{rule.rule}
		case seen[t.Name]:
			why = []string{"another tool in the list has the same name"}
		default:
			text, isStrict, reasons, err := render(form, t, strict)
			if err != nil {
				return nil, fmt.Errorf("list the tool %s: %w", t.ID, err)
			}
			if why = reasons; why == nil {
				seen[t.Name] = true
				n := Tokens(text)
				l.Tokens += n
				l.Listed = append(l.Listed, Listed{t.Name, isStrict, n})
				texts = append(texts, text)
			}
		}
		if why != nil {
			l.Skipped = append(l.Skipped, Skipped{oneLine(t.Name, 200), why})
		}
	}
	if n := len(texts); n > openAITools && form == schema.FormOpenAI {
		l.Notes = append(l.Notes, fmt.Sprintf("OpenAI's Chat Completions take %d tools, these are %d", openAITools, n))
	}
	var err error
	l.Tools, err = envelope(form, texts)
	return l, err
}

// envelope puts tools into what the field tools takes.
func envelope(form schema.Form, texts []json.RawMessage) (json.RawMessage, error) {
	if form != schema.FormGemini {
		return encode(texts)
	}
	type declarations struct {
		Functions []json.RawMessage `json:"functionDeclarations"`
	}
	if len(texts) == 0 {
		return json.RawMessage("[]"), nil
	}
	return encode([]declarations{{texts}})
}

// render writes one tool. Reasons say why it cannot be listed; an error is an internal one.
func render(form schema.Form, t *haft.Tool, strict bool) (
	text json.RawMessage, isStrict bool, reasons []string, err error) {
	sig := &schema.Signature{Name: t.Name, Description: t.Version.Description}
	for _, part := range []struct {
		raw  []byte
		to   **schema.Object
		what string
	}{{t.Version.Parameters, &sig.Parameters, "parameters"}, {t.Version.Returns, &sig.Returns, "returns"}} {
		if len(part.raw) == 0 {
			continue
		}
		tree, err := schema.Decode(part.raw)
		if err != nil {
			return nil, false, []string{"the schema of its " + part.what + " cannot be read"}, nil
		}
		*part.to, _ = tree.(*schema.Object) // a schema that is only true says nothing
	}
	if form != schema.FormJSON {
		if reasons := unhealthy(t, sig); reasons != nil {
			return nil, false, reasons, nil
		}
	}
	text, err = schema.Render(sig, form, strict)
	if err != nil {
		if haft.CodeOf(err) == haft.CodeInvalid {
			return nil, false, []string{haft.MessageOf(err)}, nil
		}
		return nil, false, nil, err
	}
	tree, err := schema.Decode(text)
	o, ok := tree.(*schema.Object)
	if err != nil || !ok {
		return nil, false, nil, fmt.Errorf("read what was rendered: %w", err)
	}
	if form == schema.FormMCP {
		text, err = annotated(o, t)
		return text, false, nil, err
	}
	inner := o
	if f := o.Object("function"); f != nil {
		inner = f
	}
	return text, inner.Value("strict") == true, nil, nil
}

// unhealthy returns why vendors would refuse the schema of a tool, or nil.
func unhealthy(t *haft.Tool, sig *schema.Signature) []string {
	h := t.Version.Health
	if h.Status == "" && sig.Parameters != nil {
		h = schema.Health(sig.Parameters)
	}
	if h.Status != haft.HealthInvalid {
		return nil
	}
	reasons := []string{}
	for i, r := range h.Reasons {
		if i == maxMisfits {
			reasons = append(reasons, "and more")
			break
		}
		reasons = append(reasons, oneLine(r.String(), maxNotice))
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "its schema is not valid")
	}
	return reasons
}

// annotated adds to a tool of MCP what its author claims of it.
func annotated(o *schema.Object, t *haft.Tool) (json.RawMessage, error) {
	a := t.Version.Annotations
	if a == (haft.Annotations{}) {
		return schema.Encode(o)
	}
	if a.Title != "" {
		o.Set("title", a.Title)
	}
	return schema.Encode(o.Set("annotations", a))
}

// tokensPerTool is what vendors write around each tool.
const tokensPerTool = 8

// Tokens estimates how many tokens a tool costs in a request: a quarter of its
// ASCII characters, one for each other character, and 8 for what vendors write
// around it. Tokenizers differ, and vendors do not say how they write tools down
// for their models, so this is for comparing tools and for a warning, not for a
// bill. It tends to be too high: schemas are full of words that are one token.
func Tokens(tool json.RawMessage) int {
	ascii, other := 0, 0
	for i := 0; i < len(tool); {
		_, size := utf8.DecodeRune(tool[i:])
		if size == 1 {
			ascii++
		} else {
			other++
		}
		i += size
	}
	return (ascii+3)/4 + other + tokensPerTool
}
