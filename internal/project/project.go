// Package project makes a small project to begin with: a tool, its test, rules and a page that explains
// them. It also lets the one person of a machine answer their own requests.
package project

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"haft"
)

//go:embed template
var templates embed.FS

// Write writes the project into a directory, which it makes if there is none. It replaces no file: if
// one of them exists, it writes nothing. It returns the names of the files.
func Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the project: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the project: %w", err)
	}
	defer func() { _ = root.Close() }() // every file is closed by itself
	entries, err := templates.ReadDir("template")
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	var names []string
	for _, e := range entries {
		if _, err := root.Lstat(e.Name()); !errors.Is(err, fs.ErrNotExist) {
			return nil, &haft.Error{Code: haft.CodeConflict, Message: path.Join(dir, e.Name()) +
				" exists already, so nothing was written: name another directory"}
		}
		names = append(names, e.Name())
	}
	for _, name := range names {
		text, err := templates.ReadFile(path.Join("template", name))
		if err != nil {
			return nil, fmt.Errorf("read a template: %w", err)
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			_, err = f.Write(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("write the project: %w", err)
		}
	}
	return names, nil
}

// Policies keep the documents of rules.
type Policies interface {
	Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error)
	PutPolicy(ctx context.Context, p haft.Principal, server bool, next haft.PolicyText) (*haft.PolicyText, error)
}

// SetSolo lets a person who works alone answer their own requests for approval and accept their own
// versions of tools: it adds the section solo to the policy of the server. The default is the document of
// a server that has none. Only an administrator of the server may do it, and the audit log says who did.
func SetSolo(ctx context.Context, at Policies, p haft.Principal, byDefault []byte) error {
	kept, err := at.Policy(ctx, p, true)
	if haft.CodeOf(err) == haft.CodeNotFound {
		kept, err = &haft.PolicyText{}, nil
	}
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "solo: {org: %q, user: %q}\n", p.Org, p.User)
	text := bytes.TrimRight([]byte(cmp.Or(string(kept.Text), string(byDefault))), "\n")
	if bytes.Contains(append(text, '\n'), append([]byte("\n"), line...)) {
		return nil
	}
	text = append(append(text, '\n'), line...)
	_, err = at.PutPolicy(ctx, p, true, haft.PolicyText{Text: text, If: cmp.Or(kept.Revision(), haft.IfNone)})
	if haft.CodeOf(err) == haft.CodeInvalid {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the policy of the server is not one that a line can be " +
			"added to, or names somebody else in solo: see haft policy show --server-policy", Err: err}
	}
	return err
}
