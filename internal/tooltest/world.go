package tooltest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/app"
	"haft/internal/circuit"
	"haft/internal/egress"
	"haft/internal/engine"
	"haft/internal/limit"
	"haft/internal/registry"
	"haft/internal/supply"
	"haft/internal/toolfile"
	"haft/internal/yamltree"
)

// A world is the system that cases run on: a real one, in a directory that is removed afterwards.
type world struct {
	cfg *Config
	svc *app.Service
	dir string
	// sandbox is that of the command line, or empty.
	sandbox haft.SandboxType
	cases   atomic.Int64 // how many were begun, which makes the names of users
	runs    sync.Map     // of *run by organisation and user
	watching
	covering
	models models

	mu     sync.Mutex
	places map[string]*place // by file and policy
}

// A place is an organisation with the tools of one file. Cases of the file with the same policy share it, and so
// its warm cells.
type place struct {
	*world
	file  *File
	org   string
	tools []haft.Tool // in the order of the file

	profiled map[string]profiled // by the name of the tool, of those that are profiled
}

// openWorld opens a system, with models for agents if some talk. Close it.
func openWorld(ctx context.Context, cfg *Config, sandbox string, talks bool) (*world, error) {
	dir, err := os.MkdirTemp("", "haft-test-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the test: %w", err)
	}
	w := &world{cfg: cfg, dir: dir, sandbox: haft.SandboxType(sandbox), places: map[string]*place{}}
	cache, err := app.CacheDir()
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	packages := supply.FromEnv(os.Getenv)
	packages.Dir = cmp.Or(packages.Dir, filepath.Join(cache, "layers"))
	packages.Remember = true
	packages.Advisories = cmp.Or(cfg.Advisories, packages.Advisories)
	sc := app.ServiceConfig{
		Egress: egress.Config{Mock: &egress.Mock{Answer: w.answer, Real: true}},
		Config: app.Config{Sandbox: sandbox, AllowReduced: cfg.Reduced, Packages: packages},
		// The author of a test decides which MCP servers are commands.
		Policy: bytes.Replace(app.DefaultPolicy(), []byte("orgs: [local]"), []byte(`orgs: ["*"]`), 1),
		Data:   dir, Busy: true, SelfReview: true, MasterKey: key, Progress: cfg.Progress,
		// A tool that fails on purpose is not broken, and one file is all of the tenants.
		Engine: engine.Config{Breaker: circuit.Config{Failures: -1}, BlockFor: time.Nanosecond, Observe: w.observe,
			Limits: limit.Config{Running: cfg.Parallel, PerTenant: cfg.Parallel}},
	}
	if talks {
		if sc.Agents, err = w.openModels(); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	if w.svc, err = app.OpenService(ctx, sc); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// close ends the system and removes its directory.
func (w *world) close() error {
	var err error
	if w.svc != nil {
		err = w.svc.Close()
	}
	w.models.close()
	return errors.Join(err, os.RemoveAll(w.dir))
}

// manager is who sets up an organisation, and approver who answers.
func (p *place) manager() haft.Principal {
	return haft.Principal{Org: p.org, User: "haft-test", Roles: []string{haft.RoleAdmin}}
}

func (p *place) approver(roles []string) haft.Principal {
	if len(roles) == 0 {
		roles = []string{haft.RoleAdmin, haft.RoleApprover}
	}
	return haft.Principal{Org: p.org, User: "approver", Roles: roles}
}

// place returns the organisation for cases of a file with a policy, and makes it the first time.
func (w *world) place(ctx context.Context, f *File, policy string) (*place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := f.Path + "\x00" + policy
	if p := w.places[key]; p != nil {
		return p, nil
	}
	p := &place{world: w, file: f, org: fmt.Sprintf("test-%d", len(w.places)+1),
		profiled: map[string]profiled{}}
	if policy != "" {
		if _, err := w.svc.PutPolicy(ctx, p.manager(), false, haft.PolicyText{Text: []byte(policy),
			If: haft.IfNone}); err != nil {
			return nil, &haft.Error{Code: haft.CodeOf(err), Message: f.Path + ": the policy of a case: " +
				haft.MessageOf(err), Err: err}
		}
	}
	if err := p.allowRemote(ctx); err != nil {
		return nil, err
	}
	for _, ref := range f.Tool {
		if err := p.register(ctx, ref); err != nil {
			return nil, fmt.Errorf("%s: register the tool %s: %w", f.Path, ref, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.MCP)) {
		if err := p.addServer(ctx, name, f.MCP[name]); err != nil {
			return nil, fmt.Errorf("%s: add the MCP server %s: %w", f.Path, name, err)
		}
	}
	w.places[key] = p
	return p, nil
}

// allowRemote allows the organisation the sandbox elsewhere that the command line has named, which is consent to send
// code and arguments there. A test file alone cannot: in all other sandboxes its calls stay on this machine.
func (p *place) allowRemote(ctx context.Context) error {
	typ := p.world.sandbox
	if typ != haft.SandboxE2B && typ != haft.SandboxModal {
		return nil
	}
	_, err := p.world.svc.PutSandboxConfig(ctx, p.manager(), haft.SandboxConfig{Type: typ, AllowRemote: true})
	return err
}

// addServer adds an MCP server, which must list its tools.
func (p *place) addServer(ctx context.Context, name string, s haft.MCPServer) error {
	s.Name, s.If = name, haft.IfNone
	s.Mounts = slices.Clone(s.Mounts)
	for i, m := range s.Mounts {
		path, err := p.file.within(m.Dir)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(path, gitDir)); err == nil || m.Writable {
			return &haft.Error{Code: haft.CodeInvalid, Message: p.file.Path + ": the mount " + m.Dir +
				": a test mounts nothing writable, and no directory that has a " + gitDir}
		}
		dir, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("find the directory of a mount: %w", err)
		}
		s.Mounts[i].Dir = dir
	}
	if s.Transport == "" {
		s.Transport = haft.MCPHTTP
		if len(s.Command) > 0 {
			s.Transport = haft.MCPStdio
		}
	}
	change, err := p.svc.PutMCPServer(ctx, p.manager(), s)
	if err == nil && change.Server.State.Error != "" {
		err = &haft.Error{Code: haft.CodeUnavailable, Message: change.Server.State.Error}
	}
	return err
}

