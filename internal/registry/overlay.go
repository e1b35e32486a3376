package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"haft"
	"haft/internal/requirement"
	"haft/schema"
)

// overlay fills in the settings that a draft leaves out: first those that its source says, then, if the
// draft asks for it, those of the tool that it replaces. It returns the latter in words, and makes the
// draft conditional on the version that they are of.
func (r *Registry) overlay(ctx context.Context, p haft.Principal, d *haft.Draft) (kept []string, err error) {
	derived, err := r.outline(ctx, p, *d)
	if err != nil || derived == nil && !d.KeepSettings {
		return nil, err
	}
	now, err := settingsTree(d.Settings)
	if err != nil {
		return nil, err
	}
	name, named := cmp.Or(d.Name, d.Function), slices.Clone(d.Named)
	if derived != nil {
		name = cmp.Or(d.Name, derived.Name)
		if derived.Output != "" {
			named = append(named, "output.type")
		}
		asked := derived.Settings
		if !d.KeepSettings { // the draft has all settings: a source may still restrict itself
			asked = restrictions(asked)
		}
		fill(now, asked, named, "")
		if d.KeepSettings && len(d.Needs.Pip) == 0 && !slices.Contains(named, "requirements") {
			d.Needs.Pip = derived.Requirements
		}
	}
	if d.KeepSettings && name != "" && !d.New {
		before, err := r.replaced(ctx, p, name, d)
		if err != nil {
			return nil, err
		}
		if before != nil {
			was, err := settingsTree(before.Settings)
			if err != nil {
				return nil, err
			}
			kept = append(fill(now, was, named, ""), keepOthers(d, *before, named)...)
		}
	}
	text, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("write the settings of a tool: %w", err)
	}
	d.Settings = haft.Settings{}
	if err := json.Unmarshal(text, &d.Settings); err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the settings in the source cannot be used: " +
			unreadable(err).Error(), Err: err}
	}
	return kept, nil
}

// outline reads what the source of a draft says about itself, where that matters before its packages are
// known. It is nil for a source with mistakes, which are reported when it is derived.
func (r *Registry) outline(ctx context.Context, p haft.Principal, d haft.Draft) (*Derived, error) {
	marked := d.Kind == haft.KindPython && strings.Contains(d.Source, "haft")
	if r.cfg.Derive == nil || !marked && !(d.KeepSettings && d.Name == "") {
		return nil, nil
	}
	derived, err := r.cfg.Derive(ctx, Source{Name: d.Name, Kind: d.Kind, Text: []byte(d.Source), Function: d.Function,
		Untyped: true, Org: p.Org})
	if err != nil {
		if len(sourceFaults(err)) > 0 {
			return nil, nil
		}
		return nil, invalid("the source is no tool", err)
	}
	if derived == nil || derived.Signature == nil {
		return nil, nil
	}
	return derived, nil
}

// replaced returns the version whose settings a draft keeps: the current one, or else the newest one if it is
// of the same author and waits for a person; nil if there is none. Nothing is kept of a version that somebody
// else has proposed: that would get around its review.
func (r *Registry) replaced(ctx context.Context, p haft.Principal, name string, d *haft.Draft) (*haft.Version, error) {
	t, err := r.store.Tools.Tool(ctx, p.Org, name)
	if haft.CodeOf(err) == haft.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the tool: %w", err)
	}
	d.If = cmp.Or(d.If, t.Version.Digest)
	if t.Version.Number != 0 {
		return &t.Version, nil
	}
	newest, err := r.newest(ctx, p.Org, t.ID)
	if err != nil || newest == nil || newest.Author != p.User || newest.Review.State != haft.ReviewWaiting {
		return nil, err
	}
	return newest, nil
}

// restrictions returns those settings of a source that only take something away.
func restrictions(asked map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range []string{"requires_approval", "audit_files"} {
		if v, ok := asked[key].(bool); ok && v {
			out[key] = true
		}
	}
	return out
}

// settingsTree returns settings as JSON has them, without those that are empty.
func settingsTree(s haft.Settings) (map[string]any, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the settings of a tool: %w", err)
	}
	var tree map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read the settings of a tool: %w", err)
	}
	return tree, nil
}

