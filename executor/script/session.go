package script

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// The agent serves a session inside its sandbox, and the kernels run the code of
// contexts there. The first kernel is a part of the agent's module, and pythonNotebook of that kernel.
var (
	//go:embed harness/session_agent.py
	sessionAgent string
	//go:embed harness/session_notebook.py
	pythonNotebook string
	//go:embed harness/session_kernel.py
	pythonKernel string
	//go:embed harness/session_kernel.js
	nodeKernel string
	//go:embed harness/session_kernel.sh
	bashKernel string
)

// sessionImports are what the agent imports. Idle cells have them already.
var sessionImports = []string{"errno", "selectors", "socket", "stat", "struct", "subprocess", "time", "ast", "inspect"}

// sessionEnv is what code in a session has besides. Servers of the session itself are not behind the proxy. pip may
// install: not into the system, which nobody in a sandbox can write, but into the home directory, and without a cache
// that would take room there.
var sessionEnv = map[string]string{
	"no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1",
	"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
	"PATH": DefaultPath + ":/work/.local/bin:/work/node_modules/.bin",
}

// sessionFrame asks the harness to serve a session.
type sessionFrame struct {
	Type    string              `json:"type"`
	Kernels map[string][]string `json:"kernels"`
	Path    []string            `json:"path,omitempty"`
	Env     map[string]string   `json:"env,omitempty"`
}

// OpenSession starts a sandbox that lives until the caller releases it, and an agent in it
// that answers on Conn, as package internal/session describes. It says what confines it. The request says who it is
// for, and with which limits, network and layers. The wall clock is not limited here, and
// processor time by the ceiling. The caller serves connections.
//
// The sandbox has Python, which the agent needs, and Bash and Node.js if they are on this
// machine.
func (x *Executor) OpenSession(ctx context.Context, req executor.Request) (*cell.Cell, haft.Isolation, error) {
	req.Kind, req.Tool, req.Source = haft.KindPython, "session", sessionAgent+pythonNotebook+pythonKernel
	if err := check(req); err != nil {
		return nil, haft.Isolation{}, err
	}
	rt, err := x.finder.Find(ctx, req.Kind, x.cfg.Hints[req.Kind])
	if err != nil {
		return nil, haft.Isolation{}, err
	}
	limits := sandbox.Lasting(x.Limits(req.Limits))
	limits.CPU = x.cfg.Ceilings.CPU // of all its commands together
	r := &run{x: x, req: req, limits: limits, rt: rt, session: true}
	m := sessionFrame{Type: typeSession, Kernels: map[string][]string{}, Path: r.paths(), Env: egressEnv(req)}
	if m.Env = maps.Clone(m.Env); m.Env == nil {
		m.Env = map[string]string{}
	}
	maps.Copy(m.Env, sessionEnv)
	for _, l := range req.Layers { // commands find packages by this; Node.js looks in /node_modules anyway
		if path.Base(l.Inside) != "node_modules" {
			m.Env["PYTHONPATH"] = strings.TrimPrefix(m.Env["PYTHONPATH"]+":"+l.Inside, ":")
		}
	}
	others := x.kernels(ctx, m.Kernels)
	head, err := r.head()
	if err != nil {
		return nil, haft.Isolation{}, err
	}
	payload, err := json.Marshal(m)
	if err != nil {
		return nil, haft.Isolation{}, fmt.Errorf("encode the session: %w", err)
	}
	isolation, err := x.provider.Isolation(ctx)
	if err != nil {
		return nil, haft.Isolation{}, fmt.Errorf("ask for the isolation of a session: %w", err)
	}
	if !isolation.Level.AtLeast(haft.LevelNamespaces) {
		// Its files would be in a directory of the host, and what it starts would stay.
		return nil, haft.Isolation{}, &haft.Error{Code: haft.CodeUnavailable,
			Message: "sessions need a sandbox with namespaces of its own, which is not here; see haft doctor"}
	}
	c, err := x.pool.Take(ctx, r.sessionPlan(others, head))
	if err != nil {
		return nil, haft.Isolation{}, err
	}
	c.Begin(io.Discard, io.Discard)
	if err := startAgent(c, append(frame(nil, head), frame(nil, payload)...)); err != nil {
		c.Release(false)
		return nil, haft.Isolation{}, err
	}
	return c, isolation, nil
}

// startAgent sends the frames that start the agent, and waits until it is ready.
func startAgent(c *cell.Cell, frames []byte) error {
	if err := c.Conn.SetDeadline(time.Now().Add(probeTime)); err != nil {
		return fmt.Errorf("start the agent of a session: %w", err)
	}
	if _, err := c.Conn.Write(frames); err != nil {
		return fmt.Errorf("start the agent of a session: %w", err)
	}
	if _, err := readFrame(c.Conn, frameSlack); err != nil {
		return fmt.Errorf("start the agent of a session: %w", err)
	}
	if err := c.Conn.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("start the agent of a session: %w", err)
	}
	return nil
}

// kernels adds the commands of the kernels that can be had here, and returns their
// runtimes.
func (x *Executor) kernels(ctx context.Context, commands map[string][]string) []*Runtime {
	var out []*Runtime
	for _, k := range []struct {
		kind haft.Kind
		args []string
	}{
		{haft.KindBash, []string{"--norc", "--noprofile", "-c", bashKernel}},
		{haft.KindJavaScript, []string{"-e", nodeKernel}},
	} {
		// What is missing is missing in the session, which says so when it is asked for.
		if rt, err := x.finder.Find(ctx, k.kind, x.cfg.Hints[k.kind]); err == nil {
			commands[string(k.kind)] = append(slices.Clone(rt.Argv), k.args...)
			out = append(out, rt)
		}
	}
	return out
}

// sessionPlan says how the cells of sessions are made: as those of calls, with more
// programs.
func (r *run) sessionPlan(others []*Runtime, head []byte) cell.Plan {
	rt := *r.rt
	needs := hosts(rt.Mounts)
	for _, o := range others {
		needs = append(needs, hosts(o.Mounts)...)
		rt.Digest += o.Digest
	}
	rt.Digest = "session" + rt.Digest
	rt.Mounts = mountsFor(rt.Argv[0], "", needs)
	r.rt = &rt
	plan := r.plan()
	plan.Spec.Collect = false
	paths := r.paths()
	plan.Warm = func(conn *sandbox.Pipe) error {
		if err := warm(conn, true); err != nil {
			return err
		}
		if err := load(conn, paths, sessionImports); err != nil {
			return err
		}
		return post(conn, frame(nil, head))
	}
	plan.Spoilt = nil
	if r.x.cfg.Cold || r.req.Workspace != nil { // no other session may meet its mount
		plan.Warm = nil
	}
	return plan
}
