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

// hostFiles are the paths of the host that the command of an MCP server sees.
//
// Only this type decides about paths that a tenant names: when a server is stored, and again
// at every start of its command. It opens each path once, without following links; policy
// and guard check the open file; and the sandbox mounts that open file.
type hostFiles struct {
	guard hostpath.Guard
	rules *policy.Policy
	org   string
	open  []*hostpath.Path
}

// hostFiles returns an empty set. Close it.
func (r *Resolver) hostFiles(ctx context.Context, org string) (*hostFiles, error) {
	rules, err := r.Rules(ctx, org)
	if err != nil {
		return nil, err
	}
	return &hostFiles{guard: r.Guard, rules: rules, org: org}, nil
}

// Close closes the opened files. Running sandboxes have their own descriptors.
func (h *hostFiles) Close() {
	for _, p := range h.open {
		_ = p.File.Close() // nothing is written through it
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

// aboutMount adds the name of the mount to an error.
func aboutMount(m haft.MCPMount, err error) error {
	e, ok := errors.AsType[*haft.Error](err)
	if !ok {
		return err
	}
	return &haft.Error{Code: e.Code, Message: "the mount " + m.Dir + ": " + e.Message, Err: err}
}

// program opens a program that a server names, by its path. It follows links, such as those
// of /etc/alternatives. But a link in a directory that the organisation may mount, and so
// may write, must lead to a file that it may mount. Neither the program nor a link to it may
// be in a directory of another organisation: that one could then replace the program that
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
// programs of the system, those that the organisation may run, and those that it may mount.
func (h *hostFiles) mayInterpret(name, file string) bool {
	inDir := func(dir string) bool { return strings.HasPrefix(file, dir+"/") }
	return slices.ContainsFunc(programDirs, inDir) || h.rules.MayRun(h.org, name) == nil ||
		h.rules.MayMount(h.org, file) == nil
}

// place adds the opened files to the mounts of a command: the mounts of the server, and the
// programs, each by its open file.
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
	// shown reports whether a mount shows a path at the same path as on the host.
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
		default: // a mount shows its link: mount the target
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
			continue // the command has it already
		}
		if err := covers(m, base); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// covers refuses a mount that would replace files of the command: then another program would
// run than policy allowed. A mount at its own path replaces nothing.
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

// CheckMounts refuses a server with mounts that its organisation may not have. Directories
// that do not exist yet are checked when the command starts.
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

// Permit reports why policy does not allow the organisation of a server its command and
// mounts any more.
func (r *Resolver) Permit(ctx context.Context, s haft.MCPServer) error {
	rules, err := r.Rules(ctx, s.Org)
	if err != nil {
		return err
	}
	if err := rules.MayRun(s.Org, s.Command[0]); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		// The directory was opened by this path, which had no link in it.
		if err := rules.MayMount(s.Org, m.Dir); err != nil {
			return aboutMount(m, err)
		}
	}
	return nil
}
