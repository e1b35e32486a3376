package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"haft"
	"haft/internal/authority"
	"haft/sandbox"
)

// MaxToolFile is how large a file may be that a built-in tool reads or appends to.
const MaxToolFile = 50 << 20

// IsFileTool reports whether a built-in tool works on the workspace of its call; see package filetool.
func IsFileTool(name string) bool {
	return slices.Contains([]string{"open_files", "grep_files", "semantic_search_files", "list_files", "write_file"},
		name)
}

// IsSessionTool reports whether a built-in tool makes sessions, which mount the workspace of its call; see package
// session.
func IsSessionTool(name string) bool { return name == "run_code" || name == "run_command" }

// CheckRef reports why text cannot be the workspace of an agent: the name of one, or NAME:ro. Empty is none.
func CheckRef(text string) error {
	name, _ := strings.CutSuffix(text, ":ro")
	name, snapshot, is := strings.Cut(name, "@")
	if text != "" && (!validName(name) || is && !validName(snapshot)) {
		return invalid("/workspace", nameRule+"; NAME:ro is only read")
	}
	return nil
}

// RefAction is what calls of an agent with the workspace text, see [CheckRef], do to it. Whoever gives it to the agent
// must be allowed to do that: the agent does it for others, who may do more.
func RefAction(text string) haft.Action {
	return action(&haft.CallWorkspace{ReadOnly: strings.HasSuffix(text, ":ro")})
}

// inSession gives a call in a session the workspace, the packages and the sandbox that the session was made with, so
// that policies are asked about the call as it runs. A step of a chain can use the workspace of a session, but gives it
// none.
func inSession(ctx context.Context, s *Store, rules authority.Rules, c *haft.Call, t *haft.Tool) (err error) {
	if t.Version.Kind != haft.KindBuiltin || !IsSessionTool(t.Name) {
		if !c.Requirements.Empty() {
			return invalid("/requirements", "only calls that make a session bring packages: other tools have their own")
		}
		return nil
	}
	if c.Chain != "" {
		c.Workspace = nil
	}
	if s == nil || s.cfg.InSession == nil {
		return nil
	}
	w, needs, sandbox := s.cfg.InSession(c.Principal, c.Args)
	c.Sandbox = cmp.Or(c.Sandbox, sandbox)
	if c.Requirements.Empty() {
		c.Requirements = needs
	}
	if c.Workspace == nil {
		c.Workspace, err = s.Bind(ctx, rules, c.Principal, w)
	}
	return err
}

// Default gives a call the workspace of its session. Others get the one of their agent, if the call has none and its
// tool takes one: scripts do, and file tools. Those that only read files use it read-only.
func (s *Store) Default(ctx context.Context, rules authority.Rules, c *haft.Call, agent *haft.Agent,
	t *haft.Tool) error {
	if err := inSession(ctx, s, rules, c, t); err != nil {
		return err
	}
	light := t.Version.Kind == haft.KindBuiltin || t.Version.Kind == haft.KindMCP
	file := t.Version.Kind == haft.KindBuiltin && IsFileTool(t.Name)
	if c.Workspace != nil || agent == nil || agent.Workspace == "" || light && !file {
		return nil
	}
	name, readOnly := strings.CutSuffix(agent.Workspace, ":ro")
	if reads := t.Version.Annotations.ReadOnly; file && reads != nil && *reads {
		readOnly = true
	}
	w, err := s.Bind(ctx, rules, c.Principal, &haft.CallWorkspace{Name: name, ReadOnly: readOnly})
	if haft.CodeOf(err) == haft.CodeInvalid {
		return &haft.Error{Code: haft.CodeInvalid, Err: err, Message: "the workspace of the agent cannot be used: " +
			"it is not there, not shared, or a snapshot without :ro. See haft workspace list, and " +
			"haft agent set NAME --workspace WORKSPACE"}
	}
	c.Workspace = w
	return err
}

// same reports that a workspace is not the one that a call was allowed to use.
func (w *row) same(c *haft.CallWorkspace) error {
	if w.home != c.ID || !slices.Equal(w.Origins, c.Origins) {
		return conflict("the workspace is not the one that it was when the call was made: make the call again")
	}
	return nil
}

// A Tree is the files of a workspace that are read without a lease: a call may be writing them. It follows no link.
type Tree struct {
	files *os.Root
	looks places
}

