package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/fileparam"
	"haft/internal/jsontree"
	"haft/internal/value"
	"haft/schema"
)

// A Compiled is a tool that is ready to be called: it checks arguments and values. It
// never changes, nobody may change its Tool, and it is safe for concurrent use.
type Compiled struct {
	Tool haft.Tool
	// Current is the current version if Tool is another one, which was asked for by its
	// digest. The demands of the current version hold for that one too.
	Current *haft.Version
	// Files are the parameters that can be files; nil means none.
	Files *fileparam.Params

	args, returns *schema.Compiled
	validators    *value.Validators
	perItem       bool // whether the schema of the value can be checked item by item
	strict        bool // whether the value has to fit its schema
	noArgs        bool // whether there are no arguments that could be changed
	languages     bool // whether the argument language can be javascript
}

// For reports whether the tool is for a principal: it has one of the roles that the version demands, and one of those
// that the current version does.
func (c *Compiled) For(p haft.Principal) bool {
	has := func(roles []string) bool {
		return len(roles) == 0 || slices.ContainsFunc(p.Roles, func(r string) bool { return slices.Contains(roles, r) })
	}
	return has(c.Tool.Version.Settings.Roles) && (c.Current == nil || has(c.Current.Settings.Roles))
}

// Roles lists the roles that the version and the current version ask for.
func (c *Compiled) Roles() []string {
	roles := slices.Clone(c.Tool.Version.Settings.Roles)
	if c.Current != nil {
		roles = append(roles, c.Current.Settings.Roles...)
	}
	return roles
}

// Compile reads the schemas and validators of a tool's version.
func Compile(t haft.Tool) (*Compiled, error) {
	_, isSource := endings()[t.Version.Kind]
	c := &Compiled{Tool: t, strict: !isSource || t.Version.Settings.Output.Strict,
		Files:   fileparam.Compile(t.Version.Kind, t.Version.Parameters),
		perItem: len(t.Version.Returns) == 0 || checksItems(t.Version.Returns)}
	var err error
	if c.args, err = compileSchema(t.Version.Parameters); err != nil {
		return nil, fmt.Errorf("compile the schema of the arguments: %w", err)
	}
	var params struct {
		Properties map[string]struct{ Enum []any }
		Additional json.RawMessage `json:"additionalProperties"`
	}
	if err := json.Unmarshal(t.Version.Parameters, &params); err == nil { // else it is what no one can look into
		c.noArgs = params.Properties != nil && len(params.Properties) == 0 &&
			slices.Contains([]string{"", "false"}, string(params.Additional))
		c.languages = t.Version.Kind == haft.KindBuiltin &&
			slices.Contains(params.Properties["language"].Enum, any("javascript"))
	}
	if len(t.Version.Returns) > 0 {
		if c.returns, err = compileSchema(t.Version.Returns); err != nil {
			return nil, fmt.Errorf("compile the schema of the value: %w", err)
		}
	}
	if c.validators, err = value.CompileValidators(t.Version.Settings.Output.Validators); err != nil {
		return nil, fmt.Errorf("compile the validators: %w", err)
	}
	return c, nil
}

// compileSchema reads and compiles the text of a schema.
func compileSchema(text json.RawMessage) (*schema.Compiled, error) {
	tree, err := schema.Decode(text)
	if err != nil {
		return nil, err
	}
	return schema.Compile(tree)
}

// FitRead makes what [schema.ReadArguments] returns fit the schema, or returns the failure that says
// why it does not fit. It does not change args.
func (c *Compiled) FitRead(args *schema.Object, err error) (jsontree.Document, *haft.Failure) {
	if err != nil {
		return jsontree.Document{}, &haft.Failure{Kind: haft.FailValidation, Message: haft.MessageOf(err),
			Retry: haft.RetryChanged}
	}
	v := c.Tool.Version
	if c.languages {
		args = longLanguage(args)
	}
	fitted, misfits := c.args.Fit(args, schema.FitOptions{Python: v.Settings.Letta && v.Kind == haft.KindPython})
	if len(misfits) > 0 {
		return jsontree.Document{}, &haft.Failure{Kind: haft.FailValidation,
			Message: "the arguments do not fit: " + inWords(misfits), Retry: haft.RetryChanged, Misfits: misfits}
	}
	raw, err := schema.Encode(fitted)
	if err != nil {
		return jsontree.Document{}, &haft.Failure{Kind: haft.FailInternal,
			Message: "the arguments cannot be passed on", Retry: haft.RetryNever}
	}
	return jsontree.Document{Text: raw, Tree: fitted}, nil
}

// longLanguage replaces the short name of a language, before any rule looks at the arguments.
func longLanguage(args *schema.Object) *schema.Object {
	name := map[string]string{"js": "javascript", "ts": "typescript"}[args.String("language")]
	if name == "" {
		return args
	}
	named := &schema.Object{}
	for _, key := range args.Keys() {
		named.Set(key, args.Value(key))
	}
	return named.Set("language", name)
}