// policyText returns the policy of a case: inline, or of a file beside the test file.
func (f *File) policyText(c *Case) (string, error) {
	var name string
	if len(c.Policy) == 0 || json.Unmarshal(c.Policy, &name) != nil {
		return string(c.Policy), nil
	}
	if strings.Contains(name, "\n") {
		return name, nil
	}
	path, err := f.within(name)
	if err != nil {
		return "", err
	}
	text, err := toolfile.ReadBounded(path, yamltree.MaxBytes)
	if err != nil {
		return "", f.fail(c.At, "read the policy: %s", err)
	}
	return string(text), nil
}

// register registers the tools of FILE, FILE:FUNCTION or a directory.
func (p *place) register(ctx context.Context, ref string) error {
	at, err := p.file.toolPath(ref)
	if err != nil {
		return err
	}
	if !toolfile.IsDir(at) {
		d, err := toolfile.ReadDraft(at)
		if err != nil {
			return err
		}
		return p.addFile(ctx, at, d)
	}
	found, err := registry.ReadDir(at)
	if err != nil {
		return err
	}
	set, err := toolfile.DirRequirements(at)
	if err != nil {
		return err
	}
	for _, f := range found {
		file := filepath.Join(at, filepath.FromSlash(f.Path))
		own := toolfile.AddDirRequirements(&f, file, set)
		if err := cmp.Or(f.Err, own); err != nil {
			return err
		}
		add := p.addFile
		if f.Whole {
			add = p.add
		}
		if err := add(ctx, file, f.Draft); err != nil {
			return err
		}
	}
	return nil
}

// addFile registers the tools of one source.
func (p *place) addFile(ctx context.Context, file string, d haft.Draft) error {
	split := toolfile.Splitter{Tools: p.svc.App.Tools, Function: toolfile.FunctionOf(p.svc, p.manager())}
	path, _ := toolfile.SplitRef(file)
	drafts, err := split.Split(ctx, path, d)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		if err := p.add(ctx, file, d); err != nil {
			return err
		}
	}
	return nil
}

// add registers one tool, with the settings of the test file, and installs its packages.
func (p *place) add(ctx context.Context, file string, d haft.Draft) error {
	kept, err := p.apply(file, &d)
	if err != nil {
		return err
	}
	change, err := p.svc.PutTool(ctx, p.manager(), d)
	if err != nil {
		return err
	}
	t := &change.Tool
	if change.Waiting > 0 { // the author of the test is the one who reviews
		if t, err = p.svc.SetTool(ctx, p.manager(), string(t.ID), haft.ToolState{
			Review: &haft.Answer{Approve: true}}); err != nil {
			return err
		}
	}
	if t.Version.Lock != (haft.Lock{}) {
		if _, err := p.svc.Build(ctx, p.manager(), string(t.ID)); err != nil {
			return fmt.Errorf("install the packages: %w", err)
		}
	}
	p.keepSource(t.Name, file)
	if len(kept.lines) > 0 {
		p.profiled[t.Name] = kept
	}
	p.tools = append(p.tools, *t)
	return nil
}

// apply sets the settings of a draft that the test file gives.
func (p *place) apply(file string, d *haft.Draft) (kept profiled, err error) {
	s := p.file.Settings
	if err := overlay(&d.Settings, s.Settings); err != nil {
		return kept, err
	}
	if len(s.Packages) > 0 {
		d.Needs = haft.SplitRequirements(d.Kind, s.Packages)
	}
	p.watchHosts(d)
	p.cover(file, d)
	kept = p.profile(file, d)
	p.file.fix(d)
	files := make([]string, len(s.Files))
	for i, name := range s.Files {
		if files[i], err = p.file.filePath(name); err != nil {
			return kept, err
		}
	}
	return kept, toolfile.AddFiles(d, file, files)
}

// overlay sets the fields of settings that others have.
func overlay(to *haft.Settings, from haft.Settings) error {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to) // which leaves what is not there
	}
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	return nil
}