// read runs do with the files of a workspace.
func (s *Store) read(ctx context.Context, w *row, do func(t *Tree) error) error {
	home, err := s.openHome(ctx, w)
	if err != nil {
		return err
	}
	defer home.Close() // only read
	files, err := openDir(home, w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return conflict("the workspace was restored meanwhile: try again")
	}
	if err != nil {
		return homeError(err)
	}
	defer files.Close() // only read
	return pathError(do(&Tree{files, s.looks}))
}

// List lists what is in a directory and below it, by path; empty means the whole workspace.
func (t *Tree) List(ctx context.Context, dir string) (*haft.WorkspaceListing, error) {
	files := t.files
	if dir != "" {
		if err := cmp.Or(checkPath(dir), parents(files, dir+"/", false, 0)); err != nil {
			return nil, err
		}
		sub, err := openDir(files, dir)
		if err != nil {
			return nil, pathError(err)
		}
		defer sub.Close() // only read
		files = sub
	}
	leave, err := t.looks.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return listTree(ctx, files, dir)
}

// Open opens a regular file, as long as it is now.
func (t *Tree) Open(at string) (*haft.WorkspaceEntry, io.ReadSeekCloser, error) {
	if err := cmp.Or(checkPath(at), parents(t.files, at, false, 0)); err != nil {
		return nil, nil, err
	}
	f, info, err := openFile(t.files, at)
	if err != nil {
		return nil, nil, pathError(err)
	}
	return new(entry(at, info)), content{io.NewSectionReader(f, 0, info.Size()), f}, nil
}

// ToolPath is the path in a workspace that a model means, which may name it as scripts see it.
func ToolPath(at string) string {
	if at == sandbox.WorkspaceDir {
		return ""
	}
	return strings.TrimPrefix(at, sandbox.WorkspaceDir+"/")
}

// ReadFor runs do with the files of the workspace that a call has by [Store.Mount].
func (s *Store) ReadFor(ctx context.Context, c *haft.CallWorkspace, do func(t *Tree) error) error {
	w, err := one(s.list(ctx, "home = $1", c.ID))
	if err == nil {
		err = w.same(c)
	}
	if err != nil {
		return err
	}
	return s.read(ctx, w, do)
}

// A WriteMode says what a write does to a file that is there.
type WriteMode string

// The modes of a write.
const (
	Create    WriteMode = "create" // refuses it
	Overwrite WriteMode = "overwrite"
	Append    WriteMode = "append"
)

// WriteFor writes a file into the workspace that a call has by [Store.Mount], while nobody else uses it. A file that
// is there stays as it was if the write fails.
func (s *Store) WriteFor(ctx context.Context, c *haft.CallWorkspace, at string, text string, mode WriteMode) error {
	if err := checkPath(at); err != nil {
		return err
	}
	w, err := one(s.list(ctx, "home = $1", c.ID))
	switch {
	case err != nil:
		return err
	case c.ReadOnly || isSnapshot(w.Name):
		return invalid("/workspace", "the workspace is read-only for this call")
	}
	if err := s.admit(w.Owner.Org); err != nil {
		return err
	}
	return s.change(ctx, w, func(home *os.Root, w *row, limit haft.WorkspaceSize) error {
		if err := w.same(c); err != nil {
			return err
		}
		files, err := openDir(home, w.dir)
		if err != nil {
			return homeError(err)
		}
		defer files.Close() // only read
		f := newFile{at: at, size: int64(len(text)), data: strings.NewReader(text), perm: 0o644}
		done, err := f.after(files, mode)
		if err != nil {
			return err
		}
		defer done()
		return s.put(home, w, limit, f)
	})
}

// after makes f what a write in a mode leaves, given the file that is there. Call done when it was written.
func (f *newFile) after(files *os.Root, mode WriteMode) (done func(), err error) {
	none := func() {}
	err = parents(files, f.at, false, 0)
	if haft.CodeOf(err) == haft.CodeNotFound {
		return none, nil // put makes the directories
	}
	if err != nil {
		return none, err
	}
	old, info, err := openFile(files, f.at)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, pathError(err)
	}
	done = func() { _ = old.Close() } // only read
	f.perm = info.Mode().Perm()
	switch {
	case mode == Create:
		err = conflict("there is a file at this path: choose another one, or the mode overwrite or append")
	case mode == Append && info.Size() > MaxToolFile:
		err = invalid("/path", fmt.Sprintf("the file has more than %d bytes: begin another one", MaxToolFile))
	case mode == Append:
		f.size, f.data = f.size+info.Size(), io.MultiReader(io.LimitReader(old, info.Size()), f.data)
	}
	if err != nil {
		done()
		return none, err
	}
	return done, nil
}
