package pyschema

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"haft"
	"haft/schema"
)

// decorated reads the arguments of @haft.tool(…) into the signature, and returns the mistakes in them.
// Decorators of other libraries have a meaning of their own, which is not Haft's.
func (b *builder) decorated(f *statement, sig *schema.Signature) (faults []*schema.SourceError) {
	for _, d := range f.Decorators {
		if d == nil || d.Kind != "call" || b.m.resolve(d.Value, nil).full != "haft.tool" {
			continue
		}
		for _, a := range d.Args {
			if a != nil {
				faults = append(faults, a.fault("the decorator takes its settings by name, such as timeout=5"))
			}
		}
		for _, k := range d.Keywords {
			at := d.place
			if k.Value != nil && k.Value.Line > 0 {
				at = k.Value.place
			}
			value, ok := b.consts.constant(k.Value, nil)
			switch {
			case k.Name == "":
				faults = append(faults, at.fault("the settings of a tool are written one by one, and not as **"))
			case !ok:
				faults = append(faults, at.fault("the setting %s is no literal value: the source is read and not run",
					k.Name))
			default:
				if why := setArgument(f, sig, k.Name, value); why != "" {
					faults = append(faults, at.fault("%s", why))
				}
			}
		}
	}
	return faults
}

// elsewhere says where to write what the decorator of the Python client takes and a file does not.
func elsewhere() map[string]string {
	return map[string]string{
		"name":     "name the function so, or add it with --name",
		"category": "add it with --category", "tags": "add it with --tag",
		"annotations": "write them into the file beside it, NAME.tool.json",
		"settings":    "write each setting as an argument",
		"uses":        "a file has its functions in it; add others with --file",
		"local":       "it is for programs that use the client",
	}
}

// setArgument sets what one argument of the decorator says, or returns why it cannot.
func setArgument(f *statement, sig *schema.Signature, name string, value any) string {
	text, isText := value.(string)
	switch {
	case name == "name" && value == f.Name:
		return ""
	case name == "description" && isText:
		sig.Description = text
		return ""
	case elsewhere()[name] != "":
		return name + " is no setting that a file can have in its decorator: " + elsewhere()[name]
	}
	raw, err := schema.Encode(value)
	if err != nil {
		return name + " cannot be read"
	}
	if name == "requirements" {
		if json.Unmarshal(raw, &sig.Requirements) != nil {
			return "requirements is a list of texts"
		}
		return ""
	}
	outer, key := "", name
	switch name {
	case "approval":
		key = "requires_approval"
	case "timeout":
		outer, key, raw = "limits", "wall_ms", scaled(value, 1000)
	case "memory":
		outer, key, raw = "limits", "memory_bytes", size(value)
	case "retry":
		if _, isNumber := value.(json.Number); isNumber {
			outer, key = "retry", "tries"
		}
	}
	if raw == nil {
		return map[string]string{"wall_ms": "timeout is a number of seconds more than 0",
			"memory_bytes": "memory is a number of bytes, or such as \"512MiB\""}[key]
	}
	return merge1(sig, outer, key, name, raw)
}

// merge1 adds one setting to those of the signature, if it is one.
func merge1(sig *schema.Signature, outer, key, name string, raw []byte) string {
	// A decoder takes a key in other letters for the same one, and who looks for the key does not.
	if key != strings.ToLower(key) || strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII }) {
		return name + " is no setting of a tool: the settings are " + strings.Join(settingNames(), ", ")
	}
	one := map[string]any{key: json.RawMessage(raw)}
	if outer != "" {
		one = map[string]any{outer: one}
	}
	text, err := json.Marshal(one)
	if err != nil {
		return name + " cannot be read"
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	var s haft.Settings
	if err := strict.Decode(&s); err != nil {
		if strings.Contains(err.Error(), "unknown field "+strconv.Quote(name)) {
			return name + " is no setting of a tool: the settings are " + strings.Join(settingNames(), ", ")
		}
		return "the value of " + name + " is of another type than the setting"
	}
	loose := json.NewDecoder(bytes.NewReader(text))
	loose.UseNumber()
	if sig.Settings == nil {
		sig.Settings = map[string]any{}
	}
	var tree map[string]any
	if err := loose.Decode(&tree); err != nil {
		return name + " cannot be read"
	}
	for k, v := range tree {
		inner, isMap := v.(map[string]any)
		if have, ok := sig.Settings[k].(map[string]any); ok && isMap {
			for kk, vv := range inner {
				have[kk] = vv
			}
			continue
		}
		sig.Settings[k] = v
	}
	return ""
}

// settingNames lists what the decorator takes.
func settingNames() []string {
	names := []string{"requires_approval", "timeout", "memory", "network", "secrets", "requirements", "description",
		"programs", "roles", "idempotent", "parallel", "cacheable", "cache_ms", "retry", "rate", "concurrency",
		"limits", "output", "sandbox", "min_isolation", "fallback", "on_error", "no_artifacts"}
	slices.Sort(names)
	return names
}

// scaled returns a number that is multiplied, as a whole number of JSON; nil if it is none above 0.
func scaled(value any, by float64) []byte {
	n, ok := value.(json.Number)
	f, err := n.Float64()
	if f = math.Round(f * by); !ok || err != nil || f < 1 || f > math.MaxInt32*by {
		return nil
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

// size returns a number of bytes, also written such as "512MiB"; nil if it is none.
func size(value any) []byte {
	text, ok := value.(string)
	if !ok {
		return scaled(value, 1<<0)
	}
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			return scaled(json.Number(strings.TrimSpace(number)), float64(int64(1)<<(10*(i+1))))
		}
	}
	return nil
}
