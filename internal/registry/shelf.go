package registry

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"haft"
	"haft/internal/store"
)

// The sizes of pages that are read from the store.
const (
	toolPage    = 200
	versionPage = 50
	searchLimit = 100
)

// Tool returns the tool of that name or id.
func (r *Registry) Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if b := r.builtin[ref]; b != nil {
		t := r.builtinFor(ctx, p, b.Name)
		return &t, nil
	}
	if ref == "" {
		return nil, noTool()
	}
	t, err := r.store.Tools.Tool(ctx, p.Org, ref)
	if err != nil {
		return nil, fmt.Errorf("read a tool: %w", err)
	}
	if r.builtin[t.Name] != nil {
		return nil, noTool()
	}
	return t, nil
}

// builtinFor returns a built-in tool as a caller has it.
func (r *Registry) builtinFor(ctx context.Context, p haft.Principal, name string) haft.Tool {
	t := r.builtin[name].Tool
	if r.cfg.Unavailable != nil {
		t.Unavailable = r.cfg.Unavailable(ctx, p, name)
	}
	return t
}

// Tools lists the tools of p's organisation and the built-in ones, ordered by
// name, or if f has a text to search for, the best first.
func (r *Registry) Tools(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		if err := p.Check(); err != nil {
			yield(haft.Tool{}, err)
			return
		}
		f.Search = strings.TrimSpace(f.Search)
		all := r.list(ctx, p, f)
		if f.Search != "" {
			all = r.search(ctx, p, f)
			if f.Limit <= 0 {
				f.Limit = searchLimit
			}
		}
		n := 0
		for t, err := range all {
			if err != nil {
				yield(haft.Tool{}, err)
				return
			}
			if n++; !yield(t, nil) || n == f.Limit {
				return
			}
		}
	}
}

// Whole returns the tools of a list with the content of their files, which lists leave out, and without those that
// were removed meanwhile.
func Whole(ctx context.Context, of interface {
	Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error)
}, p haft.Principal, list iter.Seq2[haft.Tool, error]) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		for t, err := range list {
			if err == nil && len(t.Version.Files) > 0 {
				var whole *haft.Tool
				if whole, err = of.Tool(ctx, p, string(t.ID)); haft.CodeOf(err) == haft.CodeNotFound {
					continue
				}
				if err == nil {
					t = *whole
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// list merges the tools of the store with the built-in ones, by name or time.
func (r *Registry) list(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		var ours []haft.Tool
		for _, n := range r.names {
			// Nobody ever changed a built-in tool: by time they come last.
			if (n > f.After || f.Recent && !f.AfterTime.IsZero()) && matches(r.builtin[n].Tool, f) {
				ours = append(ours, r.builtinFor(ctx, p, n))
			}
		}
		page := f
		for !f.Recent || f.After == "" || !f.AfterTime.IsZero() {
			page.Limit = toolPage
			if f.Limit > 0 {
				// One more for each that a built-in tool hides.
				page.Limit = min(toolPage, f.Limit+len(r.names))
			}
			tools, err := r.store.Tools.Tools(ctx, p.Org, page)
			if err != nil {
				yield(haft.Tool{}, fmt.Errorf("list tools: %w", err))
				return
			}
			for _, t := range tools {
				for !f.Recent && len(ours) > 0 && ours[0].Name < t.Name {
					if !yield(ours[0], nil) {
						return
					}
					ours = ours[1:]
				}
				if page.After, page.AfterTime = t.Name, t.Updated; r.builtin[t.Name] == nil && !yield(t, nil) {
					return
				}
			}
			if len(tools) < page.Limit {
				break
			}
		}
		for _, t := range ours {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// search finds tools by words. Built-in tools that have the words in their name
// come first, the others last.
func (r *Registry) search(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		var first, last []haft.Tool
		for _, n := range r.names {
			t := r.builtinFor(ctx, p, n)
			switch {
			case !matches(t, f):
			case contains(t.Name, f.Search):
				first = append(first, t)
			case contains(strings.Join(append([]string{t.Name, t.Version.Description, t.Category}, t.Tags...), " "),
				f.Search):
				last = append(last, t)
			}
		}
		slices.SortStableFunc(first, func(a, b haft.Tool) int { return cmp.Compare(len(a.Name), len(b.Name)) })
		page := f
		if page.Limit <= 0 {
			page.Limit = searchLimit
		}
		page.Limit = min(page.Limit+len(r.names), store.MaxPage) // one more for each that a built-in tool hides
		found, err := r.store.Tools.Tools(ctx, p.Org, page)
		if err != nil {
			yield(haft.Tool{}, fmt.Errorf("search tools: %w", err))
			return
		}
		found = slices.DeleteFunc(found, func(t haft.Tool) bool { return r.builtin[t.Name] != nil })
		for _, t := range slices.Concat(first, found, last) {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// matches reports whether a tool is among those that a filter lists, whatever
// its words and its place.
func matches(t haft.Tool, f haft.ToolFilter) bool {
	return (f.Category == "" || t.Category == f.Category) && (f.Kind == "" || t.Version.Kind == f.Kind) &&
		(f.Tag == "" || slices.Contains(t.Tags, f.Tag)) && f.Shows(t.Disabled)
}

// contains reports whether every word of search begins a word of text.
func contains(text, search string) bool {
	split := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s),
			func(r rune) bool { return strings.ContainsRune(" \t\n_-.,;:()", r) })
	}
	have := split(text)
	want := split(search)
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return strings.HasPrefix(h, w) }) {
			return false
		}
	}
	return len(want) > 0
}

// Versions lists the versions of a tool, newest first. A built-in tool has one.
func (r *Registry) Versions(ctx context.Context, p haft.Principal, ref string) iter.Seq2[haft.Version, error] {
	return func(yield func(haft.Version, error) bool) {
		t, err := r.Tool(ctx, p, ref)
		if err != nil {
			yield(haft.Version{}, err)
			return
		}
		if t.Org == "" {
			yield(t.Version, nil)
			return
		}
		for v, err := range r.versions(ctx, t) {
			if !yield(v, err) {
				return
			}
		}
	}
}

// versions reads the versions of a tool page by page.
func (r *Registry) versions(ctx context.Context, t *haft.Tool) iter.Seq2[haft.Version, error] {
	return func(yield func(haft.Version, error) bool) {
		for before := 0; ; {
			page, err := r.store.Tools.Versions(ctx, t.Org, t.ID, before, versionPage)
			if err != nil {
				yield(haft.Version{}, fmt.Errorf("read the versions of a tool: %w", err))
				return
			}
			for _, v := range page {
				if before = v.Number; !yield(v, nil) {
					return
				}
			}
			if len(page) < versionPage {
				return
			}
		}
	}
}
