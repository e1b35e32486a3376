package registry

import (
	"context"
	"strconv"

	"haft"
)

// Prepare compiles a draft as [Registry.Put] does, and keeps nothing. The source is
// reviewed as if it were kept. A draft that a person would have to accept first is
// [haft.CodeDenied].
func (r *Registry) Prepare(ctx context.Context, p haft.Principal, d haft.Draft) (*Compiled, error) {
	c, err := r.draft(ctx, p, d)
	if err != nil {
		return nil, err
	}
	if c.waits {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "a person has to review the source first: register " +
			"it as a tool. The review found " + summarize(c.findings)}
	}
	return Compile(c.tool)
}

// Packages returns what code of a kind runs with in a call of a built-in tool, whose digest is given: the packages that
// the call brings, which are checked as those of a draft are, and their lock. What a person would have to accept first
// is [haft.CodeDenied].
func (r *Registry) Packages(ctx context.Context, p haft.Principal, kind haft.Kind, digest string,
	needs haft.Requirements) (haft.Version, error) {
	v := haft.Version{Kind: kind, Digest: digest + string(kind)}
	if needs = needs.Of(kind); needs.Empty() {
		return v, nil
	}
	c := &change{draft: haft.Draft{Kind: kind, Needs: needs}, by: p, tool: haft.Tool{Org: p.Org}}
	if err := CheckPackages(needs); err != nil {
		return haft.Version{}, err
	}
	if err := r.lock(ctx, c); err != nil {
		return haft.Version{}, err
	}
	v.Digest, v.Requirements, v.Lock = v.Digest+c.lock.Set, c.draft.Needs, c.lock
	if len(c.findings) == 0 {
		return v, nil
	}
	verdict := r.cfg.Judge(c.tool, c.findings)
	if verdict != Pass && verdict != Warn {
		return v, &haft.Error{Code: haft.CodeDenied, Message: "the packages are refused: " + summarize(c.findings) +
			". An administrator can add packages to the sandbox configuration of the organisation: haft sandbox set"}
	}
	return v, nil
}

// draft checks a draft, has its source reviewed and fills in what it leaves out.
func (r *Registry) draft(ctx context.Context, p haft.Principal, d haft.Draft) (*change, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if d.Kind == "" {
		d.Kind = haft.KindPython
	}
	if err := checkDraft(d); err != nil {
		return nil, err
	}
	kept, err := r.overlay(ctx, p, &d)
	if err != nil {
		return nil, err
	}
	if err := checkDraft(d); err != nil { // with the settings of the source
		return nil, err
	}
	if level := d.Settings.MinIsolation; level != "" && r.cfg.CanIsolate != nil {
		if err := r.cfg.CanIsolate(ctx, level); err != nil {
			return nil, err
		}
	}
	if d.Files = plainFiles(d.Files); len(d.Settings.Programs) > 0 && r.cfg.HasProgram != nil {
		for i, name := range d.Settings.Programs {
			if !r.cfg.HasProgram(name) {
				return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the tool cannot be registered: " +
					"/settings/programs/" + strconv.Itoa(i) + " is no program in /usr/local/bin, /usr/bin or /bin of " +
					"the host: install it there, or leave it out"}
			}
		}
	}
	if d.Name != "" {
		if err := r.free(d.Name); err != nil {
			return nil, err
		}
	}
	c := &change{draft: d, by: p, kept: kept}
	if err := r.review(ctx, c); err != nil {
		return nil, err
	}
	if err := r.lock(ctx, c); err != nil {
		return nil, err
	}
	if err := r.describe(ctx, c); err != nil {
		return nil, err
	}
	return c, r.judge(ctx, c)
}