// fill sets what now does not have and what is not named, and returns it in words. The parts of limits
// and output are settings of their own.
func fill(now, from map[string]any, named []string, prefix string) (filled []string) {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		path, value := prefix+key, from[key]
		if inner, ok := value.(map[string]any); ok && (path == "limits" || path == "output") {
			to, ok := now[key].(map[string]any)
			if !ok {
				to = map[string]any{}
			}
			filled = append(filled, fill(to, inner, named, path+".")...)
			now[key] = to
			continue
		}
		if _, has := now[key]; has || slices.Contains(named, path) {
			continue
		}
		now[key] = value
		filled = append(filled, settingWords(path, value))
	}
	return filled
}

// settingWords says which setting it is, and of a list of names which.
func settingWords(path string, value any) string {
	short := map[string]string{"requires_approval": "approval", "secrets": "secret", "limits.wall_ms": "timeout",
		"limits.memory_bytes": "memory", "programs": "program", "roles": "role", "cache_ms": "cache-for"}
	text := cmp.Or(short[path], strings.ReplaceAll(strings.TrimPrefix(path, "limits."), "_", " "))
	list, ok := value.([]any)
	for _, v := range list {
		if name, isName := v.(string); ok && isName {
			text += " " + name
		}
	}
	return text
}

// keepOthers keeps requirements, files and annotations of the version before, as far as the draft has none.
func keepOthers(d *haft.Draft, before haft.Version, named []string) (kept []string) {
	if n := before.Requirements; len(d.Needs.Pip)+len(d.Needs.NPM) == 0 && !slices.Contains(named, "requirements") {
		if before.Kind == haft.KindPython {
			n.Pip = withoutOwn(n.Pip, before.Source)
		}
		if d.Kind == before.Kind {
			d.Needs = n
			for _, name := range slices.Concat(n.Pip, n.NPM) {
				kept = append(kept, "requirement "+name)
			}
		}
	}
	if len(d.Files) == 0 && !slices.Contains(named, "files") {
		d.Files = before.Files
		for _, f := range d.Files {
			kept = append(kept, "file "+f.Path)
		}
	}
	if d.Annotations == (haft.Annotations{}) && before.Annotations != d.Annotations {
		d.Annotations = before.Annotations
		kept = append(kept, "annotations")
	}
	return kept
}

// withoutOwn returns the packages that a Python source does not name itself.
func withoutOwn(pip []string, source string) []string {
	own, _, err := requirement.ReadScript("the source", source)
	if err != nil {
		return pip
	}
	texts, _ := own.Strings()
	return slices.DeleteFunc(slices.Clone(pip), func(s string) bool { return slices.Contains(texts, s) })
}

// namedIn returns what a sidecar names, also where it is empty.
func namedIn(o *schema.Object) (named []string) {
	if o.Has("requirements") {
		named = append(named, "requirements")
	}
	settings := o.Object("settings")
	if settings == nil {
		return named
	}
	for _, key := range settings.Keys() {
		inner := settings.Object(key)
		if inner == nil || key != "limits" && key != "output" {
			named = append(named, key)
			continue
		}
		for _, k := range inner.Keys() {
			named = append(named, key+"."+k)
		}
	}
	return named
}

// unknownField says what may be meant by a key of a sidecar that is not known.
func unknownField(name string) error {
	settings := fieldsOf(reflect.TypeFor[haft.Settings]())
	if slices.Contains(settings, name) {
		return fmt.Errorf("%q is not known here: it belongs into \"settings\"", name)
	}
	all := slices.Concat(fieldsOf(reflect.TypeFor[haft.Draft]()), settings, fieldsOf(reflect.TypeFor[haft.Limits]()))
	for _, known := range all {
		if a, b := strings.TrimRight(name, "s"), strings.ReplaceAll(known, "requires_", "require_"); known != "" &&
			(a == strings.TrimRight(b, "s") || strings.ReplaceAll(name, "-", "_") == known) {
			return fmt.Errorf("%q is not known; did you mean %s?", name, known)
		}
	}
	return fmt.Errorf("%q is not known", name)
}

// fieldsOf returns what JSON calls the fields of a struct.
func fieldsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
