package project

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft"
	"haft/policy"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "project")
	names, err := Write(dir)
	if err != nil || strings.Join(names, " ") != "README.md policy.yaml weather.py weather_test.yaml" {
		t.Fatalf("the files are %v: %v", names, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Compile(text); err != nil {
		t.Errorf("the rules of the project: %v", err)
	}
	if _, err := Write(dir); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("files are written over: %v", err)
	}
}

// A file of the person is never replaced, nor is one written through a link.
func TestWrite_replaces_nothing(t *testing.T) {
	for name, prepare := range map[string]func(file string) error{
		"a file": func(file string) error { return os.WriteFile(file, []byte("mine"), 0o600) },
		"a link": func(file string) error { return os.Symlink("elsewhere", file) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(filepath.Join(dir, "weather.py")); err != nil {
				t.Fatal(err)
			}
			if _, err := Write(dir); haft.CodeOf(err) != haft.CodeConflict {
				t.Errorf("Write = %v", err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("there are %v: %v", entries, err)
			}
		})
	}
}

// kept is the policy of a server.
type kept struct {
	text   []byte
	writes int
}

func (k *kept) Policy(context.Context, haft.Principal, bool) (*haft.PolicyText, error) {
	return &haft.PolicyText{Text: k.text}, nil
}

func (k *kept) PutPolicy(_ context.Context, _ haft.Principal, server bool, next haft.PolicyText) (*haft.PolicyText,
	error) {
	if _, err := policy.Compile(next.Text); err != nil {
		return nil, err
	}
	if !server || (k.text == nil) != (next.If == haft.IfNone) {
		return nil, &haft.Error{Code: haft.CodeConflict}
	}
	k.text = next.Text
	k.writes++
	return &next, nil
}

func TestSetSolo(t *testing.T) {
	ann := haft.Principal{Org: "local", User: "ann", Roles: []string{haft.RoleApprover}}
	for name, tt := range map[string]struct {
		before string
		ok     bool
	}{
		"a server without rules": {"", true},
		"rules of the operator":  {"version: 1\nrules:\n  - {id: all, effect: allow}", true},
		"somebody else is named": {"version: 1\nsolo: {org: local, user: bob}\n", false},
		"in one line":            {`{"version": 1}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kept{}
			if tt.before != "" {
				k.text = []byte(tt.before)
			}
			for range 2 { // the second time there is nothing to do
				if err := SetSolo(t.Context(), k, ann, []byte("version: 1\n")); (err == nil) != tt.ok {
					t.Fatalf("SetSolo = %v", err)
				}
			}
			if !tt.ok {
				if string(k.text) != tt.before {
					t.Errorf("the document is %s", k.text)
				}
				return
			}
			p, err := policy.Compile(k.text)
			if err != nil || !p.MayAcceptOwn(ann) || k.writes != 1 || !strings.HasPrefix(string(k.text), tt.before) {
				t.Errorf("%d writes of %s: %v", k.writes, k.text, err)
			}
		})
	}
}
