package command

import (
	"context"
	"errors"
	"slices"
	"strings"

	"haft"
	"haft/policy"
	"haft/sandbox"
	"haft/sandbox/hostpath"
)

// hostFiles are the paths of the host that the command of an MCP server is shown.
//
// This is the one place where paths that a tenant names are decided about: when a
// server is kept, and again at every start of its command. Each is opened once
// without following links; policy and guard decide about what is open; and the
// sandbox mounts that.
type hostFiles struct {
	guard hostpath.Guard
	rules *policy.Policy
	org   string
	open  []*hostpath.Path
}

// hostFiles returns none yet. Close them.
func (r *Resolver) hostFiles(ctx context.Context, org string) (*hostFiles, error) {
	rules, err := r.Rules(ctx, org)
	if err != nil {
		return nil, err
	}
	return &hostFiles{guard: r.Guard, rules: rules, org: org}, nil
}

// Close closes what was opened. Sandboxes that run have their own.
func (h *hostFiles) Close() {
	for _, p := range h.open {
		_ = p.File.Close() // it cannot be written to
	}
	h.open = nil
}

// mount opens a mount of a server, if the organisation may have it.
func (h *hostFiles) mount(m haft.MCPMount) (sandbox.Mount, error) {
	if m.Inside == "" {
		m.Inside = m.Dir
	}
	p, err := hostpath.Open(m.Dir)
	if err != nil {
		return sandbox.Mount{}, aboutMount(m, err)
	}
	h.open = append(h.open, p)
	if p.Shared {
		err := &haft.Error{Code: haft.CodeDenied, Message: "it is a file with several names (hard links)"}
		return sandbox.Mount{}, aboutMount(m, err)
	}
	if err := errors.Join(h.guard.Check(p), h.rules.MayMount(h.org, p.Real)); err != nil {
		return sandbox.Mount{}, aboutMount(m, err)
	}
	return sandbox.Mount{Host: p.Real, Inside: m.Inside, Writable: m.Writable, File: p.File}, nil
}

// aboutMount says which mount an error is about, by the name that it was given.
func aboutMount(m haft.MCPMount, err error) error {
	e, ok := errors.AsType[*haft.Error](err)
	if !ok {
		return err
	}
	return &haft.Error{Code: e.Code, Message: "the mount " + m.Dir + ": " + e.Message, Err: err}
}

// program opens a program that a server names, by its path. Links to it are followed,
// as those of /etc/alternatives; but a link in a directory that the organisation may
// have mounted, and so may have written, leads only to what it may have mounted. Neither the
// program nor a link to it is in a directory of another organisation, which would decide what
// runs with the variables of this one.
func (h *hostFiles) program(file string) (*hostpath.Path, error) {
	p, links, err := hostpath.Follow(file)
	if err != nil {
		return nil, noCommand("the program cannot be opened")
	}
	h.open = append(h.open, p)
	if err := h.guard.Check(p); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(append(links, p.Real), func(name string) bool { return h.rules.OthersMount(h.org, name) }) {
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: "the program of the server, or a link to it, is in a directory that another organisation may " +
				"mount and write: see mcp in the policy"}
	}
	own := func(dir string) bool { return h.rules.MayMount(h.org, dir) == nil }
	if slices.ContainsFunc(links, own) && !own(p.Real) {
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: "the program of the server is a symbolic link to a file that the organisation may not mount: " +
				"see mcp in the policy"}
	}
	return p, nil
}

// mayInterpret reports whether the first line of a program may name this interpreter:
// those of the system, those that the organisation may run, and its own.
func (h *hostFiles) mayInterpret(name, file string) bool {
	inDir := func(dir string) bool { return strings.HasPrefix(file, dir+"/") }
	return slices.ContainsFunc(programDirs, inDir) || h.rules.MayRun(h.org, name) == nil ||
		h.rules.MayMount(h.org, file) == nil
}

// place adds what was opened to the mounts of a command: the mounts of the server, and
// the programs, each as the file that was looked at.
func (h *hostFiles) place(s haft.MCPServer, base []sandbox.Mount,
	programs map[string]*hostpath.Path) ([]sandbox.Mount, error) {
	var named []sandbox.Mount
	for _, m := range s.Mounts {
		mount, err := h.mount(m)
		if err != nil {
			return nil, err
		}
		named = append(named, mount)
	}
	// shown reports whether a path is seen in a mount as it is on the host.
	shown := func(name string) bool {
		return slices.ContainsFunc(named, func(m sandbox.Mount) bool {
			return m.Host == m.Inside && strings.HasPrefix(name, m.Inside+"/")
		})
	}
	var list []sandbox.Mount
	for _, m := range base {
		p := programs[m.Host]
		switch {
		case p == nil:
		case !shown(m.Inside):
			m.File = p.File
		case shown(p.Real):
			continue
		default: // its link is seen, and leads to where it has to be
			m = sandbox.Mount{Host: p.Real, Inside: p.Real, File: p.File}
		}
		if !slices.ContainsFunc(list, func(o sandbox.Mount) bool { return o.Inside == m.Inside }) {
			list = append(list, m)
		}
	}
	base = slices.Clone(list)
	for _, m := range named {
		same := func(o sandbox.Mount) bool { return o.Host == m.Host && o.Inside == m.Inside }
		if m.Host == m.Inside && !m.Writable && slices.ContainsFunc(base, same) {
			continue // the command sees it anyway
		}
		if err := covers(m, base); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// covers refuses a mount that would replace a part of what the command runs with: then
// it would not be the command that policy knows. What is shown at its own path
// replaces nothing.
func covers(m sandbox.Mount, others []sandbox.Mount) error {
	for _, o := range others {
		meets := strings.HasPrefix(o.Inside, m.Inside+"/") || strings.HasPrefix(m.Inside, o.Inside+"/")
		if m.Inside == o.Inside || m.Host != m.Inside && meets {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: "the mount at " + m.Inside +
					" would cover files that the command runs with: choose another path inside"}
		}
	}
	return nil
}

// CheckMounts refuses a server that has mounts which its organisation may not have.
// Directories that are not there yet are met again when the command is started.
func (r *Resolver) CheckMounts(ctx context.Context, s haft.MCPServer) error {
	if len(s.Mounts) == 0 {
		return nil
	}
	h, err := r.hostFiles(ctx, s.Org)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, m := range s.Mounts {
		if _, err := h.mount(m); err != nil && haft.CodeOf(err) != haft.CodeNotFound {
			return err
		}
	}
	return nil
}

// Permit reports why policy does not let the organisation of a server run its command with
// its mounts any more.
func (r *Resolver) Permit(ctx context.Context, s haft.MCPServer) error {
	rules, err := r.Rules(ctx, s.Org)
	if err != nil {
		return err
	}
	if err := rules.MayRun(s.Org, s.Command[0]); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		// What was mounted was opened by this path, which had no link in it.
		if err := rules.MayMount(s.Org, m.Dir); err != nil {
			return aboutMount(m, err)
		}
	}
	return nil
}