// Check compares the value of a result with the output type, the schema and the
// validators of the tool, and cuts it to the length that a model gets to see. A value
// that does not fit fails the call, and is kept for whoever has to find out why, unless
// a validator refused it: that may be what the validator is for. If
// only the return type of a source does not fit, that is a notice, unless the settings
// are strict: languages allow it. Results that are no success stay as they are.
func (c *Compiled) Check(ctx context.Context, res *haft.Result) {
	out := c.Tool.Version.Settings.Output
	if res.Status != haft.StatusSuccess {
		if res.Error != nil && res.Error.Kind == haft.FailValue { // the executor could not read it
			res.Value, res.Truncated.Value = value.Cut(res.Value, out.MaxChars)
		}
		if res.Error != nil && res.Error.Retry == haft.RetryChanged && c.noArgs {
			res.Error.Retry = haft.RetryNever
		}
		return
	}
	read, misfits := readAs(res.Value, out.Type, c.Tool.Version.Kind)
	if len(misfits) == 0 {
		misfits = value.Misfits(read, c.returns)
		if len(misfits) > 0 && !c.strict {
			res.Notices = append(res.Notices, haft.NoticeOtherType+": "+inWords(misfits))
			misfits = nil
		}
		if refused := c.validators.Check(ctx, read); len(refused) > 0 {
			misfits, read, res.Content = append(misfits, refused...), json.RawMessage("null"), nil
		}
	} else {
		read = res.Value
	}
	if len(misfits) > 0 {
		res.Status = haft.StatusValidation
		res.Error = &haft.Failure{Kind: haft.FailValue,
			Message: "the value is not what the tool promises: " + inWords(misfits),
			Retry:   haft.RetryNever, Misfits: misfits}
	}
	res.Value, res.Truncated.Value = value.Cut(read, out.MaxChars)
}

// ItemChars is how much of the items of a generator may be seen before [Compiled.Check] has looked at
// all of them: nothing if that looks at more than each item, or else as much as it would let pass.
func (c *Compiled) ItemChars() int {
	out := c.Tool.Version.Settings.Output
	if c.strict && !c.perItem || len(out.Validators) > 0 || out.Type != haft.OutputAny && out.Type != haft.OutputJSON &&
		out.Type != haft.OutputList {
		return 0
	}
	return cmp.Or(max(0, out.MaxChars), haft.DefaultMaxChars)
}

// FitsItem reports whether an item of a generator fits the schema of the value, if it has to.
func (c *Compiled) FitsItem(item json.RawMessage) bool {
	return !c.strict || len(value.Misfits(slices.Concat([]byte("["), item, []byte("]")), c.returns)) == 0
}

// checksItems reports whether a schema says of an array nothing but what its items are.
func checksItems(text json.RawMessage) bool {
	var keywords map[string]json.RawMessage
	if err := json.Unmarshal(text, &keywords); err != nil || string(keywords["type"]) != `"array"` {
		return false
	}
	for name := range keywords {
		if !slices.Contains([]string{"type", "items", "title", "description", "$defs", "$schema"}, name) {
			return false
		}
	}
	return true
}

// readAs reads a value as the expected type. A text is read like printed output, because
// functions often return the output of another program. The output of a shell script
// was read when it ended.
func readAs(v json.RawMessage, typ haft.OutputType, kind haft.Kind) (json.RawMessage, []haft.Misfit) {
	if typ == haft.OutputAny || typ == haft.OutputJSON && kind == haft.KindBash {
		return v, nil
	}
	text, isText := "", len(v) > 0 && v[0] == '"'
	if typ == haft.OutputText && !isText {
		text, isText = string(v), true
	} else if isText {
		if err := json.Unmarshal(v, &text); err != nil {
			return nil, []haft.Misfit{{Message: "is not JSON"}}
		}
	}
	if isText {
		read, err := value.Read(text, typ)
		if err != nil {
			return nil, []haft.Misfit{{Message: haft.MessageOf(err)}}
		}
		return read, nil
	}
	var fits bool
	switch typ {
	case haft.OutputJSON:
		fits = true
	case haft.OutputNumber:
		fits = len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
	case haft.OutputBoolean:
		fits = string(v) == "true" || string(v) == "false"
	case haft.OutputList:
		fits = len(v) > 0 && v[0] == '['
	}
	if !fits {
		return nil, []haft.Misfit{{Message: fmt.Sprintf("must be of type %s", typ)}}
	}
	return v, nil
}

// inWords lists misfits in one line.
func inWords(misfits []haft.Misfit) string {
	var b strings.Builder
	for i, m := range misfits {
		if i > 0 {
			b.WriteString("; ")
		}
		if m.Pointer != "" {
			b.WriteString(m.Pointer + " ")
		}
		b.WriteString(m.Message)
	}
	return b.String()
}
